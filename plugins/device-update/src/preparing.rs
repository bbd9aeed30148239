//! D7: everything that can be checked, fetched and waited for before the device is touched.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::adopt::OVERTAKES;
use crate::boot;
use crate::device::Schedule;
use crate::files;
use crate::flow::{Flow, Halt, Next, Short};
use crate::form::{self, Contents};
use crate::hooks::{self, Context, OnFailure, Ran};
use crate::image;
use crate::state::{Phase, Update};
use crate::words::{
    AskImages, Code, Error, Health, Hook, ImageKind, ImageRef, ImageSeen, ImagesSeen, Prefetch, PullPolicy,
    PullState, SetMonitors, Window,
};

/// The step of an attempt whose download window was found open.
const DOWNLOAD_WINDOW: &str = "download-window";
/// The step of an attempt whose update window was found open.
const UPDATE_WINDOW: &str = "update-window";
/// The step of an attempt that has asked for its images.
const PREFETCH: &str = "prefetch";
/// The step of an attempt whose monitors are in force.
const MONITORS: &str = "monitors";

/// P1 to P7.
pub fn prepare(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    // P1
    let contents = form::check(flow)?;
    // P5, as far as it can be told: what can never run is neither waited nor pulled for. A package is looked at once it is there.
    validate(flow, &contents)?;
    // P2
    if monitors(flow, &update)? == Next::Wait {
        return Ok(Next::Wait);
    }
    // P3
    let schedule = flow.desired.spec.update_policy.download_schedule.clone();
    if window(flow, schedule.as_ref(), DOWNLOAD_WINDOW, "download")? == Next::Wait {
        return Ok(Next::Wait);
    }
    // P4
    if images(flow, &update, &contents)? == Next::Wait {
        return Ok(Next::Wait);
    }
    // P6
    let schedule = flow.desired.spec.update_policy.update_schedule.clone();
    if window(flow, schedule.as_ref(), UPDATE_WINDOW, "update")? == Next::Wait {
        if update.phase != Phase::Ready {
            flow.change("ready", |update| update.phase = Phase::Ready)?;
        }
        return Ok(Next::Wait);
    }
    // P7
    before_updating(flow)
}

/// The goal's monitors are in force from here on: they may be what ends an alert.
fn monitors(flow: &mut Flow<'_>, update: &Update) -> Result<Next, Halt> {
    if !update.steps.iter().any(|step| step == MONITORS) {
        let monitors = flow.desired.spec.resources.clone();
        if monitors != flow.current.spec.resources || is_critical(flow) {
            set_monitors(flow, monitors)?;
            flow.change(MONITORS, |update| update.steps.push(MONITORS.to_owned()))?;
            if is_critical(flow) {
                // Whether the alert stands under them, the next answer tells.
                flow.note = "the monitors of this version come into force".to_owned();
                return Ok(Next::Wait);
            }
        }
    }
    let critical = |seen: &crate::words::ResourceSeen| seen.status == Health::Critical;
    let which = match (critical(&flow.resources.cpu), critical(&flow.resources.memory)) {
        (true, _) => "CPU",
        (false, true) => "memory",
        (false, false) => return Ok(Next::Go),
    };
    flow.note = format!("waiting for {which}: its alert is critical");
    Ok(Next::Wait)
}

fn is_critical(flow: &Flow<'_>) -> bool {
    let resources = &flow.resources;
    [&resources.cpu, &resources.memory, &resources.disk].iter().any(|seen| seen.status == Health::Critical)
}

/// Puts monitors in force.
pub fn set_monitors(flow: &Flow<'_>, monitors: Option<serde_json::Value>) -> Result<(), Halt> {
    let short = Short {
        operation: "set-monitors",
        key: flow.key("set-monitors"),
        arguments: json!(SetMonitors { monitors }),
    };
    for outcome in flow.act(&[short])? {
        outcome.map_err(|error| Halt::Failed(flow.trouble("resources", "monitors", &error)))?;
    }
    Ok(())
}

/// P3, P6: open now, or found open earlier in this attempt.
fn window(flow: &mut Flow<'_>, schedule: Option<&Schedule>, step: &str, name: &str) -> Result<Next, Halt> {
    let Some(schedule) = schedule else { return Ok(Next::Go) };
    if flow.update()?.steps.iter().any(|passed| passed == step) {
        return Ok(Next::Go);
    }
    let seen: Window = flow.look("window", &schedule.ask())?;
    if let Some(error) = seen.error {
        return Err(flow.invalid("updatePolicy", &format!("{name}Schedule"), error));
    }
    if seen.open {
        flow.change(step, |update| update.steps.push(step.to_owned()))?;
        return Ok(Next::Go);
    }
    match &seen.next_open_at {
        Some(at) => {
            let wait = flow.until(at)?;
            flow.look_again(wait.max(Duration::from_secs(1)));
            flow.note = format!("waiting for the {name} window, which opens at {at}");
        }
        None => flow.note = format!("waiting for the {name} window, which never opens"),
    }
    Ok(Next::Wait)
}

/// Every image that the goal needs, sorted.
fn wanted(flow: &Flow<'_>, update: &Update, contents: &Contents) -> Result<Vec<ImageRef>, Halt> {
    let mut wanted = BTreeSet::new();
    let reference = |reference: &str, kind, user: &Option<String>, pull_policy| ImageRef {
        reference: reference.to_owned(),
        kind,
        user: user.clone(),
        pull_policy,
    };
    if let Some(os) = &flow.desired.spec.os.image
        && boot::changes_os(flow, update)
        && !boot::is_on_target(flow, update)?
    {
        wanted.insert(reference(os, ImageKind::Os, &None, PullPolicy::IfNotPresent));
    }
    for (id, application) in flow.desired.applications() {
        let user = &application.run_as;
        let kind = if application.app_type == "helm" { ImageKind::Chart } else { ImageKind::Image };
        if let Some(image) = &application.image {
            wanted.insert(reference(image, kind, user, form::pull_policy(application)));
        }
        for volume in &application.volumes {
            let Some(image) = &volume.image else { continue };
            if let Some(artifact) = &image.reference {
                wanted.insert(reference(artifact, ImageKind::Artifact, user, image.pull_policy));
            }
        }
        wanted.extend(contents.get(&id).into_iter().flat_map(|content| content.images.iter().cloned()));
    }
    Ok(wanted.into_iter().collect())
}

/// P4: all that is needed is there.
fn images(flow: &mut Flow<'_>, update: &Update, contents: &Contents) -> Result<Next, Halt> {
    let refs = wanted(flow, update, contents)?;
    if let Some(bad) = refs.iter().find_map(|wanted| Some((wanted, image::fault(&wanted.reference)?))) {
        return Err(flow.invalid("images", &bad.0.reference, bad.1));
    }
    let has = |name: &str| update.steps.iter().any(|step| step == name);
    let (asked_for, overtakes) = (has(PREFETCH), has(OVERTAKES));
    if refs.is_empty() && (asked_for || !overtakes) {
        return Ok(Next::Go);
    }
    let seen = flow.look::<ImagesSeen>("images", &AskImages { refs: refs.clone() })?.images;
    for (wanted, seen) in refs.iter().zip(&seen) {
        if let Some(error) = fatal(flow, wanted, seen) {
            return Err(Halt::Failed(flow.trouble("images", &wanted.reference, &error)));
        }
    }
    let complete = seen.iter().filter(|seen| seen.state == PullState::Present).count();
    let starts = seen.iter().any(|seen| seen.state == PullState::Absent);
    let disk = flow.resources.disk.status == Health::Critical;
    if (starts || !asked_for && (overtakes || complete < refs.len())) && (!disk || refs.is_empty()) {
        let short = Short {
            operation: "prefetch",
            key: flow.key("prefetch"),
            arguments: json!(Prefetch { refs: refs.clone() }),
        };
        for outcome in flow.act(&[short])? {
            outcome.map_err(|error| Halt::Failed(flow.trouble("images", "prefetch", &error)))?;
        }
        if !asked_for {
            flow.change(PREFETCH, |update| update.steps.push(PREFETCH.to_owned()))?;
        }
    }
    if complete == refs.len() {
        return Ok(Next::Go);
    }
    let list = |state: &[PullState]| {
        let named = seen.iter().filter(|seen| state.contains(&seen.state));
        named.map(|seen| seen.reference.as_str()).collect::<Vec<_>>().join(", ")
    };
    let pending = list(&[PullState::Absent, PullState::Queued, PullState::Pulling]);
    let retrying = list(&[PullState::Failed]);
    let mut note = format!("{complete}/{} images complete", refs.len());
    if disk {
        note += "; waiting for disk: its alert is critical";
    }
    for (word, names) in [("pending", pending), ("retrying", retrying)] {
        if !names.is_empty() {
            note += &format!("; {word}: {names}");
        }
    }
    flow.note = note;
    Ok(Next::Wait)
}

/// A pull that is not worth another try.
fn fatal(flow: &Flow<'_>, wanted: &ImageRef, seen: &ImageSeen) -> Option<Error> {
    if seen.state == PullState::Present {
        return None;
    }
    if wanted.pull_policy == PullPolicy::Never {
        let message = "it is not there, and its pull policy is Never".to_owned();
        return Some(Error { code: Code::NotFound, message });
    }
    let error = seen.error.clone().filter(|_| seen.state == PullState::Failed)?;
    let limit = flow.config.retries.prepare;
    if error.code != Code::Transient {
        return Some(error);
    }
    // The provider tries again by itself: only its tries are counted, and waiting is none.
    (limit > 0 && seen.tries > limit).then_some(Error { code: Code::Invalid, message: error.message })
}

/// P5: contents that parse.
fn validate(flow: &Flow<'_>, contents: &Contents) -> Result<(), Halt> {
    let applications = flow.desired.applications();
    for (id, content) in contents {
        if let (Some(error), Some(application)) = (&content.error, applications.get(id)) {
            return Err(flow.invalid("applications", application.name(), error.clone()));
        }
    }
    Ok(())
}

/// P7: the last word of those who have to stop something before it is changed.
fn before_updating(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let changes = files::changes(&flow.current, &flow.desired);
    let context = Context { changes, rebooted: flow.update()?.rebooted };
    let prefix = flow.key("before-updating");
    match hooks::run(flow, Hook::BeforeUpdating, &prefix, &context, OnFailure::Stop)? {
        Ran::Done => flow.enter(Phase::Applying),
        Ran::Running(what) => {
            if flow.update()?.phase != Phase::Ready {
                flow.change("ready", |update| update.phase = Phase::Ready)?;
            }
            flow.note = format!("running {what}");
            Ok(Next::Wait)
        }
        Ran::Failed((element, error)) => Err(Halt::Failed(flow.trouble("hooks", &element, &error))),
    }
}
