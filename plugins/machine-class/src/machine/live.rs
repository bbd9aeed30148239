//! A machine that has its VM: its Node's health in its status, its template on its Node.

use std::time::Duration;

use evenkeel_sdk::{Conclusion, Pass, Stop, act};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;

use super::content::Content;
use super::creation::{self, time_left, until};
use super::health::{self, Next, Seen};
use super::node;
use super::status::{Draft, Operation, State};
use crate::config::Config;
use crate::duration::GoDuration;
use crate::kinds::{Machine, Named, Node};
use crate::names;

/// How long a machine may be unhealthy unless it says otherwise.
const HEALTH_TIMEOUT: GoDuration = GoDuration::seconds(10 * 60);

/// Look after the Node of a machine.
pub fn reconcile(pass: &Pass, machine: &Machine, config: &Config) -> Result<Conclusion, Stop> {
    let now = pass.clock();
    let node = machine.node().filter(|_| config.nodes).map(|name| pass.get::<Node>(name).ask());
    let content = Content::read(pass, machine)?;
    let now = now.read()?;
    let node = match node {
        Some(question) => question.read()?.filter(|node| node.annotation(names::NOT_MANAGED).is_none()),
        None => None,
    };
    let mut end = Conclusion::new().requeue_after(config.long_retry.0);
    if !machine.spec.provider_id.is_empty() {
        let attempt = machine.annotation(names::INITIALIZE_ATTEMPT).and_then(|text| text.parse().ok());
        let node = machine.node().unwrap_or_default();
        end.push(creation::owned(machine, &machine.spec.provider_id, node, attempt.unwrap_or(0)));
    }
    if let Some(node) = &node {
        end.extend(node::look_after(machine, content.as_ref().map(|content| &content.class), node));
    }
    let mut draft = Draft::over(machine, now);
    if config.nodes && machine.phase() != "Failed" && machine.node().is_some() {
        let wait = judge(pass, machine, node.as_ref(), now, config, &mut draft)?;
        end = end.requeue_after(wait);
    }
    if content.is_none() && machine.phase() != "Failed" {
        // The VM runs on, but nobody could delete it: that is told before it matters.
        let message = format!(
            "MachineClass {} does not exist: the VM cannot be deleted without it",
            machine.spec.class.name
        );
        draft.operation(Operation::HealthCheck, State::Failed, "", &message);
        end.push(act::warning(machine.reference(), names::CLASS_MISSING, message));
    }
    end.push(draft.into_action());
    Ok(end)
}

/// Writes the Node's state into the status, and says when to look again at the latest.
fn judge(
    pass: &Pass,
    machine: &Machine,
    node: Option<&Node>,
    now: Timestamp,
    config: &Config,
    draft: &mut Draft<'_>,
) -> Result<Duration, Stop> {
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
        bad_conditions: machine.spec.node_conditions.as_deref().unwrap_or(health::CONDITIONS),
        creation_left: time_left(machine, now),
        health_left: health_left(machine, now),
    });
    let name = machine.name();
    match next {
        Next::Stay => {}
        Next::Wait(wait) => return Ok(wait),
        Next::Joined => {
            draft.phase("Running", false);
            let message = format!("Machine {name} successfully joined the cluster");
            draft.operation(Operation::Create, State::Successful, "", &message);
        }
        Next::Rejoined => {
            draft.phase("Running", false);
            let message = format!("Machine {name} successfully re-joined the cluster");
            draft.operation(Operation::HealthCheck, State::Successful, "", &message);
        }
        Next::Unwell(troubles) => {
            draft.phase("Unknown", false);
            let message = format!("Machine {name} is unhealthy: {troubles}");
            draft.operation(Operation::HealthCheck, State::Processing, "", &message);
            return Ok(if machine.spec.disable_health_timeout == Some(true) {
                config.long_retry.0
            } else {
                machine.spec.health_timeout.unwrap_or(HEALTH_TIMEOUT).0
            });
        }
        Next::NeverJoined => {
            draft.phase("Failed", false);
            let timeout = machine.spec.creation_timeout.unwrap_or(creation::CREATION_TIMEOUT);
            let message = format!("Machine {name} failed to join the cluster in {timeout}");
            draft.operation(Operation::Create, State::Failed, "", &message);
        }
        Next::TooLong if is_its_turn(pass, machine, now)? => {
            draft.phase("Failed", false);
            let timeout = machine.spec.health_timeout.unwrap_or(HEALTH_TIMEOUT);
            let message = format!("Machine {name} was not healthy for {timeout}");
            draft.operation(Operation::HealthCheck, State::Failed, "", &message);
        }
        Next::TooLong => return Ok(config.short_retry.0),
    }
    Ok(config.long_retry.0)
}

/// How much of the health timeout is left; none where it is off.
fn health_left(machine: &Machine, now: Timestamp) -> Option<Duration> {
    if machine.spec.disable_health_timeout == Some(true) {
        return None;
    }
    let timeout = machine.spec.health_timeout.unwrap_or(HEALTH_TIMEOUT).0;
    let since = machine.status.current_status.last_update_time.as_deref();
    Some(since.and_then(|time| time.parse().ok()).map_or(timeout, |since| until(since, timeout, now)))
}

/// Whether this machine is the one of its deployment that may be replaced now: no other is on its way out or in, and of
/// those that are due it is the first by name.
fn is_its_turn(pass: &Pass, machine: &Machine, now: Timestamp) -> Result<bool, Stop> {
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
        let settled = matches!(other.phase(), "Running" | "Unknown") && !other.is_deleting();
        let due = other.phase() == "Unknown" && health_left(other, now).is_some_and(|left| left.is_zero());
        settled && !(due && other.name() < machine.name())
    }))
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
