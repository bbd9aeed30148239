//! How a simulated vCenter starts out.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::vsphere::words::{FaultView, Power};

/// The provider's twin: vCenters by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TwinConfig {
    /// None for one of the default name with the default inventory.
    #[serde(default)]
    pub servers: Option<BTreeMap<String, ServerConfig>>,
}

/// One vCenter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerConfig {
    /// What is there besides VMs.
    #[serde(default)]
    pub inventory: InventoryConfig,
    /// VMs besides the default template.
    #[serde(default)]
    pub vms: Vec<VmConfig>,
    /// Tasks that are there already.
    #[serde(default)]
    pub tasks: Vec<TaskConfig>,
    /// How long tasks take.
    #[serde(default)]
    pub task_seconds: TaskSeconds,
    /// How long after power-on cards get addresses; `null` for never.
    #[serde(default = "ip_seconds")]
    pub ip_seconds: Option<u64>,
}

fn ip_seconds() -> Option<u64> {
    Some(10)
}

/// What is there besides VMs. A list that is given replaces the default one.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InventoryConfig {
    /// Paths.
    pub datacenters: Vec<String>,
    /// Paths of VM folders; each datacenter has its four folders anyway.
    pub folders: Vec<String>,
    /// Paths: a compute resource, then pools.
    pub resource_pools: Vec<String>,
    /// Datastores.
    pub datastores: Vec<DatastoreConfig>,
    /// Paths; one named `VM Network` is a standard network, others are distributed port groups.
    pub networks: Vec<String>,
}

impl Default for InventoryConfig {
    fn default() -> Self {
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        Self {
            datacenters: paths(&["/DC0"]),
            folders: paths(&["/DC0/vm/team-a"]),
            resource_pools: paths(&["/DC0/host/C0/Resources"]),
            datastores: vec![DatastoreConfig { path: "/DC0/datastore/ds0".to_owned(), free_gib: 1000 }],
            networks: paths(&["/DC0/network/DC0_DVPG0", "/DC0/network/VM Network"]),
        }
    }
}

/// A datastore.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatastoreConfig {
    /// Path.
    pub path: String,
    /// Free space, in GiB.
    #[serde(rename = "freeGiB", default = "free_gib")]
    pub free_gib: i64,
}

fn free_gib() -> i64 {
    1000
}

/// A VM.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmConfig {
    /// Managed object id.
    pub vm: String,
    /// Inventory path.
    pub path: String,
    /// Instance UUID.
    #[serde(default)]
    pub instance_uuid: String,
    /// BIOS UUID.
    #[serde(default)]
    pub bios_uuid: String,
    /// Whether it is a template.
    #[serde(default)]
    pub template: bool,
    /// Its power.
    #[serde(default = "off")]
    pub power: Power,
    /// Whether its configuration can be seen.
    #[serde(default = "yes")]
    pub accessible: bool,
    /// The marker of ownership.
    #[serde(default)]
    pub owner: Option<String>,
    /// Sizes of its disks, in GiB.
    #[serde(rename = "diskGiB", default)]
    pub disk_gib: Vec<i64>,
    /// Name of its current snapshot.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// Its cards.
    #[serde(default)]
    pub nics: Vec<NicConfig>,
    /// Extra configuration.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
    /// Whether the guest's tools run; by default they do where it is on.
    #[serde(default)]
    pub tools_running: Option<bool>,
    /// Name of its host.
    #[serde(default = "host")]
    pub host: String,
}

fn off() -> Power {
    Power::Off
}

fn yes() -> bool {
    true
}

fn host() -> String {
    "esx-01".to_owned()
}

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NicConfig {
    /// MAC address; "" for none yet.
    #[serde(default)]
    pub mac: String,
    /// Name of its network.
    #[serde(default)]
    pub network: String,
    /// Addresses that the guest reports.
    #[serde(default)]
    pub ips: Vec<String>,
}

/// A task.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskConfig {
    /// Managed object id.
    pub task: String,
    /// `queued`, `running`, `success`, `error`, or any other word.
    pub state: String,
    /// What it is of.
    #[serde(default)]
    pub operation: Option<OperationName>,
    /// The VM that it is about or that it made.
    #[serde(default)]
    pub vm: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub fault: Option<FaultView>,
}

/// An operation with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationName {
    /// A clone.
    Clone,
    /// A change of configuration.
    Reconfigure,
    /// Power on.
    PowerOn,
    /// Power off.
    PowerOff,
    /// Destroy.
    Destroy,
}

impl OperationName {
    /// As vCenter describes a task of it.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Clone => "VirtualMachine.clone",
            Self::Reconfigure => "VirtualMachine.reconfigure",
            Self::PowerOn => "VirtualMachine.powerOn",
            Self::PowerOff => "VirtualMachine.powerOff",
            Self::Destroy => "VirtualMachine.destroy",
        }
    }

    /// As the log of calls has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Reconfigure => "reconfigure",
            Self::PowerOn => "power-on",
            Self::PowerOff => "power-off",
            Self::Destroy => "destroy",
        }
    }
}

/// How long tasks take, in seconds; the first fifth of it they are queued.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TaskSeconds {
    /// Of a clone.
    pub clone: u64,
    /// Of a change of configuration.
    pub reconfigure: u64,
    /// Of power on.
    pub power_on: u64,
    /// Of power off.
    pub power_off: u64,
    /// Of destroy.
    pub destroy: u64,
}

impl Default for TaskSeconds {
    fn default() -> Self {
        Self { clone: 30, reconfigure: 2, power_on: 3, power_off: 3, destroy: 2 }
    }
}

impl TaskSeconds {
    pub(crate) fn of(&self, operation: OperationName) -> u64 {
        match operation {
            OperationName::Clone => self.clone,
            OperationName::Reconfigure => self.reconfigure,
            OperationName::PowerOn => self.power_on,
            OperationName::PowerOff => self.power_off,
            OperationName::Destroy => self.destroy,
        }
    }
}
