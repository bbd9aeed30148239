//! R5: a machine's Services, as they were rendered.
//!
//! R3 makes them; from then on they are kept here, where it can be told what was changed. The summary is none of R5's
//! business: it has a condition of its own.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, ConditionStatus, Pass, Stop, act};
use serde_json::json;

use crate::api::KiteVirtualMachine;
use crate::identity::Identity;
use crate::kinds::{Namespace, VmService};
use crate::ownership::{classify, labelled_machine};
use crate::render::service::{Which, service};
use crate::spec;
use crate::status::{self, Draft};
use crate::verdict::Verdict;

mod drift;

#[cfg(test)]
mod tests;

use drift::Drift;

/// The condition that tells of the Services.
const CONDITION: &str = "ServicesReady";
/// When to try again what the API server rejected.
const REJECTED: Duration = Duration::from_secs(60);

/// What R5 reads of a machine: whether its Services are wanted at all, and what was last said of them. Both Services have
/// a pass of their own and share the condition, so each has to see what the other wrote.
const MACHINE_VIEW: &[&str] =
    &["/metadata/uid", "/metadata/generation", "/metadata/deletionTimestamp", "/spec", "/status/conditions"];

/// Put one Service right, and say in the status how both are.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let namespace = pass.namespace();
    let Some((which, name)) = Which::parse(pass.name()) else { return Ok(Conclusion::new()) };
    // Labels are anybody's to write: they count only where they name the object's own place.
    let primary = pass.primary::<VmService>()?;
    if primary.is_some_and(|service| labelled_machine(&service.metadata) != Some(name)) {
        return Ok(Conclusion::new());
    }
    let machine = pass.get::<KiteVirtualMachine>((namespace, name)).view(MACHINE_VIEW).ask();
    let home = pass.get::<Namespace>(namespace).ask();
    let own = pass.get::<VmService>((namespace, pass.name())).ask();
    let sibling = pass.get::<VmService>((namespace, which.sibling().name_for(name))).ask();
    let clock = pass.clock();
    let Some(machine) = machine.read()? else { return Ok(Conclusion::new()) };
    let (home, own, sibling, now) = (home.read()?, own.read()?, sibling.read()?, clock.read()?);

    let is_deleting = machine.metadata.deletion_timestamp.is_some()
        || machine.spec.delete == Some(true)
        || home.is_none_or(|home| home.is_terminating());
    if is_deleting || spec::check(name, &machine.spec).is_err() {
        return Ok(Conclusion::new());
    }
    let id = Identity::of(&machine);
    if own.as_ref().is_some_and(|own| !classify(Some(&own.metadata), &id).is_ours()) {
        return Ok(Conclusion::new());
    }
    let mut draft = Draft::new(&machine, now);
    if let Some(failed) = pass.last_failure().filter(|failed| Verdict::is_rejection(failed)) {
        let verdict = Verdict::of_failure(failed);
        let message = verdict.as_ref().map(Verdict::message).unwrap_or_default();
        draft.set(CONDITION, ConditionStatus::False, "ApplyFailed", message);
        return Ok(Conclusion::new().with(draft.into_action()).requeue_after(REJECTED));
    }

    let own = Drift::of(own.as_ref(), which, &id);
    let sibling = Drift::of(sibling.as_ref(), which.sibling(), &id);
    let mut end = Conclusion::new();
    if own.is_wrong() {
        end.extend(repair(which, &id, &own));
    }
    if let Some((status, reason, message)) = verdict(&machine, &own, &sibling) {
        draft.set(CONDITION, status, reason, &message);
        end.push(draft.into_action());
    }
    Ok(end)
}

/// Applies the Service, and tells what that changed.
fn repair(which: Which, id: &Identity, drift: &Drift) -> [Action; 2] {
    let mut object = service(id, which);
    // The pass's primary is the Service, so `controlled` would say the wrong owner.
    object["metadata"]["ownerReferences"] = json!([id.owner()]);
    [act::apply(&object).force().into(), act::normal(id.reference(), "Repaired", drift.repaired())]
}

/// What the condition says; none where it says so already, or where the sibling's own pass has to put it right first.
fn verdict(
    machine: &KiteVirtualMachine,
    own: &Drift,
    sibling: &Drift,
) -> Option<(ConditionStatus, &'static str, String)> {
    let mut foreign: Vec<_> = own.foreign().into_iter().chain(sibling.foreign()).collect();
    if !foreign.is_empty() {
        foreign.sort();
        let message =
            format!("fields of somebody else that an apply cannot take away: {}", foreign.join(", "));
        return Some((ConditionStatus::False, "ForeignFields", message));
    }
    if own.is_wrong() {
        return Some((ConditionStatus::True, "Repaired", own.repaired()));
    }
    if sibling.is_wrong() {
        return None;
    }
    // A repair stays to be read: the Service that it put right runs this pass again at once. And what is said already is
    // not said again: the sibling's pass may be telling of a repair in this very moment, and would be overwritten.
    let last = status::of(machine).conditions.into_iter().find(|condition| condition.type_ == CONDITION);
    match last.filter(|last| last.status == ConditionStatus::True) {
        Some(last) if last.observed_generation == machine.metadata.generation => None,
        Some(last) if last.reason == "Repaired" => Some((ConditionStatus::True, "Repaired", last.message)),
        Some(_) | None => {
            Some((ConditionStatus::True, "InSync", "both Services are as they should be".to_owned()))
        }
    }
}
