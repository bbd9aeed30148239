//! The provider's operations, as plugins give them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The marker of ownership among a VM's extra configuration: `namespace/name/uid` of its object.
pub const OWNER_KEY: &str = "reconcilers.owner";

/// The marker of what a VM was made for together with others, as for one machine class.
pub const GROUP_KEY: &str = "reconcilers.group";

/// Who a VM has to belong to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// UID of the object.
    pub uid: String,
    /// The instance UUID that the clone was given, where it is not the UID.
    #[serde(default)]
    pub instance_uuid: Option<String>,
    /// The BIOS UUID that the object knows.
    #[serde(default)]
    pub bios_uuid: Option<String>,
}

/// A network card of a clone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloneNic {
    /// Inventory path or name of the network.
    pub network: String,
    /// A MAC address of one's own.
    #[serde(default)]
    pub mac: Option<String>,
}

/// How a clone's disks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloneMode {
    /// Copied.
    FullClone,
    /// On top of a snapshot's.
    LinkedClone,
}

/// What is not to be seen by anybody.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sensitive {
    /// Extra configuration, such as user data.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
}

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(struck out)")
    }
}

/// Arguments of the operation `clone`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloneVm {
    /// The vCenter.
    pub server: String,
    /// The clone's name.
    pub name: String,
    /// Inventory path of the datacenter.
    pub datacenter: String,
    /// As in [`super::AskPlacement`].
    pub template: String,
    /// As in [`super::AskPlacement`].
    #[serde(default)]
    pub folder: Option<String>,
    /// As in [`super::AskPlacement`].
    #[serde(default)]
    pub datastore: Option<String>,
    /// As in [`super::AskPlacement`].
    #[serde(default)]
    pub resource_pool: Option<String>,
    /// How its disks are made.
    pub clone_mode: CloneMode,
    /// As in [`super::AskPlacement`].
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The instance UUID that it is given.
    pub instance_uuid: String,
    /// `namespace/name/uid` of its object.
    pub owner: String,
    /// What it is made for together with others: the question `vms-of-group` finds it by that.
    #[serde(default)]
    pub group: Option<String>,
    /// Virtual CPUs.
    pub num_cpus: i64,
    /// Cores of a socket; none to leave that to vCenter.
    #[serde(default)]
    pub num_cores_per_socket: Option<i64>,
    /// Memory, in MiB.
    pub memory_mib: i64,
    /// Size of the first disk, in GiB; none for the template's.
    #[serde(default)]
    pub disk_gib: Option<i64>,
    /// Its cards, in order.
    #[serde(default)]
    pub nics: Vec<CloneNic>,
    /// Extra configuration.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
    /// What is not to be seen by anybody.
    #[serde(default)]
    pub sensitive: Sensitive,
}

/// Arguments of the operation `reconfigure`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reconfigure {
    /// The vCenter.
    pub server: String,
    /// Managed object id of the VM.
    pub vm: String,
    /// Who it has to belong to.
    pub owner: Owner,
    /// What to set; an empty value takes the key away.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
    /// What is not to be seen by anybody.
    #[serde(default)]
    pub sensitive: Sensitive,
}

/// Arguments of `power-on`, `power-off`, `shutdown-guest` and `destroy`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActOnVm {
    /// The vCenter.
    pub server: String,
    /// Managed object id of the VM.
    pub vm: String,
    /// Who it has to belong to.
    pub owner: Owner,
}
