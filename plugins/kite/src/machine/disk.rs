//! The disk is made once: CDI lets nobody change one, and a new one in the place of a lost one is data loss that looks
//! like success.

use std::time::Duration;

use super::parts::Parts;
use super::plan::{COLLECTOR, Obstacle, taken};
use crate::api::KiteVirtualMachine;
use crate::identity::Identity;
use crate::kinds::Claim;
use crate::names;
use crate::ownership::Ownership;
use crate::quantity::Quantity;
use crate::spec::Spec;
use crate::verdict::{Reason, Verdict};

/// When to look again for a golden image.
const IMAGE: Duration = Duration::from_secs(30);

/// What to do about the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// It is there.
    Keep,
    /// It is there without its owner reference.
    Adopt,
    /// It has to be made.
    Create,
}

/// Whether a new disk would be made, if the image allows: only then does the image matter.
pub fn is_wanted(machine: &KiteVirtualMachine, id: &Identity, parts: &Parts) -> bool {
    parts.volume(id).ownership == Ownership::Absent && parts.evidence.claim.is_none() && !is_lost(machine)
}

/// Decides about the disk. Foreign and stale ones are out of the way by now.
pub fn decide(
    machine: &KiteVirtualMachine,
    id: &Identity,
    parts: &Parts,
    spec: &Spec,
    image: Option<&Claim>,
) -> Result<Disk, Obstacle> {
    match parts.volume(id).ownership {
        Ownership::Owned => return Ok(Disk::Keep),
        Ownership::Legacy => return Ok(Disk::Adopt),
        Ownership::Absent | Ownership::Stale | Ownership::Foreign => {}
    }
    let claim = parts.claim(id);
    match claim.ownership {
        Ownership::Absent => {}
        Ownership::Foreign => return Err(taken(&claim)),
        Ownership::Owned | Ownership::Legacy | Ownership::Stale => {
            if parts.evidence.kept_claim(id).is_some() {
                return Ok(Disk::Keep);
            }
            let message = format!("waiting until {} of the earlier disk is gone", claim.text());
            let verdict = Verdict::pending(Reason::PreviousInstanceTerminating, &message);
            return Err(Obstacle { verdict, again_after: Some(COLLECTOR) });
        }
    }
    if is_lost(machine) {
        let message = format!(
            "the disk is gone; the annotation {}=true permits a new and empty one",
            names::ALLOW_DISK_RECREATE
        );
        return Err(Obstacle::until_changed(Reason::DiskLost, &message));
    }
    let Some(image) = image else {
        if !parts.config.check_golden_image {
            return Ok(Disk::Create);
        }
        let message = format!("waiting for the image {}", spec.image);
        let verdict = Verdict::pending(Reason::GoldenImageMissing, &message);
        return Err(Obstacle { verdict, again_after: Some(IMAGE) });
    };
    let size = image.spec.storage().and_then(Quantity::parse);
    if size.is_some_and(|size| spec.disk_size < size) {
        return Err(Obstacle::until_changed(Reason::InvalidSpec, "spec.disk: smaller than image"));
    }
    Ok(Disk::Create)
}

/// A note for who wants another size than the disk has.
pub fn note(id: &Identity, parts: &Parts, spec: &Spec) -> Option<&'static str> {
    let volume = parts.evidence.own_volume(id)?;
    let size = Quantity::parse(volume.spec.pvc.storage()?)?;
    (size != spec.disk_size).then_some("the disk keeps its size: disk resize is unsupported")
}

/// Whether there was a filled disk, and nobody said that a new one will do.
fn is_lost(machine: &KiteVirtualMachine) -> bool {
    let phase = machine.status.as_ref().and_then(|status| status.data_volume_phase.as_deref());
    let annotations = machine.metadata.annotations.as_ref();
    let may_be_new =
        annotations.and_then(|map| map.get(names::ALLOW_DISK_RECREATE)).is_some_and(|v| v == "true");
    phase == Some("Succeeded") && !may_be_new
}
