//! R6: what CDI says about a machine's disk, in the machine's status.

use evenkeel_sdk::{Conclusion, Pass, Stop, act};

use crate::api::KiteVirtualMachine;
use crate::api::machine::KiteVirtualMachineStatus;
use crate::disk::{self, Disk, DiskState};
use crate::evidence::{self, MACHINE_VIEW};
use crate::identity::Identity;
use crate::kinds::DataVolume;
use crate::names;
use crate::ownership::labelled_machine;
use crate::status::{self, Draft};

#[cfg(test)]
mod tests;

/// The condition that tells of the disk.
const CONDITION: &str = "DiskReady";

/// What R6 reads of a DataVolume: what all read, and the progress.
pub const VIEW: &[&str] = &[
    "/metadata/labels",
    "/metadata/ownerReferences",
    "/metadata/uid",
    "/metadata/deletionTimestamp",
    "/status/phase",
    "/status/progress",
    "/status/conditions",
    "/status/restartCount",
];

/// Mirror the state of the disk; have R3 decide about one that is gone.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let namespace = pass.namespace();
    let volume = pass.primary::<DataVolume>()?;
    let Some(name) = pass.name().strip_suffix("-disk") else { return Ok(Conclusion::new()) };
    // Labels are anybody's to write: they count only where they name the object's own place.
    let seen = if volume.is_none() { pass.last_seen::<DataVolume>()? } else { volume.clone() };
    if seen.is_some_and(|volume| labelled_machine(&volume.metadata) != Some(name)) {
        return Ok(Conclusion::new());
    }
    let machine = pass.get::<KiteVirtualMachine>((namespace, name)).view(MACHINE_VIEW).ask();
    let questions = evidence::ask(pass, namespace, name);
    let Some(machine) = machine.read()? else { return Ok(Conclusion::new()) };
    let evidence = questions.read()?;
    let id = Identity::of(&machine);
    if volume.is_some() && evidence.own_volume(&id).is_none() {
        return Ok(Conclusion::new());
    }
    if volume.is_none() && evidence.is_deleting(&machine) {
        return Ok(Conclusion::new());
    }

    let disk = evidence.disk(&id);
    let summary = evidence.summary_by_status(&machine);
    let mut draft = Draft::summarized(&machine, evidence.now, &summary);
    mirror(&mut draft.fields, &disk, volume.as_ref(), &machine);
    draft.set(CONDITION, disk.ready, disk.reason, &disk.message);
    let mut end = Conclusion::new().with(draft.into_action());
    if volume.is_none() {
        end.push(act::enqueue(names::VIRTUAL_MACHINE, id.reference()));
    }
    Ok(match summary.again_after {
        Some(wait) => end.requeue_after(wait),
        None => end,
    })
}

fn mirror(
    fields: &mut KiteVirtualMachineStatus,
    disk: &Disk,
    volume: Option<&DataVolume>,
    machine: &KiteVirtualMachine,
) {
    let last = status::of(machine);
    if disk.state == DiskState::Missing {
        // What was last known stays: R3 goes by it when it decides whether a disk was lost.
        fields.data_volume_phase = last.data_volume_phase;
        fields.data_volume_progress = last.data_volume_progress;
        fields.data_volume_message = last.data_volume_message;
        return;
    }
    let found = match volume {
        Some(volume) => volume.status.progress.as_deref().and_then(disk::progress),
        None => Some("100.0%"),
    };
    fields.data_volume_progress = found.map(|found| settled(found, disk, &last).to_owned());
    fields.data_volume_phase = disk.phase.clone();
    fields.data_volume_message = Some(disk.message.clone());
}

/// The progress to show. Within a percent it stays as it was: nobody needs a write every two seconds.
fn settled<'t>(found: &'t str, disk: &Disk, last: &'t KiteVirtualMachineStatus) -> &'t str {
    let is_same_reason = last.conditions.iter().any(|c| c.type_ == CONDITION && c.reason == disk.reason);
    let is_same = is_same_reason && last.data_volume_phase == disk.phase;
    match last.data_volume_progress.as_deref() {
        Some(shown) if is_same && disk::is_same_percent(shown, found) => shown,
        _ => found,
    }
}
