//! A machine's status: times change only when what they are about does, and a message that differs only in some request's
//! number is not written again.

use std::time::Duration;

use evenkeel_sdk::{Action, act, clean_message, rfc3339};
use jiff::Timestamp;

use crate::kinds::{LastOperation, Machine, MachineStatus, Named};

/// For so long a similar message stands for a new one.
const SIMILAR_FOR: Duration = Duration::from_secs(30 * 60);
/// From this share of common words on two messages say the same.
const SIMILAR_FROM_PERCENT: usize = 75;

/// A status under way, over the one that the machine has.
pub struct Draft<'m> {
    machine: &'m Machine,
    now: Timestamp,
    new: MachineStatus,
}

/// What was done, and how it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Making the VM.
    Create,
    /// Giving the Node new software.
    InPlaceUpdate,
    /// Moving the Pods off the Node.
    DrainNode,
    /// Looking after the Node.
    HealthCheck,
    /// Taking it all away.
    Delete,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Under way.
    Processing,
    /// It failed.
    Failed,
    /// It is done.
    Successful,
}

impl<'m> Draft<'m> {
    /// Begins with what the machine has.
    pub fn over(machine: &'m Machine, now: Timestamp) -> Self {
        Self { machine, now, new: machine.status.clone() }
    }

    /// Sets the phase; its clock starts when it changes.
    pub fn phase(&mut self, phase: &str, timeout_active: bool) {
        let current = &mut self.new.current_status;
        if current.phase != phase || current.last_update_time.is_none() {
            current.last_update_time = Some(rfc3339(self.now));
        }
        phase.clone_into(&mut current.phase);
        current.timeout_active = timeout_active;
    }

    /// The phase as it will be.
    pub fn current_phase(&self) -> &str {
        &self.new.current_status.phase
    }

    /// Until when the machine is kept; none where it is not.
    pub fn kept_until(&mut self, time: Option<Timestamp>) {
        self.new.current_status.preserve_expiry_time = time.map(rfc3339);
    }

    /// Says what was last done; `error_code` is "" where nothing failed.
    pub fn operation(&mut self, type_: Operation, state: State, error_code: &str, description: &str) {
        let new = LastOperation {
            description: clean_message(description),
            error_code: error_code.to_owned(),
            last_update_time: None,
            state: format!("{state:?}"),
            type_: format!("{type_:?}"),
        };
        let old = &self.machine.status.last_operation;
        let same_but_words =
            LastOperation { description: String::new(), last_update_time: None, ..old.clone() }
                == LastOperation { description: String::new(), ..new.clone() };
        let same = same_but_words
            && (old.description == new.description
                || (self.is_recent(old) && similar(&old.description, &new.description)));
        self.new.last_operation = if same {
            old.clone()
        } else {
            LastOperation { last_update_time: Some(rfc3339(self.now)), ..new }
        };
    }

    fn is_recent(&self, old: &LastOperation) -> bool {
        let since = old.last_update_time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        since.is_some_and(|since| self.now.duration_since(since).unsigned_abs() < SIMILAR_FOR)
    }

    /// What the driver wants to be told again.
    pub fn last_known_state(&mut self, state: String) {
        self.new.last_known_state = state;
    }

    /// The rest of the status, for who changes it field by field.
    pub fn fields(&mut self) -> &mut MachineStatus {
        &mut self.new
    }

    /// The write.
    pub fn into_action(self) -> Action {
        let place = (self.machine.namespace(), self.machine.name());
        act::apply_status::<Machine>(place, &self.new).force().into()
    }
}

/// Whether two messages have most words in common, in their order.
fn similar(a: &str, b: &str) -> bool {
    let words = |text: &'_ str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    // Lengths of the longest common sequences of all beginnings of `b` with the words of `a` so far.
    let mut row = vec![0usize; b.len() + 1];
    for word in &a {
        let mut diagonal = 0;
        for (at, other) in b.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if word == other { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    let common = row.last().copied().unwrap_or_default();
    2 * common * 100 > SIMILAR_FROM_PERCENT * (a.len() + b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_differ_in_a_request_number_are_similar() {
        let message = |id: &str| {
            format!(
                "Cloud provider message - machine codes error: code = [Internal] message = [no answer, request {id}]"
            )
        };
        assert!(similar(&message("a1"), &message("b2")));
        assert!(!similar(&message("a1"), "Cloud provider message - quota is used up"));
        assert!(!similar("", "a"));
    }

    fn after(seconds: i64, description: &str) -> LastOperation {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let mut machine = Machine::default();
        let mut first = Draft::over(&machine, start);
        first.operation(Operation::Create, State::Failed, "Internal", "no answer of the server to request 1");
        machine.status = first.new;
        let mut second =
            Draft::over(&machine, Timestamp::from_second(start.as_second() + seconds).expect("a time"));
        second.operation(Operation::Create, State::Failed, "Internal", description);
        second.new.last_operation
    }

    #[test]
    fn a_similar_message_is_written_again_after_half_an_hour() {
        let soon = after(60, "no answer of the server to request 2");
        assert_eq!(soon.description, "no answer of the server to request 1");
        assert_eq!(soon.last_update_time.as_deref(), Some("2026-01-01T00:00:00Z"));
        let late = after(1801, "no answer of the server to request 2");
        assert_eq!(late.description, "no answer of the server to request 2");
        assert_eq!(late.last_update_time.as_deref(), Some("2026-01-01T00:30:01Z"));
        assert_eq!(after(60, "something else").description, "something else");
    }
}
