//! D5: what is in effect is kept so. Nothing here fails a version.

use std::time::Duration;

use serde_json::json;

use crate::config::Drift;
use crate::files;
use crate::flow::{Flow, Halt, Next, Short};
use crate::hooks::{self, Context};
use crate::image;
use crate::names::events;
use crate::words::{
    AppId, AppSeen, AppState, Decommission, Expect, FileOp, InstallApp, Known, OperationState, Spec,
};

/// The wait before an application that keeps dying is started again, after its second death; it doubles with each.
const START_AGAIN: u64 = 10;
/// The longest such wait, in seconds.
const START_AGAIN_MAX: u64 = 600;

/// What is looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Whole,
    /// While a failed update waits for its next try: files and applications alone.
    WhileWaiting,
}

/// Puts right what is otherwise than current says.
pub fn steady(flow: &mut Flow<'_>, scope: Scope) -> Result<Next, Halt> {
    if crate::decide::is_decommissioned(flow)? {
        return Ok(Next::Wait);
    }
    put_questions(flow);
    config_files(flow)?;
    applications(flow)?;
    if scope == Scope::WhileWaiting {
        return Ok(Next::Wait);
    }
    if let Some(decommissioning) = flow.current.spec.decommissioning {
        let key = format!("{}/decommission", flow.primary.uid);
        let arguments = json!(Decommission { target: decommissioning.target });
        if let Known::Unknown { unknown } = flow.keyed("decommission", &key, &arguments)? {
            flow.remarks.push(format!("decommissioning failed: {}", unknown.message));
        }
    }
    os(flow)
}

fn put_questions(flow: &Flow<'_>) {
    files::put(flow, &flow.current.files());
    for id in flow.current.applications().keys() {
        let seq = flow.applications.get(id).map_or(0, |seen| seen.seq);
        for operation in ["install-app", "start-app", "stop-app"] {
            flow.put_key(&key(flow, operation, id, seq));
        }
    }
}

/// `<uid>/steady/<operation>/<id>@<seq>`: the same drift can be repaired each time that it occurs.
fn key(flow: &Flow<'_>, operation: &str, id: &str, seq: u64) -> String {
    format!("{}/steady/{operation}/{id}@{seq}", flow.primary.uid)
}

fn config_files(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let current = flow.current.clone();
    let wanted = current.files();
    let seen = files::look(flow, &wanted)?;
    let differing: Vec<_> = wanted.values().filter(|file| !files::is_as_wanted(file, &seen)).collect();
    if differing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = differing.iter().map(|file| file.path.as_str()).collect();
    if flow.config.drift == Drift::Report {
        flow.remarks.push(format!("changed by others: {}", names.join(", ")));
        return Ok(());
    }
    let seq = |path: &str| seen.files.get(path).map_or(0, |there| there.seq);
    let operations: Vec<_> = differing
        .iter()
        .map(|file| {
            // What somebody writes while we look is looked at again.
            let there = seen.files.get(&file.path).filter(|there| there.exists);
            let expect = there.map_or(Expect::Absent, |there| Expect::Sha256(there.sha256.clone()));
            Short {
                operation: "write-file",
                key: key(flow, "write-file", &file.path, seq(&file.path)),
                arguments: json!(files::write_file(Spec::Current, file, Some(expect), false)),
            }
        })
        .collect();
    for (file, outcome) in differing.iter().zip(flow.act(&operations)?) {
        if let Err(error) = outcome {
            flow.remarks.push(format!("{} cannot be put right: {}", file.path, error.message));
            flow.look_again(Duration::from_secs(60));
        }
    }
    let latest = names.iter().map(|path| seq(path)).max().unwrap_or_default();
    let changes = names.iter().map(|path| ((*path).to_owned(), FileOp::Updated)).collect();
    let context = Context { changes, rebooted: false };
    for (element, run) in hooks::planned_for_repair(flow, &context)? {
        let key = key(flow, "after-updating", &element, latest);
        if let Known::Unknown { unknown } = flow.keyed("run-hook", &key, &json!(run))? {
            flow.warn(events::HOOK_FAILED, format!("after-updating {element}: {}", unknown.message));
        }
    }
    Ok(())
}

fn applications(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let current = flow.current.clone();
    for (id, application) in current.applications() {
        let Some(seen) = flow.applications.get(&id).cloned() else {
            let name = application.name().to_owned();
            let install =
                InstallApp { spec: Spec::Current, name, id: id.clone(), digest: application.digest() };
            let key = key(flow, "install-app", &id, 0);
            attend(flow, "install-app", &key, &id, &json!(install))?;
            continue;
        };
        let named = json!(AppId { id: id.clone() });
        if !application.shall_run() {
            if crate::applying::is_up(&seen) {
                attend(flow, "stop-app", &key(flow, "stop-app", &id, seen.seq), &id, &named)?;
            }
            continue;
        }
        match seen.observed {
            // A unit in `activating` is its manager's to restart.
            AppState::Running
            | AppState::Starting
            | AppState::Completed
            | AppState::Unknown
            | AppState::Stopping => {}
            AppState::Preparing | AppState::Error | AppState::Stopped => {
                if waits(flow, &seen)? {
                    continue;
                }
                attend(flow, "start-app", &key(flow, "start-app", &id, seen.seq), &id, &named)?;
            }
        }
    }
    Ok(())
}

/// Whether it died too recently, and too often.
fn waits(flow: &mut Flow<'_>, seen: &AppSeen) -> Result<bool, Halt> {
    let pause = pause(seen.deaths);
    let Some(ended_at) = seen.ended_at.as_ref().filter(|_| !pause.is_zero()) else { return Ok(false) };
    // A clock that went back does not make it wait longer than a pause.
    let gone_by = flow.elapsed(ended_at)?;
    if gone_by >= pause {
        return Ok(false);
    }
    flow.look_again(pause - gone_by);
    Ok(true)
}

/// How long to wait after so many deaths in a row: not at all after the first.
pub fn pause(deaths: u32) -> Duration {
    match deaths {
        0 | 1 => Duration::ZERO,
        more => {
            let doublings = more.saturating_sub(2).min(16);
            Duration::from_secs((START_AGAIN << doublings).min(START_AGAIN_MAX))
        }
    }
}

/// Has something done once; what fails is told with the application, and looked at when that changes.
fn attend(
    flow: &mut Flow<'_>,
    operation: &str,
    key: &str,
    id: &str,
    arguments: &serde_json::Value,
) -> Result<(), Halt> {
    match flow.keyed(operation, key, arguments)? {
        Known::Answer(OperationState::Lost) => {
            // Cut short by a crash: the same again, under a key of its own.
            flow.keyed(operation, &format!("{key}+{}", flow.boot.boot_id), arguments)?;
        }
        Known::Answer(_) => {}
        Known::Unknown { unknown } => {
            flow.remarks.push(format!("{operation} of {id} failed: {}", unknown.message));
        }
    }
    Ok(())
}

/// Another OS than the spec's is told of, or becomes an update to the same version.
fn os(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let (Known::Answer(os), Some(wanted)) = (&flow.os, flow.current.spec.os.image.clone()) else {
        return Ok(Next::Wait);
    };
    if os.booted.image.is_empty() || image::is_of(&os.booted, &wanted) {
        return Ok(Next::Wait);
    }
    let message = format!("booted {}, but version {} names {wanted}", os.booted.image, flow.current.version);
    if flow.config.os_drift == Drift::Repair
        && !flow.state.has_failed(&flow.current.version, &flow.current.hash)
    {
        flow.warn(events::OS_DRIFT, message);
        return crate::adopt::begin_again(flow);
    }
    flow.warn(events::OS_DRIFT, message.clone());
    flow.remarks.push(message);
    Ok(Next::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_dying_is_started_again_at_once_then_ever_later_up_to_ten_minutes() {
        let waits: Vec<u64> =
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, u32::MAX].map(|deaths| pause(deaths).as_secs()).into();
        assert_eq!(waits, [0, 0, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    }
}
