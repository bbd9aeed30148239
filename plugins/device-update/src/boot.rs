//! D2 and D3: what another boot means.

use std::time::Duration;

use crate::flow::{Flow, Halt, Next};
use crate::names::events;
use crate::state::{Phase, Stage, Trouble, Update, Way};
use crate::words::{Code, Hook, Known, Os, Rollback, Source, WriteSpec};
use crate::{failure, hooks, image};

/// How often the old OS is asked for again while the machine comes up with the one that failed.
const ROLLBACK_BOOTS_MAX: u32 = 3;

/// Looks whether the machine has rebooted; waits while hooks of this boot run.
pub fn look(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    enrolment(flow)?;
    let (seen, known) = (flow.boot.boot_id.clone(), flow.state.boot.last_boot_id.clone());
    if seen != known {
        if known.is_empty() {
            // The first start of all: nobody knows whether this boot is of ours.
            flow.state.boot.after_rebooting.clone_from(&seen);
            flow.state.boot.last_boot_id = seen;
            flow.write_state("first-boot")?;
            return Ok(Next::Go);
        }
        rebooted(flow)?;
    }
    if flow.state.boot.after_rebooting != flow.state.boot.last_boot_id {
        return after_rebooting(flow);
    }
    Ok(Next::Go)
}

/// Versions of another enrolment count for nothing.
fn enrolment(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let now = flow.identity.enrolment.clone();
    if now.is_empty() || now == flow.state.enrolment {
        return Ok(());
    }
    let first = flow.state.enrolment.is_empty();
    flow.state.enrolment = now;
    if first {
        return flow.write_state("enrolment");
    }
    flow.state.update = None;
    flow.state.failed.clear();
    flow.state.retried = None;
    flow.state.last_outcome = None;
    let zero = || Some(Source::Empty("0".to_owned()));
    let files = WriteSpec {
        desired: zero(),
        current: zero(),
        rollback: Some(Rollback::Clear),
        ..WriteSpec::default()
    };
    flow.write("new-enrolment", files)?;
    flow.way_back = None;
    flow.desired = crate::device::Device { version: "0".to_owned(), ..Default::default() };
    flow.current = flow.desired.clone();
    Ok(())
}

fn rebooted(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let boot_id = flow.boot.boot_id.clone();
    if let Some(update) = flow.state.update.clone() {
        // Nobody may act on a boot whose OS is not known: the boot stays unrecorded until it is.
        let os = flow.os()?;
        if expects_target(&update) && changes_os(flow, &update) {
            flow.state.boot.last_boot_id = boot_id;
            return came_up(flow, &update, &os);
        }
        if update.phase == Phase::RollingBack && is_way_of_os(&update) {
            flow.state.boot.last_boot_id = boot_id;
            return came_back(flow, &update, &os);
        }
    }
    flow.state.boot.last_boot_id = boot_id;
    flow.write_state("boot")
}

fn is_way_of_os(update: &Update) -> bool {
    update.rollback.as_ref().is_some_and(|back| back.kind == Way::Os && back.stage != Stage::Restoring)
}

/// Whether the machine may be on the update's OS already, or has been: also while another try is prepared or waited for
/// there, and while files are put back for one.
fn expects_target(update: &Update) -> bool {
    match update.phase {
        Phase::RollingBack => {
            update.rebooted && update.rollback.as_ref().is_some_and(|back| !back.mark_failed)
        }
        phase => phase.is_around_reboot() || update.rebooted,
    }
}

/// Whether the machine has come up with the update's OS, which is not in effect yet.
///
/// # Errors
/// Where nobody can tell of an update that was there: an end that leaves the wrong OS in place is none.
pub fn is_on_target(flow: &Flow<'_>, update: &Update) -> Result<bool, Halt> {
    let Some(target) = flow.desired.spec.os.image.as_ref().filter(|_| changes_os(flow, update)) else {
        return Ok(false);
    };
    match &flow.os {
        Known::Unknown { .. } if !update.rebooted => Ok(false),
        Known::Answer(_) | Known::Unknown { .. } => Ok(image::is_of(&flow.os()?.booted, target)),
    }
}

/// Whether the update is to another OS image than the one it started on.
pub fn changes_os(flow: &Flow<'_>, update: &Update) -> bool {
    let target = flow.desired.spec.os.image.as_deref();
    target.is_some_and(|target| image::normal(target) != image::normal(&update.from.os_image))
}

/// D3: up again in the midst of an OS update.
fn came_up(flow: &mut Flow<'_>, update: &Update, os: &Os) -> Result<(), Halt> {
    let target = flow.desired.spec.os.image.clone().unwrap_or_default();
    if image::is_of(&os.booted, &target) {
        return flow.change("came-up", |update| {
            update.rebooted = true;
            if matches!(update.phase, Phase::Staging | Phase::Rebooting) {
                update.phase = Phase::Activating;
            }
        });
    }
    let is_from = image::is_of(&os.booted, &update.from.os_image);
    let is_staged = os.staged.as_ref().is_some_and(|staged| image::is_of(staged, &target));
    let around = update.phase.is_around_reboot();
    if is_from && around && (is_staged || update.phase == Phase::Staging) {
        return flow.change("came-up-early", |update| {
            update.phase = Phase::Staging;
            update.reboot = None;
        });
    }
    if is_from {
        flow.state.come_home();
    }
    let message = format!("booted {}, expected {target}", os.booted.image);
    let trouble = Trouble {
        phase: update.phase.name().to_owned(),
        component: "os".to_owned(),
        element: target,
        message,
        code: Code::Invalid,
        retryable: false,
    };
    if update.phase == Phase::RollingBack {
        return failure::fail_on_the_way(flow, trouble);
    }
    failure::begin_way_back(flow, trouble, Way::Files, true)
}

/// D3b: up again on the way back.
fn came_back(flow: &mut Flow<'_>, update: &Update, os: &Os) -> Result<(), Halt> {
    if image::is_of(&os.booted, &update.from.os_image) {
        flow.state.come_home();
        return flow.change("came-back", |update| {
            update.reboot = None;
            if let Some(back) = &mut update.rollback {
                back.stage = Stage::Restoring;
            }
        });
    }
    let tries = update.reboot.as_ref().map_or(0, |reboot| reboot.tries);
    let booted = os.booted.image.clone();
    flow.change("came-up-wrong", |update| {
        update.reboot.get_or_insert_default().boot_id = String::new();
        if let Some(back) = &mut update.rollback {
            back.error = Some(format!("booted {booted} instead of the old OS"));
            back.stage = if tries >= ROLLBACK_BOOTS_MAX { Stage::Stuck } else { Stage::Booting };
        }
    })
}

/// Hooks that run once a boot; what fails is told and stops nothing.
fn after_rebooting(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let boot = flow.state.boot.last_boot_id.clone();
    let prefix = format!("{}/after-rebooting/{boot}", flow.primary.uid);
    let context = hooks::Context { changes: Vec::new(), rebooted: true };
    match hooks::run(flow, Hook::AfterRebooting, &prefix, &context, hooks::OnFailure::Tell)? {
        hooks::Ran::Running(what) => {
            flow.note = format!("running {what}");
            Ok(Next::Wait)
        }
        hooks::Ran::Done => {
            flow.state.boot.after_rebooting = boot;
            flow.write_state("after-rebooting")?;
            Ok(Next::Go)
        }
        hooks::Ran::Failed(_) => Ok(Next::Go),
    }
}

/// The service does not know the device any more: nothing is done until it is enrolled anew.
pub fn gone(flow: &mut Flow<'_>) -> Result<(), Halt> {
    flow.remarks.push("the service does not know this device any more".to_owned());
    flow.warn(
        events::DEVICE_GONE,
        "the service does not know this device any more: it has to be enrolled anew",
    );
    Ok(())
}

/// How long a reboot may take before it is asked for again.
pub const REBOOT_PATIENCE: Duration = Duration::from_secs(600);
