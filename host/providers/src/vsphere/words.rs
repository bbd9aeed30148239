//! The provider's questions, operations and answers, as plugins put and read them.

use serde::{Deserialize, Serialize};

use super::vcenter::CallError;

mod operations;
mod questions;
mod views;

pub use operations::{
    ActOnVm, CloneMode, CloneNic, CloneVm, GROUP_KEY, OWNER_KEY, Owner, Reconfigure, Sensitive,
};
pub use questions::{AskPlacement, AskTask, AskVm, AskVmByName, AskVmByUuid, AskVmsOfGroup, UuidKind};
pub use views::{
    FaultView, MarkedVm, NicView, PlacementView, Power, TOLD_KEYS, TaskView, TemplateView, VmView,
};

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
    /// The VMs of a group.
    Group {
        /// Ordered as they were made.
        vms: Vec<MarkedVm>,
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
