//! What a simulated vCenter knows: its VMs and tasks, and what is due when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::collector::Collector;
use super::config::{NicConfig, OperationName, ServerConfig, TaskConfig, TaskSeconds, VmConfig};
use super::faults::Faults;
use super::inventory::{self, Inventory};
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::properties::Properties;
use crate::vsphere::words::{FaultView, OWNER_KEY, Power};

/// Everything of one vCenter.
pub(crate) struct State {
    pub(crate) inventory: Inventory,
    pub(crate) vms: BTreeMap<String, Vm>,
    pub(crate) tasks: BTreeMap<String, Task>,
    pub(crate) collectors: BTreeMap<String, Collector>,
    /// List views, by id.
    pub(crate) views: BTreeMap<String, BTreeSet<MoRef>>,
    pub(crate) faults: Faults,
    pub(crate) logged_in: bool,
    pub(crate) login_works: bool,
    pub(crate) watches_work: bool,
    pub(crate) task_seconds: TaskSeconds,
    pub(crate) ip_seconds: Option<u64>,
    /// Counts changes.
    pub(crate) version: u64,
    /// Operations started since they were looked at.
    pub(crate) calls: VecDeque<String>,
    /// Tasks of one VM that were under way at once, at most.
    pub(crate) tasks_at_once: usize,
    pub(crate) seed: u64,
    last_vm: u64,
    last_task: u64,
    pub(crate) last_collector: u64,
    pub(crate) last_view: u64,
}

/// A VM.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub(crate) name: String,
    pub(crate) folder: MoRef,
    pub(crate) instance_uuid: String,
    pub(crate) bios_uuid: String,
    pub(crate) template: bool,
    pub(crate) power: Power,
    pub(crate) accessible: bool,
    /// Sizes of its disks, in KiB.
    pub(crate) disks: Vec<i64>,
    pub(crate) snapshot: Option<String>,
    pub(crate) nics: Vec<NicConfig>,
    pub(crate) extra: BTreeMap<String, String>,
    pub(crate) tools_running: bool,
    pub(crate) host: MoRef,
    pub(crate) recent: Vec<MoRef>,
    /// When its cards get addresses, where they are to.
    pub(crate) ips_at: Option<Instant>,
    /// When the guest has shut itself down, where it is to.
    pub(crate) off_at: Option<Instant>,
}

/// A task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) state: String,
    pub(crate) operation: Option<OperationName>,
    pub(crate) entity: MoRef,
    pub(crate) result: Option<MoRef>,
    pub(crate) fault: Option<FaultView>,
    /// What it does at its end, and when it runs and ends; none once it has.
    pub(crate) pending: Option<Pending>,
}

/// What a task is to do.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) deed: Deed,
    pub(crate) runs: Instant,
    pub(crate) ends: Instant,
}

/// What a task does at its end.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Clone { name: String, folder: MoRef, datastore: MoRef, config: Object },
    Reconfigure { extra: Vec<(String, String)> },
    Power(Power),
    Destroy,
    Fail(FaultView),
}

impl State {
    pub(crate) fn new(config: &ServerConfig, seed: u64) -> Self {
        let mut state = Self {
            inventory: Inventory::new(&config.inventory),
            vms: BTreeMap::new(),
            tasks: BTreeMap::new(),
            collectors: BTreeMap::new(),
            views: BTreeMap::new(),
            faults: Faults::default(),
            logged_in: false,
            login_works: true,
            watches_work: true,
            task_seconds: config.task_seconds,
            ip_seconds: config.ip_seconds,
            version: 0,
            calls: VecDeque::new(),
            tasks_at_once: 0,
            seed,
            last_vm: 0,
            last_task: 0,
            last_collector: 0,
            last_view: 0,
        };
        let datacenter = config.inventory.datacenters.first().cloned().unwrap_or_else(|| "/DC0".to_owned());
        state.add_template(&format!("{datacenter}/vm/tpl"));
        config.vms.iter().for_each(|vm| state.add_vm(vm));
        config.tasks.iter().for_each(|task| state.add_task(task));
        state
    }

    pub(crate) fn add_template(&mut self, path: &str) {
        let number = self.last_vm + 1;
        self.add_vm(&VmConfig {
            vm: format!("vm-{number}"),
            path: path.to_owned(),
            instance_uuid: self.uuid(number, 1),
            bios_uuid: self.uuid(number, 2),
            template: true,
            power: Power::Off,
            accessible: true,
            owner: None,
            disk_gib: vec![10],
            snapshot: None,
            nics: vec![NicConfig {
                mac: "00:50:56:ff:00:01".to_owned(),
                network: "VM Network".to_owned(),
                ips: vec![],
            }],
            extra_config: BTreeMap::new(),
            tools_running: None,
            host: "esx-01".to_owned(),
        });
    }

    pub(crate) fn add_vm(&mut self, config: &VmConfig) {
        let (above, name) = config.path.rsplit_once('/').unwrap_or(("", &config.path));
        let Some(folder) = self.inventory.add("folder", above) else { return };
        let mut extra = config.extra_config.clone();
        if let Some(owner) = &config.owner {
            extra.insert(OWNER_KEY.to_owned(), owner.clone());
        }
        let host = self.inventory.host(&config.host);
        self.last_vm = self.last_vm.max(MoRef::new("VirtualMachine", &config.vm).number_or_zero());
        let vm = Vm {
            name: name.to_owned(),
            folder,
            instance_uuid: config.instance_uuid.clone(),
            bios_uuid: config.bios_uuid.clone(),
            template: config.template,
            power: config.power,
            accessible: config.accessible,
            disks: config.disk_gib.iter().map(|gib| gib.saturating_mul(1024 * 1024)).collect(),
            snapshot: config.snapshot.clone(),
            nics: config.nics.clone(),
            extra,
            tools_running: config.tools_running.unwrap_or(config.power == Power::On),
            host,
            recent: Vec::new(),
            ips_at: None,
            off_at: None,
        };
        self.vms.insert(config.vm.clone(), vm);
        self.version += 1;
    }

    pub(crate) fn add_task(&mut self, config: &TaskConfig) {
        let reference = MoRef::new("Task", &config.task);
        self.last_task = self.last_task.max(reference.number_or_zero());
        let vm = config.vm.as_deref().map(|vm| MoRef::new("VirtualMachine", vm));
        let task = Task {
            state: config.state.clone(),
            operation: config.operation,
            entity: vm.clone().unwrap_or_else(inventory::root),
            result: vm.filter(|_| config.operation.is_none_or(|operation| operation == OperationName::Clone)),
            fault: config.fault.clone(),
            pending: None,
        };
        self.tasks.insert(config.task.clone(), task);
        self.version += 1;
    }

    /// A UUID that only the seed decides on.
    pub(crate) fn uuid(&self, number: u64, which: u64) -> String {
        let (seed, number) = (self.seed & 0xffff_ffff, number & 0xffff_ffff_ffff);
        format!("{seed:08x}-{which:04x}-4000-8000-{number:012x}")
    }

    pub(crate) fn next_vm(&mut self) -> (String, u64) {
        self.last_vm += 1;
        (format!("vm-{}", self.last_vm), self.last_vm)
    }

    /// Starts a task.
    pub(crate) fn start(&mut self, operation: OperationName, entity: &MoRef, deed: Deed) -> MoRef {
        self.last_task += 1;
        let reference = MoRef::new("Task", &format!("task-{}", self.last_task));
        let takes = Duration::from_secs(self.task_seconds.of(operation));
        let now = Instant::now();
        let deed = match self.faults.of_task(operation) {
            Some(fault) => Deed::Fail(fault),
            None => deed,
        };
        let subject = match &deed {
            Deed::Clone { name, .. } => name.clone(),
            Deed::Reconfigure { .. } | Deed::Power(_) | Deed::Destroy | Deed::Fail(_) => entity.id.clone(),
        };
        self.calls.push_back(format!("{} {subject}", operation.word()));
        let pending = Pending { deed, runs: now + takes / 5, ends: now + takes };
        let task = Task {
            state: "queued".to_owned(),
            operation: Some(operation),
            entity: entity.clone(),
            result: None,
            fault: None,
            pending: Some(pending),
        };
        self.tasks.insert(reference.id.clone(), task);
        if let Some(vm) = self.vms.get_mut(&entity.id) {
            vm.recent.push(reference.clone());
        }
        if operation != OperationName::Clone {
            let of_vm = self.tasks.values().filter(|task| task.entity == *entity && task.pending.is_some());
            self.tasks_at_once = self.tasks_at_once.max(of_vm.count());
        }
        self.version += 1;
        reference
    }

    // ---- properties ----------------------------------------------------------------------------------------------

    /// All properties of an object; none where it is not there.
    pub(crate) fn properties(&self, reference: &MoRef) -> Option<Properties> {
        match reference.kind.as_str() {
            "VirtualMachine" => self.vms.get(&reference.id).map(|vm| self.vm_properties(&reference.id, vm)),
            "Task" => self.tasks.get(&reference.id).map(task_properties),
            _ if *reference == inventory::switch() => Some(inventory::switch_properties()),
            "Folder" => {
                self.inventory.properties(reference).map(|properties| self.with_vms(reference, properties))
            }
            _ => self.inventory.properties(reference),
        }
    }

    /// A folder's properties, with the VMs among its children.
    fn with_vms(&self, folder: &MoRef, mut properties: Properties) -> Properties {
        let mut children: Vec<MoRef> = properties
            .get("childEntity")
            .map(Data::items)
            .unwrap_or_default()
            .iter()
            .filter_map(Data::reference)
            .cloned()
            .collect();
        let vms = self.vms.iter().filter(|(_, vm)| vm.folder == *folder);
        children.extend(vms.map(|(id, _)| MoRef::new("VirtualMachine", id)));
        properties.insert("childEntity".to_owned(), children.into());
        properties
    }

    fn vm_properties(&self, id: &str, vm: &Vm) -> Properties {
        let mut properties = Properties::new();
        let mut set = |path: &str, value: Data| {
            properties.insert(path.to_owned(), value);
        };
        let word = |kind: &str, text: &str| Data::Typed { kind: kind.to_owned(), text: text.to_owned() };
        set("name", Data::any_text(&vm.name));
        set("recentTask", vm.recent.clone().into());
        let power = match vm.power {
            Power::On => "poweredOn",
            Power::Off => "poweredOff",
            Power::Suspended => "suspended",
        };
        set("runtime.powerState", word("VirtualMachinePowerState", power));
        let connection = if vm.accessible { "connected" } else { "inaccessible" };
        set("runtime.connectionState", word("VirtualMachineConnectionState", connection));
        if self.inventory.contains(&vm.host) {
            set("runtime.host", (&vm.host).into());
        }
        let tools = if vm.tools_running { "guestToolsRunning" } else { "guestToolsNotRunning" };
        set("guest.toolsRunningStatus", Data::any_text(tools));
        set(
            "guest.guestStateChangeSupported",
            word("boolean", if vm.tools_running { "true" } else { "false" }),
        );
        if vm.accessible {
            set("config.uuid", Data::any_text(&vm.bios_uuid));
            set("config.instanceUuid", Data::any_text(&vm.instance_uuid));
            set("config.template", word("boolean", if vm.template { "true" } else { "false" }));
            let option = |(key, value): (&String, &String)| {
                Object::new("OptionValue").with("key", key.as_str()).with("value", Data::any_text(value))
            };
            set("config.extraConfig", vm.extra.iter().map(option).collect::<Vec<_>>().into());
            set("config.hardware.device", self.devices(vm).into());
        }
        set("guest.net", guest_nics(vm).into());
        if let Some(name) = &vm.snapshot {
            let reference =
                MoRef::new("VirtualMachineSnapshot", &format!("snapshot-{}", id.trim_start_matches("vm-")));
            let tree = Object::new("VirtualMachineSnapshotTree")
                .with("snapshot", &reference)
                .with("name", name.as_str());
            let info = Object::new("VirtualMachineSnapshotInfo");
            set(
                "snapshot",
                info.with("currentSnapshot", reference).with("rootSnapshotList", vec![tree]).into(),
            );
        }
        properties
    }

    fn devices(&self, vm: &Vm) -> Vec<Object> {
        let disks = vm.disks.iter().zip(0_i64..).map(|(size, number)| {
            let backing = Object::new("VirtualDiskFlatVer2BackingInfo").with("diskMode", "persistent");
            Object::new("VirtualDisk")
                .with("key", 2000 + number)
                .with("backing", backing)
                .with("controllerKey", 1000_i64)
                .with("unitNumber", number)
                .with("capacityInKB", *size)
        });
        let cards = vm.nics.iter().zip(0_i64..).map(|(nic, number)| {
            let group = self.inventory.named("DistributedVirtualPortgroup", &nic.network);
            let backing = match group {
                Some(group) => {
                    let port =
                        Object::new("DistributedVirtualSwitchPortConnection").with("portgroupKey", group.id);
                    Object::new("VirtualEthernetCardDistributedVirtualPortBackingInfo").with("port", port)
                }
                None => Object::new("VirtualEthernetCardNetworkBackingInfo")
                    .with("deviceName", nic.network.as_str()),
            };
            Object::new("VirtualVmxnet3")
                .with("key", 4000 + number)
                .with("backing", backing)
                .with(
                    "connectable",
                    Object::new("VirtualDeviceConnectInfo").with("connected", vm.power == Power::On),
                )
                .with("addressType", "assigned")
                .with("macAddress", nic.mac.as_str())
        });
        disks.chain(cards).collect()
    }
}

fn guest_nics(vm: &Vm) -> Vec<Object> {
    let reported = vm.nics.iter().filter(|nic| !nic.ips.is_empty());
    reported
        .map(|nic| {
            Object::new("GuestNicInfo")
                .with("network", nic.network.as_str())
                .with("ipAddress", nic.ips.iter().map(String::as_str).collect::<Vec<_>>())
                .with("macAddress", nic.mac.as_str())
                .with("connected", true)
        })
        .collect()
}

fn task_properties(task: &Task) -> Properties {
    let mut properties = Properties::new();
    properties.insert(
        "info.state".to_owned(),
        Data::Typed { kind: "TaskInfoState".to_owned(), text: task.state.clone() },
    );
    properties.insert("info.entity".to_owned(), (&task.entity).into());
    if let Some(operation) = task.operation {
        properties.insert("info.descriptionId".to_owned(), Data::any_text(operation.description()));
    }
    if let Some(result) = &task.result {
        properties.insert("info.result".to_owned(), result.into());
    }
    if let Some(fault) = &task.fault {
        let detail = fault_object(fault);
        let localized = Object::new("LocalizedMethodFault")
            .with("fault", detail)
            .with("localizedMessage", fault.message.as_str());
        properties.insert("info.error".to_owned(), localized.into());
    }
    properties
}

/// A fault as vCenter has it.
pub(crate) fn fault_object(fault: &FaultView) -> Object {
    Object::new(&fault.kind)
        .maybe("requestedState", fault.requested.as_deref())
        .maybe("existingState", fault.existing.as_deref())
}

impl MoRef {
    /// The number in the id, for counting on from.
    pub(crate) fn number_or_zero(&self) -> u64 {
        Some(self.number()).filter(|number| *number < u64::MAX).unwrap_or_default()
    }
}
