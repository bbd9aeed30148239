//! A machine's status under way, and how a pass ends with it.

use std::time::Duration;

use evenkeel_sdk::{
    Action, Conclusion, Condition, ConditionStatus, Conditions, Failure, FailureKind, Pass, Stop, act,
    rfc3339,
};
use jiff::Timestamp;

use crate::api::{VSphereMachine, VSphereMachineStatus};
use crate::identity::Identity;
use crate::reasons::{self, condition};
use crate::seam::Why;
use crate::timing::BACK_OFF_MIN;

/// The status as it is to be, the events to tell, and what is to be written first.
#[derive(Clone, Debug)]
pub struct Draft<'m> {
    /// All fields but the conditions; it starts as the object has them.
    pub status: VSphereMachineStatus,
    /// The pass's time.
    pub now: Timestamp,
    /// Writes that come before the status.
    pub first: Vec<Action>,
    /// Whether vCenter said in this very pass that another VM has the machine's name.
    pub name_taken_now: bool,
    id: &'m Identity,
    old: &'m [Condition],
    generation: Option<i64>,
    set: Vec<(&'static str, ConditionStatus, String, String)>,
    events: Vec<Action>,
}

impl<'m> Draft<'m> {
    /// Over the machine's present status.
    pub fn over(machine: &'m VSphereMachine, id: &'m Identity, now: Timestamp) -> Self {
        let mut status = machine.status.clone().unwrap_or_default();
        status.conditions.clear();
        Self {
            status,
            now,
            first: Vec::new(),
            name_taken_now: false,
            id,
            old: machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
            generation: machine.metadata.generation,
            set: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The pass's time as a status has it.
    pub fn stamp(&self) -> String {
        rfc3339(self.now)
    }

    /// Sets a condition.
    pub fn set(&mut self, type_: &'static str, status: ConditionStatus, reason: &str, message: &str) {
        self.set.retain(|(known, ..)| *known != type_);
        self.set.push((type_, status, reason.to_owned(), message.to_owned()));
    }

    /// The machine is on its way, and this is what it waits for.
    pub fn waits(&mut self, reason: &str, message: &str) {
        self.set(condition::PROVISIONED, ConditionStatus::False, reason, message);
    }

    /// Somebody has to do something about the machine: told by a condition, and once by an event.
    pub fn is_stuck(&mut self, reason: &str, message: &str) {
        self.is_stuck_as(reason, reason, message);
    }

    /// The same under a condition's reason that is another than the event's.
    pub fn is_stuck_as(&mut self, condition_reason: &str, event: &str, message: &str) {
        if !self.said(condition::PROVISIONED, condition_reason, message) {
            self.warn(event, message);
        }
        self.waits(condition_reason, message);
    }

    /// Whether the object says this already.
    pub fn said(&self, type_: &str, reason: &str, message: &str) -> bool {
        let message = evenkeel_sdk::clean_message(message);
        self.old.iter().any(|old| old.type_ == type_ && old.reason == reason && old.message == message)
    }

    /// The condition that the object has.
    pub fn old(&self, type_: &str) -> Option<&Condition> {
        self.old.iter().find(|old| old.type_ == type_)
    }

    /// A Warning event.
    pub fn warn(&mut self, reason: &str, message: &str) {
        self.events.push(act::warning(self.id.reference(), reason, message));
    }

    /// A Normal event.
    pub fn tell(&mut self, reason: &str, message: &str) {
        self.events.push(act::normal(self.id.reference(), reason, message));
    }

    /// The events to tell.
    pub fn events(&self) -> &[Action] {
        &self.events
    }

    /// The action that writes the status.
    pub fn write(&self) -> Action {
        let mut conditions = Conditions::over(self.old, self.now, self.generation);
        let (ready, reason, message) = self.ready();
        for &type_ in condition::ALL {
            if type_ == condition::READY {
                conditions.set(type_, ready, reason, &message);
                continue;
            }
            match self.set.iter().find(|(set, ..)| *set == type_) {
                Some((_, status, reason, message)) => conditions.set(type_, *status, reason, message),
                None => conditions.keep(type_),
            }
        }
        let status = VSphereMachineStatus { conditions: conditions.finish(), ..self.status.clone() };
        // Nobody else has a say in it.
        act::apply_status::<VSphereMachine>((&self.id.namespace, &self.id.name), &status).force().into()
    }

    /// The summary: the machine is ready where it is provisioned and its vCenter can be asked.
    fn ready(&self) -> (ConditionStatus, &'static str, String) {
        let worst = [condition::PROVISIONED, condition::VCENTER]
            .into_iter()
            .map(|type_| (type_, self.present(type_)))
            .max_by_key(|(_, (status, _))| match status {
                ConditionStatus::True => 0,
                ConditionStatus::Unknown => 1,
                ConditionStatus::False => 2,
            });
        let Some((type_, (status, said))) = worst else {
            return (ConditionStatus::Unknown, reasons::READY_UNKNOWN, String::new());
        };
        match status {
            ConditionStatus::True => (ConditionStatus::True, reasons::READY, String::new()),
            ConditionStatus::Unknown => {
                (ConditionStatus::Unknown, reasons::READY_UNKNOWN, format!("{type_}: {said}"))
            }
            ConditionStatus::False => {
                (ConditionStatus::False, reasons::NOT_READY, format!("{type_}: {said}"))
            }
        }
    }

    /// A condition as it will be, with its message or, without one, its reason.
    fn present(&self, type_: &str) -> (ConditionStatus, String) {
        let said = |reason: &str, message: &str| if message.is_empty() { reason } else { message }.to_owned();
        if let Some((_, status, reason, message)) = self.set.iter().find(|(set, ..)| *set == type_) {
            return (*status, said(reason, message));
        }
        let old = self.old(type_).map(|old| (old.status, said(&old.reason, &old.message)));
        old.unwrap_or((ConditionStatus::Unknown, "nothing is known yet".to_owned()))
    }

    /// Ends the pass: writes what there is to write, and looks again after so long.
    pub fn end(&self, again_after: Option<Duration>) -> Conclusion {
        let mut end = Conclusion::new();
        end.extend(self.first.iter().cloned());
        end.push(self.write());
        end.extend(self.events.iter().cloned());
        match again_after {
            Some(wait) => end.requeue_after(wait),
            None => end,
        }
    }

    /// Ends a pass that could not learn what it has to know: nothing of the machine changes but what it says of that,
    /// and the host tries again with growing delays.
    pub fn fail(&mut self, pass: &Pass, why: &Why) -> Stop {
        let is_deleting = self.said_to_be_deleting();
        if why.is_answer() {
            self.set(condition::VCENTER, ConditionStatus::True, reasons::AVAILABLE, "");
            if !is_deleting {
                self.set(condition::PROVISIONED, ConditionStatus::Unknown, &why.reason, &why.message);
            }
        } else {
            self.set(condition::VCENTER, ConditionStatus::False, reasons::VCENTER_UNREACHABLE, &why.message);
        }
        if is_deleting {
            self.waits(reasons::DELETING, &why.message);
        }
        self.retry_later(pass, why)
    }

    /// Writes the status as it is, and has the host try again with growing delays.
    pub fn retry_later(&self, pass: &Pass, why: &Why) -> Stop {
        let mut writes = self.first.clone();
        writes.push(self.write());
        writes.extend(self.events.iter().cloned());
        if let Err(stop) = pass.perform(writes) {
            return stop;
        }
        let kind = why.failure.as_ref().map_or(FailureKind::Transient, |failure| failure.kind);
        let retry_after = u64::try_from(BACK_OFF_MIN.as_millis()).ok();
        Stop::Fail(Failure { kind, message: why.message.clone(), retry_after })
    }

    /// Says that the machine is being deleted, and why it is not yet.
    pub fn deletes(&mut self, message: &str) {
        self.waits(reasons::DELETING, message);
    }

    fn said_to_be_deleting(&self) -> bool {
        self.set
            .iter()
            .any(|(type_, _, reason, _)| *type_ == condition::PROVISIONED && reason == reasons::DELETING)
    }
}
