//! The whole status, composed in one place, so that no part paints over another.

use evenkeel_sdk::{Action, Condition, ConditionStatus, act, clean_message, rfc3339};
use serde_json::{Value, json};

use crate::config::{FailedSummary, Source};
use crate::flow::{Flow, Halt};
use crate::names;
use crate::primary::Object;
use crate::state::{Ended, Phase, Stage, Update};
use crate::words::{
    AppState, AskSystemd, DecommissionTarget, Health, Known, OperationState, OsMode, ResourceSeen, UnitsSeen,
};

/// Longest message of a condition, in characters.
const MESSAGE_CHARS_MAX: usize = 250;

/// How well a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Summary {
    Online,
    Rebooting,
    Degraded,
    Error,
}

impl Summary {
    fn name(self) -> &'static str {
        match self {
            Self::Online => "Online",
            Self::Rebooting => "Rebooting",
            Self::Degraded => "Degraded",
            Self::Error => "Error",
        }
    }
}

/// The condition that tells of updates, and what it means for the summary.
struct Told {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
    summary: Summary,
}

/// The action that writes the status.
pub fn action(flow: &mut Flow<'_>, blocked: Option<&str>) -> Result<Option<Action>, Halt> {
    let patterns = flow.current.spec.systemd.match_patterns.clone();
    let units = if patterns.is_empty() {
        None
    } else {
        let mut patterns = patterns;
        patterns.sort();
        patterns.dedup();
        Some(flow.look::<UnitsSeen>("systemd", &AskSystemd { patterns })?.units)
    };
    let told = told(flow, blocked);
    let lifecycle = lifecycle(flow)?;
    let mut status = json!({
        "conditions": conditions(flow, &told, &lifecycle)?,
        "systemInfo": system_info(flow),
        "applications": applications(flow),
        "applicationsSummary": {"status": applications_summary(flow).1},
        "resources": {
            "cpu": flow.resources.cpu.status,
            "memory": flow.resources.memory.status,
            "disk": flow.resources.disk.status,
        },
        "integrity": {"status": "Unknown"},
        "config": {"renderedVersion": flow.current.version},
        "updated": updated(flow, blocked),
        "summary": summary(flow, &told),
        "lifecycle": {"status": lifecycle.0},
    });
    if let Some(units) = units {
        status["systemd"] = json!(units);
    }
    if let Known::Answer(os) = &flow.os {
        status["os"] = json!({"image": os.booted.image, "imageDigest": os.booted.digest});
        let mode = match os.mode {
            OsMode::Image => "image",
            OsMode::Package => "package",
        };
        status["capabilities"] = json!({"osMode": mode});
    } else {
        status["os"] = json!({"image": "", "imageDigest": ""});
    }
    Ok(Some(act::apply_status::<Object>(flow.primary.name.as_str(), &status).into()))
}

fn told(flow: &Flow<'_>, blocked: Option<&str>) -> Told {
    let mut told = match &flow.state.update {
        None => ended(flow),
        Some(update) => under_way(flow, update),
    };
    if let Some(blocked) = blocked {
        told.message =
            format!("{blocked}{}{}", if told.message.is_empty() { "" } else { "; " }, told.message);
        told.summary = told.summary.max(Summary::Degraded);
    }
    told.message = cut(&told.message);
    told
}

fn ended(flow: &Flow<'_>) -> Told {
    let last = flow.state.last_outcome.as_ref();
    match last.filter(|last| last.result == Ended::Error) {
        Some(last) => Told {
            status: ConditionStatus::False,
            reason: "Error",
            message: last.message.clone(),
            summary: match flow.config.failed_update_summary {
                FailedSummary::Error => Summary::Error,
                FailedSummary::Degraded => Summary::Degraded,
            },
        },
        None => Told {
            status: ConditionStatus::False,
            reason: "Updated",
            message: String::new(),
            summary: Summary::Online,
        },
    }
}

fn under_way(flow: &Flow<'_>, update: &Update) -> Told {
    let error = update.error.as_ref().map(ToString::to_string).unwrap_or_default();
    let told = |reason, message, summary| Told { status: ConditionStatus::True, reason, message, summary };
    if update.phase == Phase::RollingBack {
        let back = update.rollback.clone().unwrap_or_default();
        let trouble = back.error.map(|error| format!("; the way back: {error}")).unwrap_or_default();
        let summary = if back.stage == Stage::Stuck { Summary::Error } else { Summary::Degraded };
        return told("RollingBack", format!("{error}{trouble}"), summary);
    }
    if let Some(next_try) = &update.next_try {
        let reason = if flow.config.strict_reasons { "ApplyingUpdate" } else { "Retrying" };
        return told(reason, format!("{error}; next try at {next_try}"), Summary::Degraded);
    }
    let note = flow.note.clone();
    match update.phase {
        Phase::Preparing => told("Preparing", note, Summary::Online),
        Phase::Ready => told("ReadyToUpdate", note, Summary::Online),
        Phase::Applying | Phase::Staging | Phase::Activating | Phase::Verifying => {
            told("ApplyingUpdate", note, Summary::Online)
        }
        Phase::Rebooting => told("Rebooting", note, Summary::Rebooting),
        Phase::RollingBack => told("RollingBack", error, Summary::Degraded),
    }
}

/// At most so many characters, on one line.
fn cut(message: &str) -> String {
    let clean = clean_message(message);
    if clean.chars().count() <= MESSAGE_CHARS_MAX {
        return clean;
    }
    let mut short: String = clean.chars().take(MESSAGE_CHARS_MAX - 1).collect();
    short.push('…');
    short
}

fn conditions(
    flow: &Flow<'_>,
    told: &Told,
    lifecycle: &(&str, Option<DecommissionTarget>),
) -> Result<Vec<Condition>, Halt> {
    let mut conditions =
        vec![condition(flow, names::UPDATING, told.status, told.reason, told.message.clone())?];
    if let (status, Some(target)) = lifecycle {
        let reason = if *status == "Decommissioned" { "Completed" } else { "Started" };
        let message = match target {
            DecommissionTarget::Unenroll => "the device leaves its service",
            DecommissionTarget::FactoryReset => "the device is reset",
        };
        conditions.push(condition(
            flow,
            names::DECOMMISSIONING,
            ConditionStatus::True,
            reason,
            message.to_owned(),
        )?);
    }
    let place =
        |condition: &Condition| flow.primary.conditions.iter().position(|old| old.type_ == condition.type_);
    conditions.sort_by_key(|condition| place(condition).unwrap_or(usize::MAX));
    Ok(conditions)
}

/// `lastTransitionTime` stays unless the status changes; only then the time is asked for.
fn condition(
    flow: &Flow<'_>,
    type_: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
) -> Result<Condition, Halt> {
    let old = flow.primary.conditions.iter().find(|old| old.type_ == type_ && old.status == status);
    let since = match old.and_then(|old| old.last_transition_time.clone()) {
        Some(since) => since,
        None => rfc3339(flow.now()?),
    };
    Ok(Condition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        observed_generation: None,
        last_transition_time: Some(since),
    })
}

fn summary(flow: &Flow<'_>, told: &Told) -> Value {
    let mut causes = Vec::new();
    let mut worst = told.summary;
    if told.summary != Summary::Online {
        causes.push(match told.message.as_str() {
            "" => told.reason.to_owned(),
            message => message.to_owned(),
        });
    }
    let resources = &flow.resources;
    for (name, seen) in [("CPU", &resources.cpu), ("memory", &resources.memory), ("disk", &resources.disk)] {
        let Some(bad) = health(seen) else { continue };
        worst = worst.max(bad);
        let said = seen.description.as_ref().map(|said| format!(": {said}")).unwrap_or_default();
        causes.push(format!("{name} is {:?}{said}", seen.status));
    }
    let (bad, _, which) = applications_summary(flow);
    if bad != Summary::Online {
        worst = worst.max(bad);
        causes.push(format!("applications: {}", which.join(", ")));
    }
    if causes.is_empty() {
        return json!({"status": worst.name()});
    }
    json!({"status": worst.name(), "info": clean_message(&causes.join("; "))})
}

fn health(seen: &ResourceSeen) -> Option<Summary> {
    match seen.status {
        Health::Healthy | Health::Unknown => None,
        Health::Warning => Some(Summary::Degraded),
        Health::Critical | Health::Error => Some(Summary::Error),
    }
}

/// How well applications are, in the words of the summary and of their own, and which are not.
fn applications_summary(flow: &Flow<'_>) -> (Summary, &'static str, Vec<String>) {
    let wanted = flow.current.applications();
    if wanted.is_empty() && flow.applications.is_empty() {
        return (Summary::Online, "NoApplications", Vec::new());
    }
    let (mut worst, mut which) = (Summary::Online, Vec::new());
    let mut note = |id: &str, state: &str, bad: Summary| {
        worst = worst.max(bad);
        which.push(format!("{id} is {state}"));
    };
    for (id, seen) in &flow.applications {
        let shall_run = wanted.get(id).is_none_or(|application| application.shall_run());
        match seen.observed {
            AppState::Running | AppState::Completed => {}
            AppState::Stopped | AppState::Stopping if !shall_run => {}
            AppState::Preparing if !wanted.contains_key(id) => {}
            AppState::Error => note(id, "Error", Summary::Error),
            other => note(id, &format!("{other:?}"), Summary::Degraded),
        }
    }
    for id in wanted.keys().filter(|id| !flow.applications.contains_key(*id)) {
        note(id, "missing", Summary::Degraded);
    }
    let name = match worst {
        Summary::Online | Summary::Rebooting => "Healthy",
        Summary::Degraded => "Degraded",
        Summary::Error => "Error",
    };
    (worst, name, which)
}

fn applications(flow: &Flow<'_>) -> Vec<Value> {
    let one = |seen: &crate::words::AppSeen| {
        let mut told = json!({
            "name": seen.name,
            "ready": format!("{}/{}", seen.ready, seen.total),
            "restarts": seen.restarts,
            "status": seen.observed,
            "embedded": seen.embedded,
            "appType": seen.app_type,
        });
        if let Some(user) = &seen.user {
            told["runAs"] = json!(user);
        }
        told
    };
    flow.applications.values().map(one).collect()
}

fn system_info(flow: &Flow<'_>) -> Value {
    let identity = &flow.identity;
    let mut info = json!({
        "architecture": identity.architecture,
        "bootID": flow.boot.boot_id,
        "operatingSystem": identity.operating_system,
        "agentVersion": identity.agent_version,
    });
    if !identity.custom_info.is_empty() {
        info["customInfo"] = json!(identity.custom_info);
    }
    info
}

fn updated(flow: &Flow<'_>, blocked: Option<&str>) -> Value {
    let status = match flow.config.source {
        // The service computes it.
        Source::Management => "Unknown",
        Source::Object => match (&flow.state.update, &flow.offered) {
            (Some(_), _) => "Updating",
            (None, Some(offered)) if offered.device.version == flow.current.version => "UpToDate",
            (None, _) => "OutOfDate",
        },
    };
    let mut remarks = flow.remarks.clone();
    remarks.extend(blocked.map(str::to_owned));
    let unknown = flow.desired.unknown_fields();
    if !unknown.is_empty() {
        remarks.push(format!("parts of the spec that this version does not know: {}", unknown.join(", ")));
    }
    if remarks.is_empty() {
        json!({"status": status})
    } else {
        json!({"status": status, "info": cut(&remarks.join("; "))})
    }
}

/// Where the device is in its life, and what becomes of it.
fn lifecycle(flow: &Flow<'_>) -> Result<(&'static str, Option<DecommissionTarget>), Halt> {
    let target = flow.current.spec.decommissioning.map(|decommissioning| decommissioning.target);
    if target.is_some() {
        let key = format!("{}/decommission", flow.primary.uid);
        let done = flow.operation(&key)?.state == OperationState::Succeeded;
        return Ok((if done { "Decommissioned" } else { "Decommissioning" }, target));
    }
    Ok((if flow.identity.enrolled { "Enrolled" } else { "Unknown" }, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_to_250_characters() {
        assert_eq!(cut(&"ä".repeat(250)).chars().count(), 250);
        let cut = cut(&"ä".repeat(251));
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (250, true));
    }

    #[test]
    fn the_worst_counts() {
        assert!(Summary::Error > Summary::Degraded && Summary::Degraded > Summary::Rebooting);
        assert!(Summary::Rebooting > Summary::Online);
    }
}
