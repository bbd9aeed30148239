//! D9, D10: the new OS is put in place for the next boot, and the machine goes down.

use serde_json::json;

use crate::boot::REBOOT_PATIENCE;
use crate::flow::{Flow, Halt, Next, Progress, Short};
use crate::hooks::{self, Context, OnFailure, Ran};
use crate::image;
use crate::names::events;
use crate::state::{Phase, RebootAsked, Update};
use crate::words::{Code, Error, Hook, Known, OperationState, Reboot, Rollback, StageOs, WayBack, WriteSpec};

/// How often a reboot is asked for.
const REBOOTS_MAX: u32 = 3;

/// O1 to O5.
pub fn stage(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    let target = flow.desired.spec.os.image.clone().unwrap_or_default();
    let os = flow.os()?;
    // O1, before anything is staged
    let way_back = way_back(&update);
    if flow.way_back.as_ref() != Some(&way_back) {
        let rollback = Some(Rollback::Set(way_back.clone()));
        flow.write("way-back", WriteSpec { rollback, ..WriteSpec::default() })?;
        flow.way_back = Some(way_back);
    }
    if image::is_of(&os.booted, &target) {
        // The machine came up with it before, and the state that told so was lost.
        flow.change("is-up", |update| {
            update.phase = Phase::Activating;
            update.rebooted = true;
            update.reboot = None;
        })?;
        return Ok(Next::Go);
    }
    // O2
    let staged = os.staged.as_ref().is_some_and(|staged| image::is_of(staged, &target));
    if !staged {
        let progress = flow.long_until("stage-os", "stage-os", &StageOs { image: target.clone() }, false)?;
        match progress {
            Progress::Done | Progress::Running => {
                flow.note = format!("staging {target}");
                return Ok(Next::Wait);
            }
            Progress::Failed(error) => return Err(Halt::Failed(flow.trouble("os", &target, &error))),
        }
    }
    // O3
    let context = Context { changes: Vec::new(), rebooted: false };
    let prefix = flow.key("before-rebooting");
    match hooks::run(flow, Hook::BeforeRebooting, &prefix, &context, OnFailure::Stop)? {
        Ran::Done => {}
        Ran::Running(what) => {
            flow.note = format!("running {what}");
            return Ok(Next::Wait);
        }
        Ran::Failed((element, error)) => return Err(Halt::Failed(flow.trouble("hooks", &element, &error))),
    }
    // O4, O5
    let at = flow.now_text()?;
    let asked = RebootAsked { boot_id: flow.boot.boot_id.clone(), image: target.clone(), at, tries: 1 };
    flow.change("rebooting", |update| {
        update.phase = Phase::Rebooting;
        update.reboot = Some(asked);
    })?;
    flow.tell(events::REBOOT_REQUESTED, format!("into {target}, for version {}", update.target.version));
    report(flow)?;
    Ok(Next::Go)
}

/// What `rollback.json` has to say while an update's OS is staged or booted.
pub fn way_back(update: &Update) -> WayBack {
    WayBack {
        version: update.from.version.clone(),
        os_image: update.from.os_image.clone(),
        desired_version: update.target.version.clone(),
        desired_spec_hash: update.target.spec_hash.clone(),
    }
}

/// Has the status pushed now; whether it arrives decides nothing.
pub fn report(flow: &Flow<'_>) -> Result<(), Halt> {
    let short = Short { operation: "report", key: flow.key("report"), arguments: json!({}) };
    for outcome in flow.act(&[short])? {
        if let Err(error) = outcome {
            flow.log(format!("the status could not be pushed: {}", error.message));
        }
    }
    Ok(())
}

/// The name under which a reboot is asked for.
fn name(base: &str, tries: u32) -> String {
    if tries <= 1 { base.to_owned() } else { format!("{base}/{tries}") }
}

/// What a reboot that was asked for came to.
pub enum Down {
    /// It is on its way.
    Wait,
    /// It was asked for again and again.
    Failed(Error),
}

/// Asks for a reboot, and again where nothing comes of it. Only another boot id says that it happened.
pub fn ask_for_reboot(
    flow: &mut Flow<'_>,
    operation: &str,
    base: &str,
    arguments: &serde_json::Value,
) -> Result<Down, Halt> {
    let asked = flow.update()?.reboot.unwrap_or_default();
    let tries = asked.tries.max(1);
    let key = flow.key(&name(base, tries));
    let stands = flow.keyed(operation, &key, arguments)?;
    let gone_by = flow.elapsed(&asked.at)?;
    let why = match stands {
        Known::Unknown { unknown } if unknown.code != Code::Transient => return Ok(Down::Failed(unknown)),
        Known::Unknown { unknown } => unknown.message,
        Known::Answer(OperationState::Lost) => "it was cut short".to_owned(),
        Known::Answer(_) if gone_by < REBOOT_PATIENCE => {
            flow.look_again(REBOOT_PATIENCE - gone_by);
            flow.note = "the machine reboots".to_owned();
            return Ok(Down::Wait);
        }
        Known::Answer(_) => "the machine does not reboot".to_owned(),
    };
    if tries >= REBOOTS_MAX {
        return Ok(Down::Failed(Error {
            code: Code::Invalid,
            message: format!("{why}, asked {tries} times"),
        }));
    }
    let (boot_id, now) = (flow.boot.boot_id.clone(), flow.now_text()?);
    flow.change(&format!("{base}-again"), |update| {
        let reboot = update.reboot.get_or_insert_default();
        reboot.boot_id = boot_id;
        reboot.tries = tries + 1;
        reboot.at = now;
    })?;
    let key = flow.key(&name(base, tries + 1));
    flow.keyed(operation, &key, arguments)?;
    flow.look_again(REBOOT_PATIENCE);
    flow.note = format!("the machine is asked to reboot again: {why}");
    Ok(Down::Wait)
}

/// D10: until the boot id changes.
pub fn reboot(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let target = flow.desired.spec.os.image.clone().unwrap_or_default();
    let version = flow.update()?.target.version;
    let arguments =
        json!(Reboot { reason: format!("update to version {version}"), expect: Some(target.clone()) });
    match ask_for_reboot(flow, "reboot", "reboot", &arguments)? {
        Down::Wait => Ok(Next::Wait),
        Down::Failed(error) => Err(Halt::Failed(flow.trouble("os", &target, &error))),
    }
}
