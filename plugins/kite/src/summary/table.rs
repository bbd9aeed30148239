//! What KubeVirt's state for people means to a user of Kite.

use evenkeel_sdk::ConditionStatus::{self, False, True};

use super::{BEING_SET_UP, Summary, of};
use crate::disk::{Disk, DiskState};
use crate::spec::Power;

/// Longest unknown state that is quoted, in characters.
const QUOTED_MAX: usize = 64;

/// The summary of a machine in this state.
pub(super) fn row(status: &str, wanted: Power, disk: &Disk) -> Summary {
    // KubeVirt's schema says `Stopped` before its controller has looked: only a usable disk makes that believable.
    let usable = matches!(disk.state, DiskState::Ready | DiskState::WaitingConsumer);
    let on =
        |phase, ready: ConditionStatus, reason, message| of(phase, Some(Power::On), ready, reason, message);
    let off = |phase, reason, message| of(phase, Some(Power::Off), False, reason, message);
    let filling = || off("Provisioning", "DiskProvisioning", "the disk is being filled");
    match status {
        "Running" => match wanted {
            Power::On => on("Running", True, "Running", "the machine is running"),
            Power::Off => on("Stopping", False, "Stopping", "the machine is shutting down"),
        },
        "Paused" => on("Paused", False, "Paused", "the machine is paused"),
        "Migrating" => on("Running", True, "Migrating", "the machine is moving to another node"),
        "Starting" => on("Starting", False, "Starting", "the machine is starting"),
        "Stopping" => on("Stopping", False, "Stopping", "the machine is shutting down"),
        "Stopped" => match wanted {
            Power::On if usable => off("Starting", "Starting", "the machine is about to start"),
            Power::Off if usable => of("Stopped", Some(Power::Off), True, "Stopped", "the machine is off"),
            Power::On | Power::Off => filling(),
        },
        "Provisioning" => filling(),
        "WaitingForVolumeBinding" => {
            off("Provisioning", "WaitingForVolumeBinding", "the disk has no volume yet")
        }
        "WaitingForReceiver" => off("Provisioning", "Provisioning", "waiting for a migration to arrive"),
        "Terminating" => {
            off("Provisioning", "VirtualMachineRecreating", "the virtual machine goes and is made again")
        }
        "CrashLoopBackOff" => {
            off("Failed", "CrashLoopBackOff", "the machine fails to start, again and again")
        }
        "ErrorUnschedulable" => off("Failed", "Unschedulable", "no node has room for the machine"),
        "ErrImagePull" | "ImagePullBackOff" => {
            off("Failed", "ImagePullError", "an image of the machine cannot be pulled")
        }
        "ErrorPvcNotFound" => off("Failed", "PvcNotFound", "the disk's claim is missing"),
        "DataVolumeError" => off("Failed", "DataVolumeError", &disk.message),
        "Unknown" => unknown("Unknown", "KubeVirt does not know the machine's state"),
        "" => off("Provisioning", "Provisioning", BEING_SET_UP),
        other => {
            let quoted: String = other.chars().take(QUOTED_MAX).collect();
            unknown("UnrecognizedStatus", &format!("KubeVirt says {quoted:?}"))
        }
    }
}

fn unknown(reason: &str, message: &str) -> Summary {
    of("Unknown", None, ConditionStatus::Unknown, reason, message)
}
