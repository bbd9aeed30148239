//! What a Node's conditions make of its machine's phase. A function of values alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;

use super::update::Outcome;
use crate::kinds::{Machine, Node};

/// Conditions that make a machine unhealthy unless they are False, where it does not name its own.
const CONDITIONS: &str = "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable";

/// All that the phase depends on.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The phase so far.
    pub phase: &'a str,
    /// The Node's conditions; none where there is no Node.
    pub node: Option<&'a [NodeCondition]>,
    /// Whether the Node still waits for its critical components.
    pub components_missing: bool,
    /// Whether the machine ever had conditions.
    pub had_conditions: bool,
    /// The conditions that make it unhealthy, comma separated.
    pub bad_conditions: &'a str,
    /// How much of the creation timeout is left.
    pub creation_left: Duration,
    /// How much of the health timeout is left; none where there is no such timeout.
    pub health_left: Option<Duration>,
    /// What came of an update in place.
    pub update: Option<Outcome>,
    /// How much of the time for an update in place is left.
    pub update_left: Duration,
}

/// What becomes of the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing new.
    Stay,
    /// Nothing new before this has passed.
    Wait(Duration),
    /// The Node has joined.
    Joined,
    /// The Node is well again.
    Rejoined,
    /// The Node is not well, or gone.
    Unwell(String),
    /// The Node did not join in time.
    NeverJoined,
    /// The Node was not well for too long: the machine fails, if no other of its deployment is being replaced.
    TooLong,
    /// The Node was updated in place.
    Updated,
    /// The update in place failed.
    NotUpdated,
    /// The update in place took too long.
    UpdateTooLong,
}

/// What becomes of the phase.
pub fn next(seen: &Seen<'_>) -> Next {
    let troubles = match seen.node {
        None => vec!["the Node is gone".to_owned()],
        Some([]) => vec!["the Node has no conditions".to_owned()],
        Some(conditions) => troubles(conditions, seen.bad_conditions),
    };
    match (seen.phase, troubles.is_empty()) {
        // A Node that is being updated restarts what it likes, and one that failed to be may be in any state.
        ("InPlaceUpdating" | "InPlaceUpdateFailed", _) => next_in_update(seen),
        ("Running", true) => Next::Stay,
        ("Running", false) if seen.node.is_none() && !seen.had_conditions => Next::Stay,
        ("Running" | "InPlaceUpdateSuccessful", false) => Next::Unwell(troubles.join(", ")),
        ("Pending", true) if !seen.components_missing => Next::Joined,
        ("Pending", _) if seen.creation_left.is_zero() => Next::NeverJoined,
        ("Pending", _) => Next::Wait(seen.creation_left),
        (_, true) => Next::Rejoined,
        ("Unknown", false) => waits_for_health(seen),
        (_, false) => Next::Stay,
    }
}

fn waits_for_health(seen: &Seen<'_>) -> Next {
    match seen.health_left {
        None => Next::Stay,
        Some(Duration::ZERO) => Next::TooLong,
        Some(left) => Next::Wait(left),
    }
}

/// What becomes of the phases of an update in place: what came of it counts alone, and the time.
fn next_in_update(seen: &Seen<'_>) -> Next {
    match (seen.update, seen.phase) {
        (Some(Outcome::Successful), _) => Next::Updated,
        (Some(Outcome::Failed), "InPlaceUpdating") => Next::NotUpdated,
        (None, "InPlaceUpdating") if seen.update_left.is_zero() => Next::UpdateTooLong,
        (None, "InPlaceUpdating") => Next::Wait(seen.update_left),
        // Somebody may put it right, for as long as any other machine may be unhealthy.
        (Some(Outcome::Failed) | None, _) => waits_for_health(seen),
    }
}

/// The conditions that make the Node unhealthy. One that is not reported is fine, `Ready` included.
fn troubles(conditions: &[NodeCondition], bad: &str) -> Vec<String> {
    let named = |type_: &str| bad.split(',').any(|name| name.trim() == type_);
    conditions
        .iter()
        .filter(|condition| match condition.type_.as_str() {
            "Ready" => condition.status != "True",
            type_ => named(type_) && condition.status != "False",
        })
        .map(|condition| format!("{}={}", condition.type_, condition.status))
        .collect()
}

/// Whether a Node has nothing that makes its machine unhealthy.
pub(super) fn is_well(node: &Node, machine: &Machine) -> bool {
    troubles(&node.status.conditions, bad_conditions(machine)).is_empty()
}

/// The conditions that make a machine unhealthy unless they are False, comma separated.
pub(super) fn bad_conditions(machine: &Machine) -> &str {
    machine.spec.node_conditions.as_deref().unwrap_or(CONDITIONS)
}

/// Whether a Node is so far gone that its Pods are not waited for.
pub fn is_beyond_hope(conditions: &[NodeCondition], now: jiff::Timestamp) -> bool {
    /// So long a Node is given to come back.
    const PATIENCE: Duration = Duration::from_secs(300);
    conditions.iter().any(|condition| {
        let bad = match condition.type_.as_str() {
            "Ready" => condition.status != "True",
            "ReadonlyFilesystem" => condition.status != "False",
            _ => false,
        };
        let since = condition.last_transition_time.as_ref().map(|time| time.0);
        bad && since.is_some_and(|since| super::creation::until(since, PATIENCE, now).is_zero())
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// `phase`, the Node's conditions as `Type=Status` (or `gone`), and flags after a bar.
    fn check(text: &str, expected: Expect) {
        let (head, flags) = text.split_once('|').unwrap_or((text, ""));
        let mut words = head.split_whitespace();
        let phase = words.next().expect("a phase");
        let rest: Vec<&str> = words.collect();
        let conditions: Vec<NodeCondition> = rest
            .iter()
            .filter_map(|word| word.split_once('='))
            .map(|(type_, status)| NodeCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                ..NodeCondition::default()
            })
            .collect();
        let seen = Seen {
            phase,
            node: (rest != ["gone"]).then_some(&conditions[..]),
            components_missing: flags.contains("components-missing"),
            had_conditions: !flags.contains("never-seen"),
            bad_conditions: CONDITIONS,
            creation_left: Duration::from_secs(if flags.contains("late") { 0 } else { 60 }),
            health_left: (!flags.contains("no-timeout"))
                .then(|| Duration::from_secs(if flags.contains("late") { 0 } else { 60 })),
            update: match (flags.contains("update-successful"), flags.contains("update-failed")) {
                (true, _) => Some(Outcome::Successful),
                (false, true) => Some(Outcome::Failed),
                (false, false) => None,
            },
            update_left: Duration::from_secs(if flags.contains("late") { 0 } else { 60 }),
        };
        expected.assert_eq(&format!("{:?}", next(&seen)));
    }

    #[test]
    fn a_node_that_is_ready_joins_unless_its_components_are_missing() {
        check("Pending Ready=True", expect!["Joined"]);
        check("Pending Ready=True | components-missing", expect!["Wait(60s)"]);
        check("Pending Ready=False", expect!["Wait(60s)"]);
        check("Pending gone", expect!["Wait(60s)"]);
        check("Pending gone | late", expect!["NeverJoined"]);
        check("Pending Ready=True | components-missing late", expect!["NeverJoined"]);
    }

    #[test]
    fn a_running_machine_is_unknown_once_its_node_is_not_well() {
        check("Running Ready=True DiskPressure=False", expect!["Stay"]);
        check("Running Ready=True DiskPressure=Unknown", expect![[r#"Unwell("DiskPressure=Unknown")"#]]);
        check("Running Ready=Unknown", expect![[r#"Unwell("Ready=Unknown")"#]]);
        check("Running gone", expect![[r#"Unwell("the Node is gone")"#]]);
        check("Running gone | never-seen", expect!["Stay"]);
    }

    #[test]
    fn conditions_that_are_not_reported_or_not_named_are_fine() {
        check("Running DiskPressure=False", expect!["Stay"]);
        check("Running Ready=True MemoryPressure=True", expect!["Stay"]);
    }

    #[test]
    fn an_unknown_machine_rejoins_or_fails_in_the_end() {
        check("Unknown Ready=True", expect!["Rejoined"]);
        check("Unknown Ready=False", expect!["Wait(60s)"]);
        check("Unknown Ready=False | late", expect!["TooLong"]);
        check("Unknown Ready=False | late no-timeout", expect!["Stay"]);
        check("Unknown gone | late", expect!["TooLong"]);
    }

    #[test]
    fn a_failed_machine_of_which_the_node_recovers_runs_again() {
        check("Failed Ready=True", expect!["Rejoined"]);
        check("Failed Ready=False", expect!["Stay"]);
        check("Failed gone", expect!["Stay"]);
    }

    #[test]
    fn while_a_node_is_updated_in_place_its_health_does_not_count() {
        check("InPlaceUpdating Ready=True", expect!["Wait(60s)"]);
        check("InPlaceUpdating Ready=False", expect!["Wait(60s)"]);
        check("InPlaceUpdating gone", expect!["Wait(60s)"]);
        check("InPlaceUpdating Ready=True | late", expect!["UpdateTooLong"]);
        check("InPlaceUpdating Ready=False | update-successful late", expect!["Updated"]);
        check("InPlaceUpdating Ready=True | update-failed late", expect!["NotUpdated"]);
    }

    #[test]
    fn an_update_that_failed_may_be_put_right_before_the_machine_fails() {
        check("InPlaceUpdateFailed Ready=True | update-failed", expect!["Wait(60s)"]);
        check("InPlaceUpdateFailed Ready=True | update-failed late", expect!["TooLong"]);
        check("InPlaceUpdateFailed Ready=True | update-failed late no-timeout", expect!["Stay"]);
        check("InPlaceUpdateFailed Ready=True | update-successful late", expect!["Updated"]);
    }

    #[test]
    fn after_an_update_a_machine_runs_once_its_node_is_well() {
        check("InPlaceUpdateSuccessful Ready=True", expect!["Rejoined"]);
        check("InPlaceUpdateSuccessful Ready=False", expect![[r#"Unwell("Ready=False")"#]]);
    }

    #[test]
    fn a_node_has_five_minutes_to_come_back() {
        let condition = |type_: &str, status: &str| NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                "2026-01-01T00:00:00Z".parse().expect("a time"),
            )),
            ..NodeCondition::default()
        };
        let at = |time: &str, conditions: &[NodeCondition]| {
            is_beyond_hope(conditions, time.parse().expect("a time"))
        };
        assert!(!at("2026-01-01T00:04:59Z", &[condition("Ready", "Unknown")]));
        assert!(at("2026-01-01T00:05:00Z", &[condition("Ready", "Unknown")]));
        assert!(at("2026-01-01T00:05:00Z", &[condition("ReadonlyFilesystem", "True")]));
        assert!(!at(
            "2026-01-01T01:00:00Z",
            &[condition("Ready", "True"), condition("DiskPressure", "True")]
        ));
    }
}
