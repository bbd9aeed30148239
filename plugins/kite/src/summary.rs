//! What a machine is doing, in one word: the phase, the power state and the condition `VirtualMachineReady`.
//!
//! R3, R4 and R6 all write it. That they never fight rests on two things: this one pure function, and
//! [`Evidence`](crate::evidence::Evidence), through which all three see the same objects. So nothing may enter here that one of them knows and
//! another does not; R3's own checks come in as the [`Verdict`] that it writes into the status.

use std::time::Duration;

use evenkeel_sdk::ConditionStatus;
use evenkeel_sdk::jiff::Timestamp;

use crate::disk::{Disk, DiskState};
use crate::kinds::VirtualMachine;
use crate::spec::Power;
use crate::verdict::Verdict;

mod table;

/// The condition that carries it.
pub const CONDITION: &str = "VirtualMachineReady";

/// How long KubeVirt may take to take a machine down before its finalizers are named.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// Before KubeVirt has its machine, and before it has looked at it: one message, so that the step between writes nothing.
const BEING_SET_UP: &str = "the machine is being set up";

/// A machine in one word, one power state and one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The phase.
    pub phase: &'static str,
    /// The power state observed; none where it is not known and the last one stays.
    pub power: Option<Power>,
    /// Status of the condition.
    pub ready: ConditionStatus,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When the same facts give another summary.
    pub again_after: Option<Duration>,
}

/// All that a summary depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'f> {
    /// Whether the machine goes: by its own deletion, its `spec.delete`, or its namespace's end.
    pub deleting: bool,
    /// What its user wants.
    pub wanted: Power,
    /// R3's opinion, if it has one of this generation.
    pub verdict: Option<&'f Verdict>,
    /// KubeVirt's machine, if it is this one's.
    pub vm: Option<&'f VirtualMachine>,
    /// Whether an instance of it is there.
    pub has_instance: bool,
    /// The disk.
    pub disk: &'f Disk,
    /// The pass's time.
    pub now: Timestamp,
}

/// Sums a machine up; the first that applies.
pub fn summarize(facts: Facts<'_>) -> Summary {
    let status = facts.vm.map(|vm| vm.status.printable_status.as_deref().unwrap_or_default());
    if facts.deleting {
        return deleting(&facts, observed_power(status));
    }
    if let Some(verdict @ Verdict::Refused(..)) = facts.verdict {
        let power = observed_power(status);
        return of("Failed", power, ConditionStatus::False, verdict.reason(), verdict.message());
    }
    let is_alive = status.is_some_and(|s| ["Running", "Paused", "Migrating", "Stopping"].contains(&s));
    if facts.disk.state == DiskState::Failed && !is_alive {
        let power = observed_power(status);
        return of("Failed", power, ConditionStatus::False, "DataVolumeError", &facts.disk.message);
    }
    match (facts.vm, status) {
        (Some(vm), Some(status)) => {
            let mut summary = table::row(status, facts.wanted, facts.disk);
            if is_restart_required(vm) {
                summary.message += "; a restart is needed for the latest changes";
            }
            summary
        }
        _ => {
            let message = match facts.verdict {
                Some(Verdict::Pending(_, message)) => message,
                _ => BEING_SET_UP,
            };
            of("Provisioning", Some(Power::Off), ConditionStatus::False, "Provisioning", message)
        }
    }
}

/// Whether a phase goes over by itself, so that it is worth another look.
pub fn is_transitional(phase: &str) -> bool {
    matches!(phase, "Provisioning" | "Starting" | "Stopping")
}

fn deleting(facts: &Facts<'_>, power: Option<Power>) -> Summary {
    let mut message = "waiting for the virtual machine to go".to_owned();
    let mut again_after = None;
    match facts.vm {
        Some(vm) => {
            let since = vm.metadata.deletion_timestamp.as_ref().map(|time| time.0);
            let gone_for = since.map(|since| Duration::try_from(facts.now - since).unwrap_or_default());
            match gone_for {
                Some(gone_for) if gone_for >= STUCK_AFTER => {
                    let finalizers = vm.metadata.finalizers.as_deref().unwrap_or_default().join(", ");
                    message += &format!("; its finalizers are: {finalizers}");
                }
                Some(gone_for) => again_after = Some(STUCK_AFTER - gone_for),
                None => {}
            }
        }
        None if facts.has_instance => {}
        None => message = "removing the disk and the Secrets".to_owned(),
    }
    Summary { again_after, ..of("Deleting", power, ConditionStatus::False, "Deleting", &message) }
}

fn observed_power(status: Option<&str>) -> Option<Power> {
    match status {
        Some("Running" | "Paused" | "Migrating" | "Stopping" | "Starting") => Some(Power::On),
        _ => Some(Power::Off),
    }
}

fn is_restart_required(vm: &VirtualMachine) -> bool {
    vm.status.conditions.iter().any(|c| c.type_ == "RestartRequired" && c.status == "True")
}

fn of(
    phase: &'static str,
    power: Option<Power>,
    ready: ConditionStatus,
    reason: &str,
    message: &str,
) -> Summary {
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Summary { phase, power, ready, reason, message, again_after: None }
}

#[cfg(test)]
mod tests;
