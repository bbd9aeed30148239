//! A machine's phase, from its Node and the time.

use std::time::Duration;

use evenkeel_sdk::Stop;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;

use super::Living;
use crate::duration::GoDuration;
use crate::kinds::{Machine, Named, Node};
use crate::machine::creation::{CREATION_TIMEOUT, time_left, until};
use crate::machine::health::{self, Next, Seen};
use crate::machine::status::{Draft, Operation, State};
use crate::machine::update;
use crate::names;

/// How long a machine may be unhealthy unless it says otherwise.
const HEALTH_TIMEOUT: GoDuration = GoDuration::seconds(10 * 60);
/// How long an update in place may take unless it says otherwise.
const UPDATE_TIMEOUT: GoDuration = GoDuration::seconds(20 * 60);

impl Living<'_> {
    /// Writes the Node's state into the status, and says when to look again at the latest.
    pub(super) fn judge(&self, draft: &mut Draft<'_>) -> Result<Duration, Stop> {
        let Self { machine, node, now, .. } = *self;
        if let Some(node) = node {
            let conditions = &mut draft.fields().conditions;
            *conditions = without_heartbeats(conditions, &node.status.conditions);
        }
        let taint = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == names::CRITICAL_TAINT);
        let next = health::next(&Seen {
            phase: machine.phase(),
            node: node.map(|node| &node.status.conditions[..]),
            components_missing: node.is_some_and(taint),
            had_conditions: !machine.status.conditions.is_empty(),
            bad_conditions: health::bad_conditions(machine),
            creation_left: time_left(machine, now),
            health_left: health_left(machine, now),
            update: node.and_then(|node| update::Seen::on(node).outcome),
            update_left: left_of(machine, update_timeout(machine), now),
        });
        self.follow(&next, draft)
    }

    fn follow(&self, next: &Next, draft: &mut Draft<'_>) -> Result<Duration, Stop> {
        let Self { machine, config, .. } = *self;
        let name = machine.name();
        let (phase, operation, state, message) = match next {
            Next::Stay => return Ok(config.long_retry.0),
            Next::Wait(wait) => return Ok(*wait),
            Next::TooLong if !self.is_its_turn()? => return Ok(config.short_retry.0),
            Next::Joined => {
                let message = format!("Machine {name} successfully joined the cluster");
                ("Running", Operation::Create, State::Successful, message)
            }
            Next::Rejoined => {
                let message = format!("Machine {name} successfully re-joined the cluster");
                ("Running", Operation::HealthCheck, State::Successful, message)
            }
            Next::Unwell(troubles) => {
                let message = format!("Machine {name} is unhealthy: {troubles}");
                ("Unknown", Operation::HealthCheck, State::Processing, message)
            }
            Next::NeverJoined => {
                let timeout = machine.spec.creation_timeout.unwrap_or(CREATION_TIMEOUT);
                let message = format!("Machine {name} failed to join the cluster in {timeout}");
                ("Failed", Operation::Create, State::Failed, message)
            }
            Next::TooLong => ("Failed", Operation::HealthCheck, State::Failed, self.why_too_long()),
            Next::Updated => {
                let message = format!("Machine {name} was updated in place");
                ("InPlaceUpdateSuccessful", Operation::InPlaceUpdate, State::Successful, message)
            }
            Next::NotUpdated => {
                let why = self.node.and_then(|node| node.annotation(names::UPDATE_FAILED_REASON));
                let why = why.unwrap_or("nobody said why");
                let message = format!("Machine {name} was not updated in place: {why}");
                ("InPlaceUpdateFailed", Operation::InPlaceUpdate, State::Failed, message)
            }
            Next::UpdateTooLong => {
                let timeout = update_timeout(machine);
                let message = format!("Machine {name} was not updated in place within {timeout}");
                ("InPlaceUpdateFailed", Operation::InPlaceUpdate, State::Failed, message)
            }
        };
        draft.phase(phase, false);
        draft.operation(operation, state, "", &message);
        Ok(match phase {
            // The time that it has from now on.
            "Unknown" | "InPlaceUpdateFailed" if machine.spec.disable_health_timeout != Some(true) => {
                machine.spec.health_timeout.unwrap_or(HEALTH_TIMEOUT).0
            }
            // It runs once its Node is well.
            "InPlaceUpdateSuccessful" => config.short_retry.0,
            _ => config.long_retry.0,
        })
    }

    fn why_too_long(&self) -> String {
        let (name, timeout) = (self.machine.name(), self.machine.spec.health_timeout);
        let timeout = timeout.unwrap_or(HEALTH_TIMEOUT);
        if self.machine.phase() == "InPlaceUpdateFailed" {
            format!("Machine {name} was not put right for {timeout} after its update in place failed")
        } else {
            format!("Machine {name} was not healthy for {timeout}")
        }
    }

    /// Whether this machine is the one of its deployment that may be replaced now: no other is on its way out or in, and of
    /// those that are due it is the first by name. One that is kept though it failed is not being replaced.
    fn is_its_turn(&self) -> Result<bool, Stop> {
        let Self { pass, machine, now, .. } = *self;
        let Some(deployment) = machine.label(names::DEPLOYMENT_LABEL) else { return Ok(true) };
        let selector = format!("{}={deployment}", names::DEPLOYMENT_LABEL);
        let siblings = pass.list::<Machine>().namespace(machine.namespace()).labels(&selector);
        let siblings = siblings
            .view(&[
                "/metadata/name",
                "/metadata/deletionTimestamp",
                "/status/currentStatus",
                "/spec/healthTimeout",
                "/spec/disableHealthTimeout",
            ])
            .read()?;
        Ok(siblings.iter().filter(|other| other.name() != machine.name()).all(|other| {
            let kept = other.status.current_status.preserve_expiry_time.is_some();
            let waits = matches!(other.phase(), "Unknown" | "InPlaceUpdateFailed");
            let settled = kept || waits || other.phase() == "Running";
            let goes = other.is_deleting() || other.phase() == "Terminating";
            let due = waits && health_left(other, now).is_some_and(|left| left.is_zero());
            settled && !goes && !(due && other.name() < machine.name())
        }))
    }
}

fn update_timeout(machine: &Machine) -> GoDuration {
    machine.spec.in_place_update_timeout.unwrap_or(UPDATE_TIMEOUT)
}

/// How much of the health timeout is left; none where it is off.
fn health_left(machine: &Machine, now: Timestamp) -> Option<Duration> {
    if machine.spec.disable_health_timeout == Some(true) {
        return None;
    }
    Some(left_of(machine, machine.spec.health_timeout.unwrap_or(HEALTH_TIMEOUT), now))
}

/// How much is left of a time that began with the machine's phase.
fn left_of(machine: &Machine, timeout: GoDuration, now: Timestamp) -> Duration {
    let since = machine.status.current_status.last_update_time.as_deref();
    let since = since.and_then(|time| time.parse().ok());
    since.map_or(timeout.0, |since| until(since, timeout.0, now))
}

/// The Node's conditions; a heartbeat alone changes nothing.
fn without_heartbeats(old: &[NodeCondition], new: &[NodeCondition]) -> Vec<NodeCondition> {
    let still = |condition: &NodeCondition| NodeCondition { last_heartbeat_time: None, ..condition.clone() };
    new.iter()
        .map(|condition| {
            let same = old.iter().find(|old| still(old) == still(condition));
            same.unwrap_or(condition).clone()
        })
        .collect()
}
