//! Moving the Pods off a Node: before its VM goes, before it is updated in place, and where it is kept though it failed.

use evenkeel_sdk::{Pass, Stop};
use jiff::Timestamp;

use super::creation::until;
use super::drain::{self, Budget, Plan, Pod};
use super::health;
use crate::duration::GoDuration;
use crate::kinds::{Machine, Named, Node};
use crate::names;

/// How long Pods are waited for unless the machine says otherwise.
const DRAIN_TIMEOUT: GoDuration = GoDuration::seconds(2 * 3600);

/// What is to be done until the Node is empty; none once it is. With `force` budgets do not count.
pub(super) fn plan(pass: &Pass, node: &Node, force: bool) -> Result<Option<Plan>, Stop> {
    let pods = pass.list::<Pod>().field("/spec/nodeName", node.name()).ask();
    let budgets = pass.list::<Budget>().ask();
    let plan = drain::plan(&pods.read()?, &budgets.read()?, force);
    Ok((!plan.is_done()).then_some(plan))
}

/// Whether the Pods' budgets count no longer: somebody said so, Pods have been waited for since then for the drain timeout,
/// or the Node is beyond hope.
pub(super) fn is_forced(machine: &Machine, node: &Node, since: Option<Timestamp>, now: Timestamp) -> bool {
    let label = machine.label(names::FORCE_LABEL);
    let asked = label.is_some_and(|value| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"));
    let timeout = machine.spec.drain_timeout.unwrap_or(DRAIN_TIMEOUT).0;
    let late = since.is_some_and(|since| until(since, timeout, now).is_zero());
    asked || late || health::is_beyond_hope(&node.status.conditions, now)
}
