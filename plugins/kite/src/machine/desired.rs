//! A machine that shall be: its parts in order, then its status.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act, reference};
use serde_json::json;

use super::disk::{self, Disk};
use super::parts::Parts;
use super::plan::{Plan, plan};
use super::status;
use crate::api::KiteVirtualMachine;
use crate::identity::Identity;
use crate::kinds::{DataVolume, VirtualMachine};
use crate::names;
use crate::ownership::{Ownership, has_labels};
use crate::render;
use crate::render::service::Which;
use crate::summary::is_transitional;
use crate::verdict::Verdict;

/// When to look again at a machine that is on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(30);
/// When to try again what the API server rejected.
const REJECTED: Duration = Duration::from_secs(60);

/// Concludes a pass of a machine that shall be.
pub fn conclude(
    pass: &Pass,
    machine: &KiteVirtualMachine,
    id: &Identity,
    parts: &Parts,
) -> Result<Conclusion, Stop> {
    let mut end = Conclusion::new();
    let finalizers = machine.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == names::VM_FINALIZER) {
        end.push(act::add_finalizer(id.reference(), names::VM_FINALIZER));
    }
    let plan = match plan(pass, machine, id, parts)? {
        Ok(plan) => plan,
        Err(obstacle) => {
            end.push(status::held(machine, parts, &obstacle.verdict).0);
            return Ok(match obstacle.again_after {
                Some(wait) => end.requeue_after(wait),
                None => end,
            });
        }
    };
    if let Some(verdict) = pass.last_failure().and_then(Verdict::of_failure) {
        // Before the next try: should that fail too, the user has been told.
        end.push(status::held(machine, parts, &verdict).0);
        if pass.last_failure().is_some_and(Verdict::is_rejection) {
            return Ok(end.requeue_after(REJECTED));
        }
    }
    end.extend(actions(id, parts, &plan));
    end.extend(events(machine, id, parts, &plan));
    let note = disk::note(id, parts, &plan.spec).map(|note| format!("; {note}")).unwrap_or_default();
    let verdict = Verdict::Applied(format!("all parts are applied{note}"));
    let (action, summary) = status::applied(machine, id, parts, &plan, &verdict);
    end.push(action);
    Ok(if is_transitional(summary.phase) { end.requeue_after(ON_ITS_WAY) } else { end })
}

/// The parts, in the order that they need each other.
fn actions(id: &Identity, parts: &Parts, plan: &Plan) -> Vec<Action> {
    let Plan { spec, login, domain, disk } = plan;
    let config = &parts.config;
    let apply = |object: &serde_json::Value| Action::from(act::apply(object).force().controlled());
    let mut actions = Vec::new();
    match disk {
        Disk::Keep => {}
        Disk::Adopt => actions.extend(adopt_volume(id, parts)),
        Disk::Create => {
            actions
                .push(act::create(&render::data_volume::data_volume(id, spec, config)).controlled().into());
        }
    }
    actions.push(apply(&render::cloud_init::cloud_init(id, spec, login, config)));
    if !parts.vm(id).is_going {
        let at = reference::<VirtualMachine>((&id.namespace, &id.name));
        if parts.evidence.own_vm(id).is_some_and(|vm| vm.spec.running.is_some()) {
            // KubeVirt admits one of the two at a time, so both change in one step, which apply cannot do.
            let strategy = spec.power.run_strategy();
            actions.push(act::patch(at, &json!({ "spec": { "running": null, "runStrategy": strategy } })));
        }
        actions.push(apply(&render::virtual_machine::virtual_machine(id, spec)));
    }
    let services = Which::BOTH.into_iter().filter(|which| !is_settled(id, parts, *which));
    actions.extend(services.map(|which| apply(&render::service::service(id, which))));
    let ingress = parts.ingress(id);
    match domain.host() {
        Some(host) => actions.push(apply(&render::ingress::ingress(id, host, config))),
        None if ingress.ownership.is_ours() && !ingress.is_going => {
            actions.push(act::delete(ingress.at).uid(ingress.uid).into());
        }
        None => {}
    }
    actions
}

/// Whether a Service is there and marked as ours: what it says is R5's to keep, which tells what it changed.
fn is_settled(id: &Identity, parts: &Parts, which: Which) -> bool {
    parts.service(id, which).ownership == Ownership::Owned
        && parts.service_metadata(which).is_some_and(|metadata| has_labels(metadata, id))
}

/// Makes the disk of an older Kite this machine's. By a patch: an apply of the metadata alone would drop the fields of
/// the spec that its manager owns, and CDI would refuse it.
fn adopt_volume(id: &Identity, parts: &Parts) -> Option<Action> {
    let volume = parts.evidence.own_volume(id)?;
    let mut owners = vec![id.owner()];
    owners.extend(volume.metadata.owner_references.iter().flatten().map(|owner| json!(owner)));
    let merge = json!({
        "metadata": { "ownerReferences": owners, "annotations": { names::KEEP_DATA_VOLUME: "false" } },
    });
    Some(act::patch(reference::<DataVolume>((&id.namespace, id.disk())), &merge))
}

/// What a user should hear of. Nothing is told twice: a generation is new once, and a drift is gone after this pass.
fn events(machine: &KiteVirtualMachine, id: &Identity, parts: &Parts, plan: &Plan) -> Vec<Action> {
    let status = machine.status.as_ref();
    let is_new = status.and_then(|status| status.observed_generation) != machine.metadata.generation;
    let mut events = Vec::new();
    if is_new && plan.login.plaintext {
        let message = format!(
            "spec.sshPassword is in clear text for all who may read this object; use the Secret {}",
            id.guest_login()
        );
        events.push(act::warning(id.reference(), "PlaintextPassword", message));
    }
    let wanted = plan.spec.power.run_strategy();
    let drifted = parts.evidence.own_vm(id).map(|vm| vm.spec.run_strategy.as_deref().unwrap_or("none"));
    if let Some(found) = drifted.filter(|found| !is_new && *found != wanted) {
        let message = format!("the run strategy was {found}; spec.powerState says {wanted}");
        events.push(act::normal(id.reference(), "PowerDriftCorrected", message));
    }
    events.extend(parts.config.complaint());
    events
}
