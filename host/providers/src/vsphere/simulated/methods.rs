//! The methods that the host calls, as a vCenter answers them.

use super::config::OperationName;
use super::inventory;
use super::state::{Deed, State, fault_object};
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::fault;
use crate::vsphere::vcenter::{Call, Fault};
use crate::vsphere::words::{FaultView, Power};

/// Nothing to show for it.
pub(crate) fn nothing() -> Data {
    Data::List(Vec::new())
}

/// A fault from its words.
pub(crate) fn fault_of(view: &FaultView) -> Fault {
    fault::fault(view.kind.clone(), view.message.clone(), fault_object(view))
}

fn plain(kind: &str, message: &str) -> Fault {
    fault::fault(kind.to_owned(), message.to_owned(), Object::new(kind))
}

pub(crate) fn not_found() -> Fault {
    plain("ManagedObjectNotFound", "The object has already been deleted or has not been completely created.")
}

/// The fault of an operation that the VM's power does not allow.
pub(crate) fn invalid_power(requested: Power, existing: Power) -> FaultView {
    FaultView {
        kind: "InvalidPowerState".to_owned(),
        message: "The attempted operation cannot be performed in the current state.".to_owned(),
        existing: Some(power_word(existing).to_owned()),
        requested: Some(power_word(requested).to_owned()),
    }
}

fn power_word(power: Power) -> &'static str {
    match power {
        Power::On => "poweredOn",
        Power::Off => "poweredOff",
        Power::Suspended => "suspended",
    }
}

impl State {
    /// Carries a call out, but for waiting.
    pub(crate) fn answer(&mut self, call: &Call) -> Result<Data, Fault> {
        match call.method {
            "RetrieveServiceContent" => return Ok(inventory::content().into()),
            "Login" => return self.login(call),
            _ if !self.logged_in => {
                return Err(plain("NotAuthenticated", "The session is not authenticated."));
            }
            _ => {}
        }
        match call.method {
            "Logout" => {
                self.logged_in = false;
                self.collectors.clear();
                self.views.clear();
                Ok(nothing())
            }
            "FindByInventoryPath" => {
                Ok(self.find_path(&text(call, "inventoryPath")).map_or(nothing(), Data::Ref))
            }
            "FindAllByUuid" => Ok(self.find_uuid(call).into()),
            "FindByUuid" => Ok(self.find_uuid(call).into_iter().next().map_or(nothing(), Data::Ref)),
            "RetrievePropertiesEx" => self.retrieve(call),
            "CreatePropertyCollector" | "CreateFilter" | "CreateListView" | "WaitForUpdatesEx"
                if !self.watches_work =>
            {
                Err(plain("NotSupported", "The operation is not supported on the object."))
            }
            "CreatePropertyCollector" => Ok(Data::Ref(self.make_collector())),
            "CreateFilter" => self.make_filter(call),
            "DestroyPropertyCollector" => {
                self.collectors.remove(&call.target.id).map(|_| nothing()).ok_or_else(not_found)
            }
            "CreateListView" => self.make_view(call),
            "ModifyListView" => self.change_view(call),
            "DestroyView" => self.views.remove(&call.target.id).map(|_| nothing()).ok_or_else(not_found),
            "CloneVM_Task" => self.clone_vm(call),
            "ReconfigVM_Task" => self.reconfigure(call),
            "PowerOnVM_Task" => self.on_vm(call, OperationName::PowerOn, Deed::Power(Power::On)),
            "PowerOffVM_Task" => self.on_vm(call, OperationName::PowerOff, Deed::Power(Power::Off)),
            "Destroy_Task" => self.on_vm(call, OperationName::Destroy, Deed::Destroy),
            "ShutdownGuest" => self.shut_down(call),
            method => Err(plain("NotSupported", &format!("{method} is not simulated"))),
        }
    }

    fn login(&mut self, call: &Call) -> Result<Data, Fault> {
        if !self.login_works {
            let message = "Cannot complete login due to an incorrect user name or password.";
            return Err(plain("InvalidLogin", message));
        }
        self.logged_in = true;
        Ok(Object::new("UserSession")
            .with("key", "session-1")
            .with("userName", text(call, "userName"))
            .into())
    }

    fn find_path(&self, path: &str) -> Option<MoRef> {
        if let Some(found) = self.inventory.find(path) {
            return Some(found);
        }
        let (above, name) = path.rsplit_once('/')?;
        let folder = self.inventory.find(above)?;
        let name = name.replace("%2f", "/").replace("%25", "%");
        self.vm_named(&folder, &name)
    }

    pub(crate) fn vm_named(&self, folder: &MoRef, name: &str) -> Option<MoRef> {
        let found = self.vms.iter().find(|(_, vm)| vm.folder == *folder && vm.name == name);
        found.map(|(id, _)| MoRef::new("VirtualMachine", id))
    }

    fn find_uuid(&self, call: &Call) -> Vec<MoRef> {
        let uuid = text(call, "uuid");
        let instance = call.parameters.get("instanceUuid").and_then(Data::bool).unwrap_or(false);
        let datacenter = call.parameters.get("datacenter").and_then(Data::reference);
        let matching = self.vms.iter().filter(|(_, vm)| {
            let own = if instance { &vm.instance_uuid } else { &vm.bios_uuid };
            let here = datacenter.is_none_or(|datacenter| self.inventory.is_below(&vm.folder, datacenter));
            vm.accessible && here && !own.is_empty() && own.eq_ignore_ascii_case(&uuid)
        });
        matching.map(|(id, _)| MoRef::new("VirtualMachine", id)).collect()
    }

    fn retrieve(&self, call: &Call) -> Result<Data, Fault> {
        let specs = call.parameters.get("specSet").map(Data::items).unwrap_or_default();
        let mut objects = Vec::new();
        for spec in specs {
            let lenient = spec.get("reportMissingObjectsInResults").and_then(Data::bool).unwrap_or(false);
            for object in
                spec.items_of("objectSet").iter().filter_map(|object| object.get("obj")?.reference())
            {
                match self.selected(object, spec) {
                    Some(properties) => {
                        let set: Vec<Object> = properties
                            .into_iter()
                            .map(|(name, value)| {
                                Object::new("DynamicProperty").with("name", name).with("val", value)
                            })
                            .collect();
                        objects.push(Object::new("ObjectContent").with("obj", object).with("propSet", set));
                    }
                    None if lenient => {}
                    None => return Err(not_found()),
                }
            }
        }
        Ok(Object::new("RetrieveResult").with("objects", objects).into())
    }

    /// The properties of an object that a specification names; none where it is not there.
    pub(crate) fn selected(&self, object: &MoRef, spec: &Data) -> Option<Vec<(String, Data)>> {
        let all = self.properties(object)?;
        let of_kind = spec.items_of("propSet").iter().filter(|set| set.text_of("type") == object.kind);
        let paths = of_kind.flat_map(|set| set.items_of("pathSet")).filter_map(Data::text);
        Some(
            paths
                .filter_map(|path| all.get(&*path).map(|value| (path.into_owned(), value.clone())))
                .collect(),
        )
    }

    // ---- operations ----------------------------------------------------------------------------------------------

    fn clone_vm(&mut self, call: &Call) -> Result<Data, Fault> {
        if !self.vms.contains_key(&call.target.id) {
            return Err(not_found());
        }
        let spec = call.parameters.get("spec").ok_or_else(|| invalid_argument("spec"))?;
        let location = spec.get("location").ok_or_else(|| invalid_argument("spec.location"))?;
        let reference = |data: Option<&Data>, name: &str| {
            data.and_then(Data::reference).cloned().ok_or_else(|| invalid_argument(name))
        };
        let folder = reference(call.parameters.get("folder"), "folder")?;
        let datastore = reference(location.get("datastore"), "spec.location.datastore")?;
        let pool = reference(location.get("pool"), "spec.location.pool")?;
        if [&folder, &datastore, &pool].into_iter().any(|one| !self.inventory.contains(one)) {
            return Err(not_found());
        }
        let config = spec.get("config").and_then(Data::object).cloned().unwrap_or_default();
        let deed = Deed::Clone { name: text(call, "name"), folder, datastore, config };
        Ok(Data::Ref(self.start(OperationName::Clone, &call.target, deed)))
    }

    fn reconfigure(&mut self, call: &Call) -> Result<Data, Fault> {
        let spec = call.parameters.get("spec").ok_or_else(|| invalid_argument("spec"))?;
        let extra = extra_of(spec);
        self.on_vm(call, OperationName::Reconfigure, Deed::Reconfigure { extra })
    }

    fn on_vm(&mut self, call: &Call, operation: OperationName, deed: Deed) -> Result<Data, Fault> {
        if !self.vms.contains_key(&call.target.id) {
            return Err(not_found());
        }
        Ok(Data::Ref(self.start(operation, &call.target, deed)))
    }

    fn shut_down(&mut self, call: &Call) -> Result<Data, Fault> {
        let vm = self.vms.get_mut(&call.target.id).ok_or_else(not_found)?;
        if vm.power != Power::On {
            return Err(fault_of(&invalid_power(Power::On, vm.power)));
        }
        if !vm.tools_running {
            let message =
                "Cannot complete operation because VMware Tools is not running in this virtual machine.";
            return Err(plain("ToolsUnavailable", message));
        }
        vm.off_at = Some(tokio::time::Instant::now() + super::due::SHUTDOWN);
        self.calls.push_back(format!("shutdown-guest {}", call.target.id));
        self.version += 1;
        Ok(nothing())
    }
}

/// The extra configuration of a specification.
pub(crate) fn extra_of(spec: &Data) -> Vec<(String, String)> {
    let options = spec.items_of("extraConfig").iter();
    options.map(|option| (option.text_of("key").into_owned(), option.text_of("value").into_owned())).collect()
}

fn invalid_argument(property: &str) -> Fault {
    let detail = Object::new("InvalidArgument").with("invalidProperty", property);
    fault::fault(
        "InvalidArgument".to_owned(),
        format!("A specified parameter was not correct: {property}"),
        detail,
    )
}

fn text(call: &Call, name: &str) -> String {
    call.parameters.get(name).and_then(Data::text).unwrap_or_default().into_owned()
}
