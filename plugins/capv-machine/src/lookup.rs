//! Which VM is a machine's, and whether that can be told.

use evenkeel_sdk::{Pass, Stop};
use serde_json::json;

use crate::api::VSphereMachineSpec;
use crate::identity::Identity;
use crate::seam::{self, Vm, VmAnswer, Why};

/// What there is of a machine on its vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its VM.
    Vm {
        /// The VM.
        vm: Box<Vm>,
        /// Whether a change of it will wake the machine.
        watched: bool,
    },
    /// There is none, and there never was one that was ready.
    Absent,
    /// There is none, and there was one.
    Lost,
    /// vCenter cannot read the VM's configuration.
    Inaccessible {
        /// Whether a change of it will wake the machine.
        watched: bool,
    },
    /// Several VMs have its UUID, and none of them, or more than one, bears its marker; or one was found that is not its
    /// own.
    Ambiguous(Vec<String>),
    /// Nobody knows.
    Unknown(Why),
}

/// Looks a machine's VM up: by its id, and where that leads nowhere by its UUIDs, in the same pass, since a VM may have
/// been registered anew.
pub fn find(
    pass: &Pass,
    spec: &VSphereMachineSpec,
    id: &Identity,
    machine_ref: Option<&str>,
    is_deleting: bool,
) -> Result<Found, Stop> {
    if let Some(vm) = machine_ref {
        let answer = seam::ask(pass, "vm", &json!({"server": spec.server, "vm": vm}))?;
        if let Some(found) = by_reference(answer, id) {
            return Ok(found);
        }
    }
    let by = |kind: &str, uuid: &str| -> Result<Found, Stop> {
        let question =
            json!({"server": spec.server, "datacenter": spec.datacenter, "kind": kind, "uuid": uuid});
        Ok(by_uuid(seam::ask(pass, "vm-by-uuid", &question)?, id))
    };
    let Some(bios) = &id.bios_uuid else { return by("instance", id.instance()) };
    match by("bios", bios)? {
        // Before its finalizer goes, nothing of it may be left under any of its names.
        Found::Absent if is_deleting => by("instance", id.instance()),
        Found::Absent => Ok(Found::Lost),
        other => Ok(other),
    }
}

/// None where the reference leads nowhere: the VM is gone, or the id is another VM's by now.
fn by_reference(answer: VmAnswer, id: &Identity) -> Option<Found> {
    match answer {
        VmAnswer::Unknown(why) => Some(Found::Unknown(why)),
        // Whose it is stands in what cannot be read.
        VmAnswer::Hit { vm, watched } if !vm.accessible => Some(Found::Inaccessible { watched }),
        VmAnswer::Hit { vm, watched } if id.is_ours(&vm) => Some(Found::Vm { vm, watched }),
        VmAnswer::Hit { .. } | VmAnswer::Absent | VmAnswer::Ambiguous { .. } => None,
    }
}

fn by_uuid(answer: VmAnswer, id: &Identity) -> Found {
    match answer {
        VmAnswer::Unknown(why) => Found::Unknown(why),
        VmAnswer::Absent => Found::Absent,
        VmAnswer::Hit { vm, watched } => own(vm, watched, id),
        VmAnswer::Ambiguous { vms } => {
            let mut marked = vms.iter().filter(|vm| id.is_marked(vm));
            match (marked.next(), marked.next()) {
                (Some(vm), None) => own(Box::new(vm.clone()), false, id),
                _ => Found::Ambiguous(vms.into_iter().map(|vm| vm.vm).collect()),
            }
        }
    }
}

/// A VM that has the UUID by its own words, too: of any other nothing is known.
fn own(vm: Box<Vm>, watched: bool, id: &Identity) -> Found {
    if !vm.accessible {
        Found::Inaccessible { watched }
    } else if id.is_ours(&vm) {
        Found::Vm { vm, watched }
    } else {
        Found::Ambiguous(vec![vm.vm])
    }
}
