//! What a test may have happen in a simulated vCenter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::config::{TaskConfig, VmConfig};
use super::faults::{CallFault, TaskFault};
use super::state::State;
use crate::twins::{TwinError, read};
use crate::vsphere::data::MoRef;
use crate::vsphere::words::{OWNER_KEY, Power};

/// A command, by its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    FailTask(TaskFault),
    FinishTasks(Nothing),
    ForgetTask(ForgetTask),
    AddTask(TaskConfig),
    AddVm(Box<VmConfig>),
    RemoveVm(OfVm),
    MoveVm(MoveVm),
    SetVm(Box<SetVm>),
    GuestIp(GuestIp),
    Fault(CallFault),
    ClearFaults(Nothing),
    DropSession(Nothing),
    Login(Works),
    Watches(Works),
    Restart(Nothing),
    Add(BTreeMap<What, String>),
    Remove(BTreeMap<What, String>),
    DatastoreFull(Path),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForgetTask {
    #[serde(default)]
    task: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfVm {
    vm: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveVm {
    vm: String,
    to: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetVm {
    vm: String,
    #[serde(default)]
    power: Option<Power>,
    #[serde(default)]
    accessible: Option<bool>,
    #[serde(default)]
    template: Option<bool>,
    #[serde(default)]
    instance_uuid: Option<String>,
    #[serde(default)]
    bios_uuid: Option<String>,
    #[serde(default)]
    tools_running: Option<bool>,
    #[serde(default)]
    owner: Option<String>,
    /// An empty value takes the key away.
    #[serde(default)]
    extra_config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuestIp {
    vm: String,
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    card: usize,
    ips: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Works {
    works: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum What {
    Template,
    Datacenter,
    Folder,
    Datastore,
    ResourcePool,
    Network,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Datacenter => "datacenter",
            Self::Folder => "folder",
            Self::Datastore => "datastore",
            Self::ResourcePool => "resourcePool",
            Self::Network => "network",
        }
    }
}

/// A command and the vCenter that it is for.
pub(crate) struct Order {
    pub(crate) server: Option<String>,
    pub(crate) command: Command,
}

impl Order {
    pub(crate) fn parse(command: &Value) -> Result<Self, TwinError> {
        let mut members = command.as_object().cloned().unwrap_or_default();
        let server = members.remove("server").and_then(|server| Some(server.as_str()?.to_owned()));
        let what = members.keys().next().cloned().unwrap_or_else(|| "a command".to_owned());
        Ok(Self { server, command: read(&what, &Value::Object(members))? })
    }
}

impl State {
    /// Has a command happen.
    pub(crate) fn obey(&mut self, command: Command) -> Result<(), TwinError> {
        self.version += 1;
        match command {
            Command::FailTask(fault) => self.faults.add_task(fault),
            Command::Fault(fault) => self.faults.add_call(fault),
            Command::ClearFaults(_) => self.faults.clear(),
            Command::FinishTasks(_) => self.finish_all(),
            Command::ForgetTask(ForgetTask { task: Some(task) }) => {
                self.tasks.remove(&task).ok_or(TwinError::Missing(task))?;
            }
            Command::ForgetTask(ForgetTask { task: None }) => {
                self.tasks.retain(|_, task| task.pending.is_some())
            }
            Command::AddTask(task) => self.add_task(&task),
            Command::AddVm(vm) => self.add_vm(&vm),
            Command::RemoveVm(OfVm { vm }) => {
                self.vms.remove(&vm).ok_or(TwinError::Missing(vm))?;
            }
            Command::MoveVm(MoveVm { vm, to }) => {
                let moved = self.vms.remove(&vm).ok_or(TwinError::Missing(vm))?;
                self.vms.insert(to, moved);
            }
            Command::SetVm(set) => self.set_vm(*set)?,
            Command::GuestIp(guest) => self.set_addresses(guest)?,
            Command::DropSession(_) => self.drop_session(),
            Command::Login(Works { works }) => self.login_works = works,
            Command::Watches(Works { works }) => {
                self.watches_work = works;
                if !works {
                    self.collectors.clear();
                    self.views.clear();
                }
            }
            Command::Restart(_) => self.restart(),
            Command::Add(all) => self.add_all(all)?,
            Command::Remove(all) => self.remove_all(all)?,
            Command::DatastoreFull(Path { path }) => {
                let datastore = self.inventory.find(&path).ok_or(TwinError::Missing(path))?;
                self.inventory.set_free(&datastore, 0);
            }
        }
        Ok(())
    }

    fn finish_all(&mut self) {
        let mut under_way: Vec<MoRef> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.pending.is_some())
            .map(|(id, _)| MoRef::new("Task", id))
            .collect();
        under_way.sort_by_key(MoRef::number);
        under_way.iter().for_each(|task| self.finish(&task.id));
    }

    fn drop_session(&mut self) {
        self.logged_in = false;
        self.collectors.clear();
        self.views.clear();
    }

    /// Tasks under way are lost with their effects: vCenter does not take them up again.
    fn restart(&mut self) {
        self.tasks.clear();
        self.vms.values_mut().for_each(|vm| vm.recent.clear());
        self.drop_session();
    }

    fn set_vm(&mut self, set: SetVm) -> Result<(), TwinError> {
        let vm = self.vms.get_mut(&set.vm).ok_or(TwinError::Missing(set.vm))?;
        match set.power {
            Some(Power::Off) => vm.switch_off(),
            Some(power) => vm.power = power,
            None => {}
        }
        vm.accessible = set.accessible.unwrap_or(vm.accessible);
        vm.template = set.template.unwrap_or(vm.template);
        vm.tools_running = set.tools_running.unwrap_or(vm.tools_running);
        vm.instance_uuid = set.instance_uuid.unwrap_or_else(|| vm.instance_uuid.clone());
        vm.bios_uuid = set.bios_uuid.unwrap_or_else(|| vm.bios_uuid.clone());
        let owner = set.owner.map(|owner| (OWNER_KEY.to_owned(), owner));
        for (key, value) in set.extra_config.into_iter().chain(owner) {
            if value.is_empty() {
                vm.extra.remove(&key)
            } else {
                vm.extra.insert(key, value)
            };
        }
        Ok(())
    }

    fn set_addresses(&mut self, guest: GuestIp) -> Result<(), TwinError> {
        let vm = self.vms.get_mut(&guest.vm).ok_or(TwinError::Missing(guest.vm))?;
        let nic = match &guest.mac {
            Some(mac) => vm.nics.iter_mut().find(|nic| nic.mac.eq_ignore_ascii_case(mac)),
            None => vm.nics.get_mut(guest.card),
        };
        nic.ok_or_else(|| TwinError::Missing("such card".to_owned()))?.ips = guest.ips;
        Ok(())
    }

    fn add_all(&mut self, all: BTreeMap<What, String>) -> Result<(), TwinError> {
        for (what, path) in all {
            match what {
                What::Template => self.add_template(&path),
                _ => self.inventory.add(what.word(), &path).map(|_| ()).ok_or(TwinError::Missing(path))?,
            }
        }
        Ok(())
    }

    fn remove_all(&mut self, all: BTreeMap<What, String>) -> Result<(), TwinError> {
        for (what, path) in all {
            let gone = match what {
                What::Template => {
                    let found = path
                        .rsplit_once('/')
                        .and_then(|(above, name)| self.vm_named(&self.inventory.find(above)?, name));
                    found.and_then(|vm| self.vms.remove(&vm.id)).map(|_| ())
                }
                _ => self.inventory.remove(&path).map(|_| ()),
            };
            gone.ok_or(TwinError::Missing(path))?;
        }
        Ok(())
    }
}
