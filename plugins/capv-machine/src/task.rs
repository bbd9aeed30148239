//! What a task's state means for its machine.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{self, Operation};
use crate::config::Config;
use crate::seam::{Fault, Task, TaskAnswer, Why};
use crate::timing::{TASK_FRESH, TASK_POLL_MIN, since, time};

/// What has to be done about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in flight, or too fresh to be listed. Nothing else may be started.
    Wait {
        /// When to look again; none where a change of it wakes the machine.
        again_after: Option<Duration>,
        /// Whether it takes so long that somebody should know.
        is_long: bool,
    },
    /// It is over and did what it was for.
    Succeeded {
        /// The VM of a clone.
        vm: Option<String>,
    },
    /// vCenter has forgotten it: how things are has to be looked up.
    Forgotten,
    /// It failed.
    Failed(Failure),
    /// It is in a state that nobody knows.
    Strange(String),
    /// Nobody knows how it is.
    Unknown(Why),
}

/// How bad a fault is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Not at all: it is as it should be.
    Forgiven,
    /// Another VM has the name: perhaps this machine's own, of a clone whose task was lost.
    NameTaken,
    /// Another task is in the way.
    Busy,
    /// It is told as it is and tried again later.
    Real(String),
}

/// What a task's state means; `task` is what the status says that it is for.
pub fn judge(task: Option<&api::Task>, answer: &TaskAnswer, now: Timestamp, config: &Config) -> Verdict {
    let started = task.and_then(|task| time(Some(&task.started_at)));
    let in_flight = started.map_or(Duration::MAX, |started| since(started, now));
    match answer {
        TaskAnswer::Unknown(why) => Verdict::Unknown(why.clone()),
        TaskAnswer::Absent if in_flight < TASK_FRESH => {
            Verdict::Wait { again_after: Some(TASK_POLL_MIN), is_long: false }
        }
        TaskAnswer::Absent => Verdict::Forgotten,
        TaskAnswer::Hit { task: Task { state, vm, fault }, watched } => match state.as_str() {
            "queued" | "running" => in_flight_verdict(in_flight, *watched, config),
            "success" => Verdict::Succeeded { vm: vm.clone() },
            "error" => {
                let fault = fault.clone().unwrap_or_default();
                Verdict::Failed(judge_fault(task.map(|task| task.operation), &fault))
            }
            other => Verdict::Strange(other.to_owned()),
        },
    }
}

fn in_flight_verdict(in_flight: Duration, watched: bool, config: &Config) -> Verdict {
    let is_long = in_flight >= config.long_task();
    let again_after = if !watched {
        Some(config.task_poll(in_flight))
    } else {
        // Once more when it becomes long; then its end wakes the machine.
        (!is_long).then(|| (config.long_task() - in_flight).max(TASK_POLL_MIN))
    };
    Verdict::Wait { again_after, is_long }
}

/// How bad a fault is, of a task or of the call that should have started one.
pub fn judge_fault(operation: Option<Operation>, fault: &Fault) -> Failure {
    match (fault.type_.as_str(), operation) {
        ("InvalidPowerState", _) if fault.existing.is_some() && fault.existing == fault.requested => {
            Failure::Forgiven
        }
        ("ManagedObjectNotFound", Some(Operation::Destroy | Operation::PowerOff)) => Failure::Forgiven,
        ("DuplicateName", Some(Operation::Clone)) => Failure::NameTaken,
        ("TaskInProgress", _) | ("ConcurrentAccess", Some(Operation::Reconfigure)) => Failure::Busy,
        _ => Failure::Real(text(operation, fault)),
    }
}

/// `<operation>: <fault>: <message>`.
fn text(operation: Option<Operation>, fault: &Fault) -> String {
    let operation = operation.map_or("Task", Operation::as_str);
    let type_ = if fault.type_.is_empty() { "unknown fault" } else { fault.type_.as_str() };
    match fault.message.trim() {
        message if message.is_empty() || message == type_ => format!("{operation}: {type_}"),
        message => format!("{operation}: {type_}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(operation: Operation, age_seconds: i64, answer: &str, expected: Expect) {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let started_at = (now - jiff::SignedDuration::from_secs(age_seconds)).to_string();
        let answer: TaskAnswer = serde_saphyr::from_str(answer).unwrap();
        let verdict = judge(Some(&api::Task { operation, started_at }), &answer, now, &Config::default());
        expected.assert_eq(&format!("{verdict:?}"));
    }

    fn fault(operation: Operation, fault: &str, expected: Expect) {
        check(operation, 5, &format!("{{result: hit, task: {{state: error, fault: {fault}}}}}"), expected);
    }

    #[test]
    fn a_task_in_flight_is_looked_at_ever_more_rarely() {
        let running = "{result: hit, task: {state: running}}";
        check(
            Operation::Clone,
            0,
            "{result: hit, task: {state: queued}}",
            expect!["Wait { again_after: Some(2s), is_long: false }"],
        );
        check(Operation::Clone, 7, running, expect!["Wait { again_after: Some(7s), is_long: false }"]);
        check(Operation::Clone, 3599, running, expect!["Wait { again_after: Some(20s), is_long: false }"]);
        check(Operation::Clone, 3600, running, expect!["Wait { again_after: Some(20s), is_long: true }"]);
    }

    #[test]
    fn a_task_that_is_watched_is_not_looked_at_until_it_is_long() {
        let running = "{result: hit, task: {state: running}, watched: true}";
        check(Operation::Clone, 600, running, expect!["Wait { again_after: Some(3000s), is_long: false }"]);
        check(Operation::Clone, 3600, running, expect!["Wait { again_after: None, is_long: true }"]);
    }

    #[test]
    fn a_task_that_is_not_to_be_found_is_given_half_a_minute() {
        check(
            Operation::Clone,
            29,
            "{result: absent}",
            expect!["Wait { again_after: Some(2s), is_long: false }"],
        );
        check(Operation::Clone, 30, "{result: absent}", expect!["Forgotten"]);
    }

    #[test]
    fn a_task_that_the_status_says_nothing_of_is_old() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        assert_eq!(judge(None, &TaskAnswer::Absent, now, &Config::default()), Verdict::Forgotten);
    }

    #[test]
    fn success_carries_the_vm_of_a_clone() {
        check(
            Operation::Clone,
            5,
            "{result: hit, task: {state: success, vm: vm-7}}",
            expect![[r#"Succeeded { vm: Some("vm-7") }"#]],
        );
    }

    #[test]
    fn a_state_of_another_age_is_no_failure() {
        check(Operation::Clone, 5, "{result: hit, task: {state: weird}}", expect![[r#"Strange("weird")"#]]);
    }

    #[test]
    fn what_is_as_it_should_be_is_forgiven() {
        fault(
            Operation::PowerOn,
            "{type: InvalidPowerState, existing: poweredOn, requested: poweredOn}",
            expect!["Failed(Forgiven)"],
        );
        fault(Operation::PowerOff, "{type: ManagedObjectNotFound}", expect!["Failed(Forgiven)"]);
        fault(Operation::Destroy, "{type: ManagedObjectNotFound}", expect!["Failed(Forgiven)"]);
    }

    #[test]
    fn a_fault_that_only_looks_like_it_is_real() {
        fault(
            Operation::PowerOn,
            "{type: InvalidPowerState, message: No., existing: suspended, requested: poweredOn}",
            expect![[r#"Failed(Real("PowerOn: InvalidPowerState: No."))"#]],
        );
        fault(
            Operation::PowerOn,
            "{type: InvalidPowerState}",
            expect![[r#"Failed(Real("PowerOn: InvalidPowerState"))"#]],
        );
        fault(
            Operation::PowerOn,
            "{type: ManagedObjectNotFound, message: gone}",
            expect![[r#"Failed(Real("PowerOn: ManagedObjectNotFound: gone"))"#]],
        );
        fault(
            Operation::PowerOn,
            "{type: DuplicateName}",
            expect![[r#"Failed(Real("PowerOn: DuplicateName"))"#]],
        );
        fault(
            Operation::Clone,
            "{type: ConcurrentAccess}",
            expect![[r#"Failed(Real("Clone: ConcurrentAccess"))"#]],
        );
        check(
            Operation::Clone,
            5,
            "{result: hit, task: {state: error}}",
            expect![[r#"Failed(Real("Clone: unknown fault"))"#]],
        );
    }

    #[test]
    fn another_task_in_the_way_is_waited_for() {
        fault(Operation::Reconfigure, "{type: ConcurrentAccess}", expect!["Failed(Busy)"]);
        fault(Operation::PowerOn, "{type: TaskInProgress}", expect!["Failed(Busy)"]);
        fault(Operation::Clone, "{type: DuplicateName}", expect!["Failed(NameTaken)"]);
    }
}
