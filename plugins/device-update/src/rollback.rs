//! D13: back to what was in effect, stage by stage. All is tried, what failed is joined, and it is tried again as a whole.

use serde_json::json;

use crate::applying;
use crate::failure;
use crate::files;
use crate::flow::{Flow, Halt, Next, Progress, Short};
use crate::hooks::{self, Context, OnFailure, Ran};
use crate::image;
use crate::names::events;
use crate::staging::{self, Down};
use crate::state::{RebootAsked, Stage, Trouble, Way, WayBack};
use crate::words::{AppId, Hook, Known, RollbackOs, Spec};

/// How often the way back is tried before somebody has to look.
const TRIES_MAX: u32 = 5;

/// One step of the way back.
pub fn roll_back(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let back = flow.update()?.rollback.unwrap_or_default();
    match back.stage {
        Stage::Leaving => leave(flow, &back),
        Stage::Booting => boot(flow),
        Stage::Restoring => restore(flow, &back),
        Stage::Stuck => {
            flow.note = "the way back failed; a newer version may still be adopted".to_owned();
            Ok(Next::Wait)
        }
    }
}

fn prefix(back: &WayBack) -> String {
    format!("rollback/{}/", back.tries)
}

/// Rx: on the OS that failed. Nothing here may hold the device back: to stay is worse.
fn leave(flow: &mut Flow<'_>, back: &WayBack) -> Result<Next, Halt> {
    let prefix = prefix(back);
    let wanted = flow.desired.clone();
    let up: Vec<String> = wanted
        .applications()
        .into_keys()
        .filter(|id| flow.applications.get(id).is_some_and(applying::is_up))
        .collect();
    up.iter().for_each(|id| flow.put_long(&format!("{prefix}leave/stop-app/{id}")));
    for id in &up {
        match flow.long("stop-app", &format!("{prefix}leave/stop-app/{id}"), &AppId { id: id.clone() })? {
            Progress::Running => {
                flow.note = format!("stopping application {id}");
                return Ok(Next::Wait);
            }
            Progress::Done => {}
            Progress::Failed(error) => flow.log(format!("application {id} does not stop: {}", error.message)),
        }
    }
    let key = flow.key(&format!("{prefix}before-rebooting"));
    let context = Context { changes: Vec::new(), rebooted: flow.update()?.rebooted };
    if let Ran::Running(what) = hooks::run(flow, Hook::BeforeRebooting, &key, &context, OnFailure::Tell)? {
        flow.note = format!("running {what}");
        return Ok(Next::Wait);
    }
    let (at, boot_id, image) = (flow.now_text()?, flow.boot.boot_id.clone(), flow.update()?.from.os_image);
    flow.change("booting", |update| {
        update.reboot = Some(RebootAsked { boot_id, image: image.clone(), at, tries: 1 });
        if let Some(back) = &mut update.rollback {
            back.stage = Stage::Booting;
        }
    })?;
    flow.tell(events::REBOOT_REQUESTED, format!("back into {image}"));
    staging::report(flow)?;
    Ok(Next::Go)
}

/// Rx: until the boot id changes, which [`crate::boot`] sees.
fn boot(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    let asked = update.reboot.clone().unwrap_or_default();
    if asked.boot_id != flow.boot.boot_id {
        // It came up with the OS that failed: once more.
        let (boot_id, now) = (flow.boot.boot_id.clone(), flow.now_text()?);
        flow.change("booting-again", |update| {
            let reboot = update.reboot.get_or_insert_default();
            reboot.boot_id = boot_id;
            reboot.tries = asked.tries + 1;
            reboot.at = now;
        })?;
        return Ok(Next::Go);
    }
    let arguments = json!(RollbackOs { expect: update.from.os_image });
    match staging::ask_for_reboot(flow, "rollback-os", "rollback-os", &arguments)? {
        Down::Wait => Ok(Next::Wait),
        Down::Failed(error) => {
            let message = format!("the old OS cannot be booted: {}", error.message);
            flow.warn(events::ROLLBACK_TROUBLE, message.clone());
            flow.change("stuck", |update| {
                if let Some(back) = &mut update.rollback {
                    back.stage = Stage::Stuck;
                    back.error = Some(message);
                }
            })?;
            Ok(Next::Go)
        }
    }
}

/// R2 to R5.
fn restore(flow: &mut Flow<'_>, back: &WayBack) -> Result<Next, Halt> {
    let prefix = prefix(back);
    let mut errors = Vec::new();
    unstage(flow, &prefix, &mut errors)?;
    if applications(flow, &prefix, &mut errors)? == Next::Wait {
        return Ok(Next::Wait);
    }
    let changed = config_files(flow, &prefix, &mut errors)?;
    if after(flow, back, &prefix, changed, &mut errors)? == Next::Wait {
        return Ok(Next::Wait);
    }
    if errors.is_empty() {
        end(flow)?;
    } else {
        trouble(flow, errors)?;
    }
    Ok(Next::Go)
}

/// R2
fn unstage(flow: &mut Flow<'_>, prefix: &str, errors: &mut Vec<String>) -> Result<(), Halt> {
    let Known::Answer(os) = &flow.os else { return Ok(()) };
    let target = flow.desired.spec.os.image.as_ref();
    let is_staged = |target: &String| os.staged.as_ref().is_some_and(|staged| image::is_of(staged, target));
    if !target.is_some_and(is_staged) {
        return Ok(());
    }
    let short = Short {
        operation: "unstage-os",
        key: flow.key(&format!("{prefix}unstage-os")),
        arguments: json!({}),
    };
    for outcome in flow.act(&[short])? {
        errors.extend(outcome.err().map(|error| format!("os: {}", error.message)));
    }
    Ok(())
}

/// R3
fn applications(flow: &mut Flow<'_>, prefix: &str, errors: &mut Vec<String>) -> Result<Next, Halt> {
    let current = flow.current.clone();
    let steps = applying::app_steps(flow, &current, Spec::Current);
    steps.iter().for_each(|step| step.put(flow, prefix));
    let mut failed: Option<String> = None;
    for step in steps {
        // What could not be stopped is not removed under its feet, nor installed anew.
        if failed.as_ref() == Some(&step.id) {
            continue;
        }
        match step.take(flow, prefix)? {
            Progress::Done => {}
            Progress::Running => {
                flow.note = step.note();
                return Ok(Next::Wait);
            }
            Progress::Failed(error) => {
                errors.push(format!("application {}: {}", step.id, error.message));
                failed = Some(step.id);
            }
        }
    }
    Ok(Next::Go)
}

/// R4; tells whether a file had to be changed.
fn config_files(flow: &mut Flow<'_>, prefix: &str, errors: &mut Vec<String>) -> Result<bool, Halt> {
    let current = flow.current.clone();
    let dropped = files::dropped(flow, &current);
    let wanted = current.files();
    let seen = files::look(flow, &wanted)?;
    let differing = wanted.values().any(|file| !files::is_as_wanted(file, &seen));
    if dropped.is_empty() && !differing {
        return Ok(false);
    }
    if !flow.update()?.rollback.unwrap_or_default().changed_files {
        flow.change(&format!("{prefix}changes"), |update| {
            if let Some(back) = &mut update.rollback {
                back.changed_files = true;
            }
        })?;
    }
    for (path, error) in files::restore(flow, &dropped, prefix)? {
        errors.push(format!("{path}: {}", error.message));
    }
    if let Err((path, error)) = files::write(flow, Spec::Current, prefix)? {
        errors.push(format!("{path}: {}", error.message));
    }
    Ok(true)
}

/// R5
fn after(
    flow: &mut Flow<'_>,
    back: &WayBack,
    prefix: &str,
    changed_now: bool,
    errors: &mut Vec<String>,
) -> Result<Next, Halt> {
    let changes = files::reversed(&files::changes(&flow.current, &flow.desired));
    if changed_now && (files::change_units(&changes) || crate::activating::changes_unit_applications(flow)) {
        crate::activating::daemon_reload(flow, &format!("{prefix}daemon-reload"))?;
    }
    if changed_now || back.changed_files {
        let key = flow.key(&format!("{prefix}after-updating"));
        let context = Context { changes, rebooted: flow.update()?.rebooted };
        if let Ran::Running(what) = hooks::run(flow, Hook::AfterUpdating, &key, &context, OnFailure::Tell)? {
            flow.note = format!("running {what}");
            return Ok(Next::Wait);
        }
    }
    let current = flow.current.clone();
    let to_start: Vec<String> = current
        .applications()
        .into_iter()
        .filter(|(id, application)| {
            application.shall_run()
                && flow.applications.get(id).is_some_and(|seen| !applying::is_up(seen) && !is_done(seen))
        })
        .map(|(id, _)| id)
        .collect();
    to_start.iter().for_each(|id| flow.put_long(&format!("{prefix}start-app/{id}")));
    for id in to_start {
        match flow.long("start-app", &format!("{prefix}start-app/{id}"), &AppId { id: id.clone() })? {
            // What starts and dies again is the steady state's to look after.
            Progress::Done => {}
            Progress::Running => {
                flow.note = format!("starting application {id}");
                return Ok(Next::Wait);
            }
            Progress::Failed(error) => errors.push(format!("application {id}: {}", error.message)),
        }
    }
    Ok(Next::Go)
}

fn is_done(seen: &crate::words::AppSeen) -> bool {
    seen.observed == crate::words::AppState::Completed
}

/// The way back is taken: the version has failed for good, or is tried again.
fn end(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let update = flow.update()?;
    let back = update.rollback.clone().unwrap_or_default();
    if back.mark_failed || back.kind == Way::Os {
        let trouble = update.error.unwrap_or_else(unexplained);
        return failure::give_up(flow, &trouble);
    }
    failure::try_again(flow, update.error)
}

fn unexplained() -> Trouble {
    Trouble {
        phase: "RollingBack".to_owned(),
        component: "update".to_owned(),
        element: "state".to_owned(),
        message: "the cause is not on record".to_owned(),
        code: crate::words::Code::Invalid,
        retryable: false,
    }
}

/// A try of the way back failed: another one after a while, or somebody has to look.
pub fn trouble(flow: &mut Flow<'_>, mut errors: Vec<String>) -> Result<(), Halt> {
    errors.sort();
    errors.dedup();
    let message = errors.join("; ");
    flow.warn(events::ROLLBACK_TROUBLE, message.clone());
    let tries = flow.update()?.rollback.unwrap_or_default().tries;
    let next_try = flow.after(failure::back_off(&flow.primary.uid, tries))?;
    flow.change("rollback-again", |update| {
        let Some(back) = &mut update.rollback else { return };
        back.error = Some(message);
        if back.tries >= TRIES_MAX {
            back.stage = Stage::Stuck;
        } else {
            back.tries += 1;
            update.next_try = Some(next_try);
        }
    })
}
