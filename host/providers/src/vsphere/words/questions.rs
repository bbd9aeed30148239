//! The provider's questions, as plugins put them.

use serde::Deserialize;

/// Arguments of the question `task`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskTask {
    /// The vCenter, by its name in the host's configuration.
    pub server: String,
    /// Managed object id of the task.
    pub task: String,
}

/// Arguments of the question `vm`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskVm {
    /// The vCenter.
    pub server: String,
    /// Managed object id of the VM.
    pub vm: String,
}

/// Which UUID a VM is looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UuidKind {
    /// The one that the clone was given.
    Instance,
    /// The one that the guest sees.
    Bios,
}

/// Arguments of the question `vm-by-uuid`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskVmByUuid {
    /// The vCenter.
    pub server: String,
    /// Inventory path of the datacenter.
    pub datacenter: String,
    /// Which UUID.
    pub kind: UuidKind,
    /// The UUID, in any case.
    pub uuid: String,
}

/// Arguments of the question `vm-by-name`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskVmByName {
    /// The vCenter.
    pub server: String,
    /// Inventory path of the datacenter.
    pub datacenter: String,
    /// Inventory path of the folder; none for the datacenter's own.
    #[serde(default)]
    pub folder: Option<String>,
    /// The name.
    pub name: String,
}

/// Arguments of the question `vms-of-group`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskVmsOfGroup {
    /// The vCenter.
    pub server: String,
    /// Inventory path of the datacenter.
    pub datacenter: String,
    /// As in [`AskVmByName`]. VMs in folders below it are not looked at.
    #[serde(default)]
    pub folder: Option<String>,
    /// What [`super::CloneVm::group`] was.
    pub group: String,
}

/// Arguments of the question `placement`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskPlacement {
    /// The vCenter.
    pub server: String,
    /// Inventory path of the datacenter.
    pub datacenter: String,
    /// Instance UUID, inventory path or name.
    pub template: String,
    /// Inventory path or name; none for the datacenter's own.
    #[serde(default)]
    pub folder: Option<String>,
    /// Inventory path or name; none for the only one.
    #[serde(default)]
    pub datastore: Option<String>,
    /// Inventory path or name; none for the only one.
    #[serde(default)]
    pub resource_pool: Option<String>,
    /// Inventory paths or names.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Name of a snapshot of the template; none for its current one.
    #[serde(default)]
    pub snapshot: Option<String>,
}
