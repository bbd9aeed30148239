//! Builds what a controller applies to a machine's status: all the fields that it owns, each time.

use evenkeel_sdk::jiff::Timestamp;
use evenkeel_sdk::{Action, Condition, ConditionStatus, Conditions, act};

use crate::api::KiteVirtualMachine;
use crate::api::machine::KiteVirtualMachineStatus;
use crate::identity::Identity;
use crate::summary::{self, Summary};

/// A status under way.
pub struct Draft<'m> {
    machine: &'m KiteVirtualMachine,
    /// The plain fields.
    pub fields: KiteVirtualMachineStatus,
    conditions: Conditions<'m>,
}

/// The status that an object has; an empty one where it has none yet.
pub fn of(machine: &KiteVirtualMachine) -> KiteVirtualMachineStatus {
    machine.status.clone().unwrap_or_default()
}

impl<'m> Draft<'m> {
    /// An empty one.
    pub fn new(machine: &'m KiteVirtualMachine, now: Timestamp) -> Self {
        let old: &[Condition] = machine.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
        let conditions = Conditions::over(old, now, machine.metadata.generation);
        Self { machine, fields: KiteVirtualMachineStatus::default(), conditions }
    }

    /// One with the summary in it.
    pub fn summarized(machine: &'m KiteVirtualMachine, now: Timestamp, summary: &Summary) -> Self {
        let mut draft = Self::new(machine, now);
        let last = machine.status.as_ref().and_then(|status| status.current_power_state.clone());
        draft.fields.phase = Some(summary.phase.to_owned());
        draft.fields.current_power_state = summary.power.map(|power| power.as_str().to_owned()).or(last);
        draft.set(summary::CONDITION, summary.ready, &summary.reason, &summary.message);
        draft
    }

    /// Sets a condition.
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        self.conditions.set(type_, status, reason, message);
    }

    /// Keeps a condition as it is.
    pub fn keep(&mut self, type_: &str) {
        self.conditions.keep(type_);
    }

    /// The action. Forced: a field that two controllers compute is the last one's, and both compute the same.
    pub fn into_action(self) -> Action {
        let Self { machine, mut fields, conditions } = self;
        fields.conditions = conditions.finish();
        let Identity { namespace, name, .. } = Identity::of(machine);
        act::apply_status::<KiteVirtualMachine>((namespace, name), &fields).force().into()
    }
}
