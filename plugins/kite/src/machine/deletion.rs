//! A machine that goes: first the guest, then what it ran on, then its own object.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, act};

use super::parts::{Child, Parts};
use super::status;
use crate::api::KiteVirtualMachine;
use crate::identity::Identity;
use crate::names;
use crate::ownership::Ownership;
use crate::render::service::Which;

/// When to look again at a guest that is shutting down.
const SHUTTING_DOWN: Duration = Duration::from_secs(5);

/// Concludes a pass of a machine that goes. A kind that is not served counts as absent: without KubeVirt there is no
/// guest to wait for.
pub fn conclude(machine: &KiteVirtualMachine, id: &Identity, parts: &Parts) -> Conclusion {
    let metadata = &machine.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let mut is_held = finalizers.iter().any(|finalizer| finalizer == names::VM_FINALIZER);
    let mut end = Conclusion::new();
    let (status, summary) = status::deleting(machine, parts);
    if machine.spec.delete == Some(true) && metadata.deletion_timestamp.is_none() {
        // The object's own deletion is what cannot be taken back; the finalizer keeps it until all is gone.
        if !is_held && has_parts(id, parts) {
            end.push(act::add_finalizer(id.reference(), names::VM_FINALIZER));
            is_held = true;
        }
        end.push(status);
        end.push(act::delete(id.reference()).uid(&id.uid));
    } else {
        end.push(status);
    }
    if !is_held {
        return end;
    }
    let [ssh, web] = Which::BOTH.map(|which| parts.service(id, which));
    end.extend([parts.ingress(id), ssh, web, parts.vm(id)].into_iter().filter_map(removal));
    if parts.evidence.own_vm(id).is_some() || parts.evidence.own_instance(id).is_some() {
        // Its disk and its Secrets stay until the guest is really gone.
        let again_after = summary.again_after.map_or(SHUTTING_DOWN, |wait| wait.min(SHUTTING_DOWN));
        return end.requeue_after(again_after);
    }
    let volume = parts.volume(id);
    let claim = (volume.ownership == Ownership::Absent).then(|| parts.claim(id));
    end.extend([Some(volume), claim].into_iter().flatten().filter_map(removal));
    end.extend([parts.cloud_init(id)].into_iter().chain(parts.inputs(id)).filter_map(removal));
    end.extend(parts.all(id).into_iter().filter_map(|child| kept(id, &child)));
    end.push(act::remove_finalizer(id.reference(), names::VM_FINALIZER));
    end
}

fn has_parts(id: &Identity, parts: &Parts) -> bool {
    let claim = parts.claim(id);
    parts.all(id).into_iter().chain([claim]).any(|child| child.ownership.is_ours())
}

fn removal(child: Child) -> Option<Action> {
    let is_due = child.ownership.is_ours() && !child.is_going;
    is_due.then(|| act::delete(child.at).uid(child.uid).into())
}

/// Tells of an object that has the name of a part and is somebody else's. Told with the last step, so once.
fn kept(id: &Identity, child: &Child) -> Option<Action> {
    (child.ownership == Ownership::Foreign).then(|| {
        let message = format!("{} is somebody else's and stays", child.text());
        act::warning(id.reference(), "ForeignResourceKept", message)
    })
}
