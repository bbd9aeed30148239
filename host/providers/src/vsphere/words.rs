//! The provider's questions, operations and answers, as plugins put and read them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::vcenter::{self, CallError};

/// The marker of ownership among a VM's extra configuration: `namespace/name/uid` of its object.
pub const OWNER_KEY: &str = "reconcilers.owner";
/// Extra configuration that answers tell of.
pub const TOLD_KEYS: [&str; 3] = ["guestinfo.metadata", "guestinfo.metadata.encoding", OWNER_KEY];

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
    /// As in [`AskPlacement`].
    pub template: String,
    /// As in [`AskPlacement`].
    #[serde(default)]
    pub folder: Option<String>,
    /// As in [`AskPlacement`].
    #[serde(default)]
    pub datastore: Option<String>,
    /// As in [`AskPlacement`].
    #[serde(default)]
    pub resource_pool: Option<String>,
    /// How its disks are made.
    pub clone_mode: CloneMode,
    /// As in [`AskPlacement`].
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The instance UUID that it is given.
    pub instance_uuid: String,
    /// `namespace/name/uid` of its object.
    pub owner: String,
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

/// A VM's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Running.
    On,
    /// Not running.
    Off,
    /// Stopped midway; powering it on goes on from there.
    Suspended,
}

/// A network card as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicView {
    /// Device key.
    pub key: i64,
    /// MAC address as vCenter writes it; "" while there is none.
    pub mac: String,
    /// Name of its network; "" where that is not known.
    pub network: String,
    /// Whether it is plugged in.
    pub connected: bool,
    /// Addresses that the guest reports, as it writes them.
    pub ips: Vec<String>,
}

/// A VM as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmView {
    /// Managed object id.
    pub vm: String,
    /// Name.
    pub name: String,
    /// In small letters; "" while there is none.
    pub instance_uuid: String,
    /// In small letters; "" while there is none.
    pub bios_uuid: String,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs.
    pub power: Power,
    /// Whether its configuration can be seen; where not, the rest may be empty.
    pub accessible: bool,
    /// The marker of ownership.
    pub owner: Option<String>,
    /// Its cards, in vCenter's order.
    pub nics: Vec<NicView>,
    /// Extra configuration under [`TOLD_KEYS`].
    pub extra_config: BTreeMap<String, String>,
    /// Whether the guest's tools run.
    pub tools_running: bool,
    /// Whether the guest can be asked to shut down.
    pub guest_state_change_supported: bool,
    /// Name of its host; "" where that is not known.
    pub host: String,
}

/// A task as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Managed object id.
    pub task: String,
    /// `queued`, `running`, `success`, `error`, or what else vCenter says.
    pub state: String,
    /// vCenter's name of the operation.
    pub operation: String,
    /// The VM that a clone made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultView>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultView {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says; its type where it says nothing.
    #[serde(default)]
    pub message: String,
    /// The power state that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<String>,
    /// The power state that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
}

impl From<&vcenter::Fault> for FaultView {
    fn from(fault: &vcenter::Fault) -> Self {
        let member = |name: &str| fault.detail.get(name)?.text().map(|text| text.into_owned());
        Self {
            kind: fault.kind.clone(),
            message: fault.message.clone(),
            existing: member("existingState"),
            requested: member("requestedState"),
        }
    }
}

/// Where a clone would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementView {
    /// What it would be made from.
    pub template: TemplateView,
}

/// What a clone is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateView {
    /// Managed object id.
    pub vm: String,
    /// Name.
    pub name: String,
    /// Sizes of its disks, in GiB, rounded up.
    #[serde(rename = "diskGiB")]
    pub disk_gib: Vec<i64>,
    /// Managed object id of the snapshot asked for, or of its current one.
    pub snapshot: Option<String>,
}

/// Something that a clone needs and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What it is needed as.
    pub what: Need,
    /// As it was named; "" for the only one.
    pub name: String,
    /// Why it cannot be taken.
    pub why: WhyMissing,
}

/// What a clone needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Need {
    /// A datacenter.
    Datacenter,
    /// A template.
    Template,
    /// A folder.
    Folder,
    /// A datastore.
    Datastore,
    /// A resource pool.
    ResourcePool,
    /// A network.
    Network,
    /// A snapshot of the template.
    Snapshot,
}

/// Why something cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhyMissing {
    /// There is none of that name.
    NotFound,
    /// There are several, and no name.
    Ambiguous,
    /// It is something else.
    WrongKind,
}

/// Why it is not known how things are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Which.
    pub reason: Reason,
    /// One sentence, the same for the same trouble.
    pub message: String,
}

/// Why it is not known how things are, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// No connection, or it was closed.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// No answer of a vCenter.
    BadAnswer,
    /// The session could not be renewed.
    NotAuthenticated,
    /// The user name or the password is wrong.
    InvalidLogin,
    /// There are no credentials.
    CredentialsMissing,
    /// The host knows no vCenter of that name.
    NotConfigured,
    /// The account lacks a privilege.
    NoPermission,
    /// Any other fault of vCenter.
    Fault,
}

impl Unknown {
    /// Of a call that had no result.
    pub(crate) fn of(server: &str, error: &CallError) -> Self {
        let reason = match error {
            CallError::Fault(fault) if fault.kind == "NoPermission" => Reason::NoPermission,
            CallError::Fault(_) => Reason::Fault,
            CallError::Unreachable(_) => Reason::Unreachable,
            CallError::Timeout | CallError::Crowded => Reason::Timeout,
            CallError::BadAnswer(_) => Reason::BadAnswer,
            CallError::Credentials(_) => Reason::CredentialsMissing,
            CallError::InvalidLogin => Reason::InvalidLogin,
            CallError::NotAuthenticated => Reason::NotAuthenticated,
        };
        let privilege = match error {
            CallError::Fault(fault) => fault.detail.get("privilegeId").and_then(|id| id.text()),
            _ => None,
        };
        let needs = privilege.map(|id| format!(" (it needs {id})")).unwrap_or_default();
        Self { reason, message: super::fault::cut(&format!("vCenter {server}: {error}{needs}")) }
    }
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant)] // It lives as long as it takes to write it down.
pub enum Answer {
    /// It is there.
    Hit {
        /// What.
        #[serde(flatten)]
        hit: Hit,
        /// Whether a change of it wakes the pass: where not, it has to look again by itself.
        watched: bool,
    },
    /// vCenter answered, and it is not there.
    Absent,
    /// Several are there.
    Ambiguous {
        /// Ordered as they were made.
        vms: Vec<VmView>,
    },
    /// A clone could not be made.
    Missing {
        /// What is missing, in the order of the question.
        missing: Vec<Missing>,
    },
    /// It is not known.
    Unknown(Unknown),
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hit {
    /// A task.
    Task(TaskView),
    /// A VM.
    Vm(VmView),
    /// Where a clone would go.
    Placement(PlacementView),
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// A task was started, now or before under the same key.
    Task {
        /// Managed object id of the task.
        task: String,
    },
    /// It is so already: nothing was started.
    Done {
        /// The VM that a clone had made before.
        #[serde(skip_serializing_if = "Option::is_none")]
        vm: Option<String>,
    },
    /// vCenter refused it: nothing was started.
    Fault {
        /// Why.
        fault: FaultView,
    },
    /// The VM is gone.
    Absent,
    /// Something that a clone needs is not there.
    Missing {
        /// What.
        missing: Vec<Missing>,
    },
    /// The VM belongs to somebody else: nothing was started.
    NotOurs {
        /// Which, and what was compared.
        message: String,
    },
    /// It may or may not have taken effect.
    Unknown(Unknown),
}
