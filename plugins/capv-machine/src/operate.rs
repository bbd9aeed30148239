//! Having something done to a VM: one operation a pass, under a key that makes it one also after a crash.

use evenkeel_sdk::{Action, Conclusion, Stop};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::api::{Operation, Task};
use crate::draft::Draft;
use crate::machine::{Turn, count};
use crate::reasons;
use crate::seam::{self, Missing, Outcome};
use crate::task::{Failure, judge_fault};
use crate::timing::{PERSON, TASK_POLL_MIN};

/// What is to be done.
pub struct Order {
    /// What.
    pub operation: Operation,
    /// What the provider has to know for it.
    pub arguments: Value,
    /// What must tell this order from another one with the same number; "" where nothing has to.
    pub digest: String,
}

impl Order {
    /// Of a VM of this machine, with what the provider checks before it touches it.
    pub fn of_vm(turn: &Turn<'_>, operation: Operation, vm: &str) -> Self {
        let server = &turn.machine.spec.server;
        let arguments = serde_json::json!({"server": server, "vm": vm, "owner": turn.id.owner()});
        Self { operation, arguments, digest: String::new() }
    }

    /// The same with a text that tells it from others.
    pub fn told_by(mut self, text: &[u8]) -> Self {
        let hash = Sha256::digest(text);
        self.digest = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        self
    }

    /// The same number is the same operation: it is raised when it is noted what came of one.
    fn key(&self, uid: &str, number: i64) -> String {
        let word = seam::word(self.operation);
        match self.digest.as_str() {
            "" => format!("{uid}/{word}/{number}"),
            digest => format!("{uid}/{word}/{number}/{digest}"),
        }
    }
}

impl Turn<'_> {
    /// Has an operation done, and ends the pass with what came of it.
    pub fn order(
        &self,
        draft: &mut Draft<'_>,
        order: &Order,
        first: Vec<Action>,
    ) -> Result<Conclusion, Stop> {
        let outcome = self.outcome(draft, order, first)?;
        // They are done.
        draft.first.clear();
        self.conclude(draft, order.operation, outcome)
    }

    /// Has an operation done.
    pub fn outcome(&self, draft: &Draft<'_>, order: &Order, first: Vec<Action>) -> Result<Outcome, Stop> {
        let key = order.key(&self.id.uid, draft.status.operations.unwrap_or_default());
        seam::perform(self.pass, first, order.operation, &key, &order.arguments)
    }

    /// Ends the pass with what came of an operation.
    pub fn conclude(
        &self,
        draft: &mut Draft<'_>,
        operation: Operation,
        outcome: Outcome,
    ) -> Result<Conclusion, Stop> {
        match outcome {
            Outcome::Task { task } => {
                draft.tell(reasons::event::TASK_STARTED, &format!("{}: {task}", operation.as_str()));
                draft.status.task_ref = Some(task);
                let started_at = draft.stamp();
                draft.status.task = Some(Task { operation, started_at });
                count(&mut draft.status);
                Ok(draft.end(Some(TASK_POLL_MIN)))
            }
            Outcome::Done { vm } => {
                draft.status.task = None;
                draft.status.retry = None;
                draft.status.machine_ref = vm.or_else(|| draft.status.machine_ref.take());
                count(&mut draft.status);
                Ok(draft.end(Some(TASK_POLL_MIN)))
            }
            Outcome::Absent => {
                draft.status.task = None;
                draft.status.machine_ref = None;
                count(&mut draft.status);
                Ok(draft.end(Some(TASK_POLL_MIN)))
            }
            Outcome::Fault { fault } => {
                draft.status.task = None;
                count(&mut draft.status);
                let failure = judge_fault(Some(operation), &fault);
                let name_taken = failure == Failure::NameTaken;
                match self.failed(draft, Some(operation), failure) {
                    Some(end) => Ok(end),
                    None if name_taken => self.wait_for_name(draft),
                    None => Ok(draft.end(Some(TASK_POLL_MIN))),
                }
            }
            Outcome::Missing { missing } => {
                draft.status.task = None;
                Ok(self.lack(draft, &missing))
            }
            Outcome::NotOurs { message } => {
                draft.status.task = None;
                self.say(draft, reasons::NOT_OURS, &message);
                Ok(draft.end(Some(PERSON)))
            }
            Outcome::Unknown(why) => Err(self.fail(draft, &why)),
        }
    }

    /// Says what the spec names and the vCenter does not have.
    pub fn lack(&self, draft: &mut Draft<'_>, missing: &[Missing]) -> Conclusion {
        let said: Vec<_> = missing.iter().map(missing_text).collect();
        draft.is_stuck(reasons::NOT_PROVISIONED, &said.join("; "));
        draft.end(Some(PERSON))
    }
}

fn missing_text(missing: &Missing) -> String {
    let Missing { what, name, why } = missing;
    let named = if name.is_empty() { what.clone() } else { format!("{what} {name}") };
    match why.as_str() {
        "not-found" => format!("{named} not found"),
        "ambiguous" if name.is_empty() => format!("{named} is not given, and there are several"),
        "ambiguous" => format!("{named} is ambiguous: give its inventory path"),
        "wrong-kind" => format!("{named} is something else"),
        other => format!("{named}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(digest: &str) -> Order {
        Order { operation: Operation::PowerOn, arguments: Value::Null, digest: digest.to_owned() }
    }

    #[test]
    fn a_key_tells_machine_operation_and_number() {
        assert_eq!(order("").key("u-1", 3), "u-1/power-on/3");
        assert_eq!(order("").told_by(b"text").key("u-1", 3), "u-1/power-on/3/982d9e3eb996");
    }

    #[test]
    fn what_is_missing_is_said_by_its_name() {
        let said = |name: &str, why: &str| {
            missing_text(&Missing { what: "datastore".into(), name: name.into(), why: why.into() })
        };
        assert_eq!(said("/DC0/datastore/x", "not-found"), "datastore /DC0/datastore/x not found");
        assert_eq!(said("", "ambiguous"), "datastore is not given, and there are several");
        assert_eq!(said("ds", "ambiguous"), "datastore ds is ambiguous: give its inventory path");
        assert_eq!(said("/DC0/vm", "wrong-kind"), "datastore /DC0/vm is something else");
    }
}
