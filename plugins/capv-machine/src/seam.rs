//! What is asked of the host's provider `vsphere`, and what it says: types alone, no decisions.

use std::collections::BTreeMap;

use evenkeel_sdk::{Action, Failure, FailureKind, Pass, Stop, act};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::Operation;
use crate::names;

/// Questions that the plugin puts.
pub const QUESTIONS: &[&str] = &["task", "vm", "vm-by-uuid", "vm-by-name", "placement"];
/// Operations that it has done.
pub const OPERATIONS: &[&str] =
    &["clone", "reconfigure", "power-on", "power-off", "shutdown-guest", "destroy"];

/// Why nothing is known: never a reason to change anything.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Why {
    /// One word, as `Unreachable` or `NoPermission`.
    pub reason: String,
    /// One stable sentence.
    pub message: String,
    /// Set where the provider failed and not the vCenter.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

impl Why {
    /// Whether the vCenter answered, and would not or could not say it.
    pub fn is_answer(&self) -> bool {
        matches!(self.reason.as_str(), "NoPermission" | "Fault")
    }
}

/// A fault of the vSphere API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Fault {
    /// Its type, as `NoCompatibleHost`.
    #[serde(rename = "type")]
    pub type_: String,
    /// What vCenter says of it.
    #[serde(default)]
    pub message: String,
    /// The power state that the VM has, for `InvalidPowerState`.
    #[serde(default)]
    pub existing: Option<String>,
    /// The power state that was asked for, for `InvalidPowerState`.
    #[serde(default)]
    pub requested: Option<String>,
}

/// A task of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Task {
    /// `queued`, `running`, `success`, `error`, or a word that nobody knows.
    pub state: String,
    /// The VM that a clone made.
    #[serde(default)]
    pub vm: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub fault: Option<Fault>,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum TaskAnswer {
    /// It is there.
    Hit {
        /// The task.
        task: Task,
        /// Whether a change of it will wake the machine.
        #[serde(default)]
        watched: bool,
    },
    /// The vCenter does not know it, or no longer.
    Absent,
    /// Nobody knows.
    Unknown(Why),
}

/// Whether a VM runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// It runs.
    On,
    /// It does not.
    Off,
    /// Its memory is on disk.
    Suspended,
}

impl Power {
    /// As vSphere writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "poweredOn",
            Self::Off => "poweredOff",
            Self::Suspended => "suspended",
        }
    }
}

/// A network card of a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Nic {
    /// Its MAC address as vCenter has it; "" while it has none.
    #[serde(default)]
    pub mac: String,
    /// The network that it is in.
    #[serde(default)]
    pub network: String,
    /// Whether it is connected.
    #[serde(default)]
    pub connected: bool,
    /// All that the guest reports, unchecked.
    #[serde(default)]
    pub ips: Vec<String>,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vm {
    /// Its managed object id.
    pub vm: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its instance UUID, in lower case.
    #[serde(default)]
    pub instance_uuid: String,
    /// Its BIOS UUID, in lower case; "" while it has none.
    #[serde(default)]
    pub bios_uuid: String,
    /// Whether it is a template.
    #[serde(default)]
    pub template: bool,
    /// Whether it runs.
    pub power: Power,
    /// Whether vCenter can tell its configuration: not while it is being made, or when its host or storage is away.
    pub accessible: bool,
    /// The marker of its owner, `<namespace>/<name>/<uid>`.
    #[serde(default)]
    pub owner: Option<String>,
    /// Its cards in the order that vCenter has them.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Its metadata keys, as far as they are set.
    #[serde(default)]
    pub extra_config: BTreeMap<String, String>,
    /// Whether VMware Tools run in its guest.
    #[serde(default)]
    pub tools_running: bool,
    /// Whether the guest can be asked to shut down.
    #[serde(default)]
    pub guest_state_change_supported: bool,
    /// The ESXi host that it is on; "" where that is not known.
    #[serde(default)]
    pub host: String,
}

/// Whether there is a VM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum VmAnswer {
    /// There is.
    Hit {
        /// The VM.
        vm: Box<Vm>,
        /// Whether a change of it will wake the machine.
        #[serde(default)]
        watched: bool,
    },
    /// There are several of that UUID.
    Ambiguous {
        /// All of them, by the number of their ids.
        vms: Vec<Vm>,
    },
    /// There is none.
    Absent,
    /// Nobody knows.
    Unknown(Why),
}

/// Something that the spec names and the vCenter does not have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Missing {
    /// What it should be, as `template`.
    pub what: String,
    /// How the spec calls it; "" where it leaves the choice.
    pub name: String,
    /// `not-found`, `ambiguous` or `wrong-kind`.
    pub why: String,
}

/// A template, as far as cloning has to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Sizes of its disks in GiB, rounded up.
    #[serde(default, rename = "diskGiB")]
    pub disk_gib: Vec<i64>,
    /// The snapshot that a linked clone would hang on.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// What a clone would be made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Placement {
    /// The template.
    pub template: Template,
}

/// Whether all that a clone needs is there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum PlacementAnswer {
    /// It is.
    Hit {
        /// What matters of it.
        placement: Placement,
    },
    /// It is not.
    Missing {
        /// All that is missing.
        missing: Vec<Missing>,
    },
    /// Nobody knows.
    Unknown(Why),
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// It is under way, also when it was asked for before.
    Task {
        /// The task's id.
        task: String,
    },
    /// There was nothing to start: it is so already.
    Done {
        /// The VM of a clone.
        #[serde(default)]
        vm: Option<String>,
    },
    /// vCenter refused it; nothing was started.
    Fault {
        /// Why.
        fault: Fault,
    },
    /// The VM is gone.
    Absent,
    /// What the clone needs is not there.
    Missing {
        /// All that is missing.
        missing: Vec<Missing>,
    },
    /// The VM is somebody else's; nothing was started.
    NotOurs {
        /// One sentence.
        message: String,
    },
    /// It may have taken effect, or not; the same key asks what became of it.
    Unknown(Why),
}

/// An answer that can be "nobody knows".
pub trait Doubtful {
    /// That answer.
    fn unknown(why: Why) -> Self;
}

macro_rules! doubtful {
    ($($answer:ty),+) => {
        $(impl Doubtful for $answer {
            fn unknown(why: Why) -> Self {
                Self::Unknown(why)
            }
        })+
    };
}
doubtful!(TaskAnswer, VmAnswer, PlacementAnswer, Outcome);

/// Puts a question; that the provider itself failed is "nobody knows" too.
pub fn ask<T: DeserializeOwned + Doubtful>(
    pass: &Pass,
    question: &str,
    arguments: &impl Serialize,
) -> Result<T, Stop> {
    let answer = pass.external(names::PROVIDER, question, arguments).read()?;
    Ok(answer.unwrap_or_else(|failure| T::unknown(provider_failed(failure))))
}

/// The provider's word for an operation.
pub fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Clone => "clone",
        Operation::Reconfigure => "reconfigure",
        Operation::PowerOn => "power-on",
        Operation::PowerOff => "power-off",
        Operation::ShutdownGuest => "shutdown-guest",
        Operation::Destroy => "destroy",
    }
}

/// Has an operation done, after what has to be written first.
pub fn perform(
    pass: &Pass,
    mut first: Vec<Action>,
    operation: Operation,
    key: &str,
    arguments: &impl Serialize,
) -> Result<Outcome, Stop> {
    first.push(act::external(names::PROVIDER, word(operation), key, arguments));
    let outcome = pass.perform(first)?.pop();
    match outcome {
        Some(Ok(Some(text))) => serde_json::from_str(&text).map_err(|cause| {
            let (line, column) = (cause.line(), cause.column());
            let word = word(operation);
            Stop::transient(format!(
                "what came of {word} has an unexpected shape (line {line}, column {column})"
            ))
        }),
        Some(Err(failure)) => Ok(Outcome::unknown(provider_failed(failure))),
        Some(Ok(None)) | None => Err(Stop::transient(format!("nothing came of {}", word(operation)))),
    }
}

fn provider_failed(failure: Failure) -> Why {
    let reason = match failure.kind {
        FailureKind::Denied => "Denied",
        FailureKind::Transient | FailureKind::Invalid | FailureKind::Conflict | FailureKind::NotFound => {
            "ProviderFailed"
        }
    };
    Why { reason: reason.to_owned(), message: failure.message.clone(), failure: Some(failure) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(yaml: &str) -> T {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn answers_read_as_the_provider_writes_them() {
        let hit: VmAnswer =
            read("{result: hit, vm: {vm: vm-1, power: 'on', accessible: true, nics: [{key: 4000, mac: a}]}}");
        assert!(
            matches!(hit, VmAnswer::Hit { vm, watched: false } if vm.power == Power::On && vm.nics.len() == 1)
        );
        let unknown: TaskAnswer =
            read("{result: unknown, reason: NoPermission, message: no right to read task-1}");
        assert!(matches!(unknown, TaskAnswer::Unknown(why) if why.is_answer() && why.failure.is_none()));
        let task: TaskAnswer =
            read("{result: hit, task: {task: task-1, state: error, fault: {type: A, message: b}}}");
        assert!(matches!(task, TaskAnswer::Hit { task, .. } if task.fault.is_some()));
        let missing: Outcome =
            read("{result: missing, missing: [{what: folder, name: /DC0/vm/x, why: not-found}]}");
        assert!(matches!(missing, Outcome::Missing { missing } if missing.len() == 1));
        assert_eq!(
            read::<Outcome>("{result: not-ours, message: m}"),
            Outcome::NotOurs { message: "m".into() }
        );
        assert_eq!(read::<Outcome>("{result: done}"), Outcome::Done { vm: None });
    }
}
