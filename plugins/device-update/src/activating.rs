//! D11: hooks run and applications start, on the OS that the spec wants.

use serde_json::json;

use crate::boot;
use crate::device::Application;
use crate::files;
use crate::flow::{Flow, Halt, Next, Progress, Short};
use crate::form;
use crate::hooks::{self, Context, OnFailure, Ran};
use crate::state::Phase;
use crate::words::{
    AppId, AppState, ApplicationContent, AskApplication, Code, DaemonReload, Error, Hook, Spec,
};

/// The step of an attempt after which systemd knows its units.
const RELOADED: &str = "daemon-reload";

/// T1 to T3.
pub fn activate(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    let target = flow.desired.clone();
    if update.rebooted && boot::changes_os(flow, &update) {
        checked_again(flow)?;
    }
    let changes = files::changes(&flow.current, &target);
    // T1
    let is_reloaded = update.steps.iter().any(|step| step == RELOADED);
    if !is_reloaded && (files::change_units(&changes) || changes_unit_applications(flow)) {
        daemon_reload(flow, RELOADED)?;
        flow.change(RELOADED, |update| update.steps.push(RELOADED.to_owned()))?;
    }
    // T2
    let context = Context { changes, rebooted: update.rebooted };
    let prefix = flow.key("after-updating");
    match hooks::run(flow, Hook::AfterUpdating, &prefix, &context, OnFailure::Stop)? {
        Ran::Done => {}
        Ran::Running(what) => {
            flow.note = format!("running {what}");
            return Ok(Next::Wait);
        }
        Ran::Failed((element, error)) => return Err(Halt::Failed(flow.trouble("hooks", &element, &error))),
    }
    // T3
    if applications(flow)? == Next::Wait {
        return Ok(Next::Wait);
    }
    let since = flow.now_text()?;
    flow.change("verifying", |update| {
        update.phase = Phase::Verifying;
        update.verifying_since = Some(since);
    })?;
    Ok(Next::Go)
}

/// What the new OS was to bring along.
fn checked_again(flow: &Flow<'_>) -> Result<(), Halt> {
    let mut contents = form::Contents::new();
    for (id, application) in flow.desired.applications() {
        let ask = AskApplication { spec: Spec::Desired, name: application.name().to_owned() };
        contents.insert(id, flow.look::<ApplicationContent>("application", &ask)?);
    }
    form::tools_and_users(flow, &flow.desired, &contents)
}

fn is_unit(application: &Application) -> bool {
    matches!(application.app_type.as_str(), "quadlet" | "container" | "vm")
}

/// Whether an application that systemd runs came, went or changed.
pub fn changes_unit_applications(flow: &Flow<'_>) -> bool {
    let (old, new) = (flow.current.applications(), flow.desired.applications());
    let differs = |id: &String, application: &&Application| {
        is_unit(application) && new.get(id).is_none_or(|other| other.digest() != application.digest())
    };
    old.iter().any(|(id, application)| differs(id, application))
        || new.iter().any(|(id, application)| is_unit(application) && !old.contains_key(id))
}

/// Has systemd read its units again.
pub fn daemon_reload(flow: &Flow<'_>, name: &str) -> Result<(), Halt> {
    let short =
        Short { operation: "daemon-reload", key: flow.key(name), arguments: json!(DaemonReload::default()) };
    for outcome in flow.act(&[short])? {
        outcome.map_err(|error| Halt::Failed(flow.trouble("systemd", "daemon-reload", &error)))?;
    }
    Ok(())
}

/// T3: all begin at once, in order of their ids, and all are waited for.
fn applications(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let (old, new) = (flow.current.applications(), flow.desired.clone());
    let restarts: std::collections::BTreeMap<String, i64> = old
        .iter()
        .map(|(id, application)| (id.clone(), application.restart_generation.unwrap_or_default()))
        .collect();
    let mut waiting = Vec::new();
    for id in new.applications().keys() {
        ["start-app", "restart-app"].iter().for_each(|name| flow.put_long(&format!("{name}/{id}")));
    }
    for (id, application) in new.applications() {
        let raised = restarts
            .get(&id)
            .is_some_and(|before| application.restart_generation.unwrap_or_default() > *before);
        match one(flow, &id, application, raised)? {
            Progress::Done => {}
            Progress::Running => waiting.push(id),
            Progress::Failed(error) => return Err(Halt::Failed(flow.trouble("applications", &id, &error))),
        }
    }
    if waiting.is_empty() {
        return Ok(Next::Go);
    }
    flow.note = format!("waiting for applications: {}", waiting.join(", "));
    Ok(Next::Wait)
}

fn one(flow: &mut Flow<'_>, id: &str, application: &Application, raised: bool) -> Result<Progress, Halt> {
    let Some(seen) = flow.applications.get(id).cloned() else {
        return Ok(Progress::Failed(Error {
            code: Code::Transient,
            message: "it is not installed".to_owned(),
        }));
    };
    let named = AppId { id: id.to_owned() };
    if !application.shall_run() {
        if crate::applying::is_up(&seen) {
            return flow.long("stop-app", &format!("stop-app/{id}/halt"), &named);
        }
        return Ok(Progress::Done);
    }
    let restarts = raised && is_well(seen.observed) && !was_asked(flow, "start-app", id)?;
    let (operation, name) = if restarts || was_asked(flow, "restart-app", id)? {
        ("restart-app", format!("restart-app/{id}"))
    } else {
        ("start-app", format!("start-app/{id}"))
    };
    if operation == "start-app" && is_well(seen.observed) {
        return Ok(Progress::Done);
    }
    match flow.long(operation, &name, &named)? {
        Progress::Done => {}
        other => return Ok(other),
    }
    if is_well(seen.observed) {
        return Ok(Progress::Done);
    }
    let transient = |message: String| Ok(Progress::Failed(Error { code: Code::Transient, message }));
    if seen.observed == AppState::Error {
        return transient(seen.error.unwrap_or_else(|| "it does not run".to_owned()));
    }
    let began = flow.operation(&flow.key(&name))?.started_at.unwrap_or_default();
    let (gone_by, patience) = (flow.elapsed(&began)?, flow.config.app_start_timeout());
    if gone_by >= patience {
        return transient(format!("it does not run after {} s", patience.as_secs()));
    }
    flow.look_again(patience - gone_by);
    Ok(Progress::Running)
}

/// Whether a start or restart of this application was begun in this attempt.
fn was_asked(flow: &Flow<'_>, operation: &str, id: &str) -> Result<bool, Halt> {
    let seen = flow.operation(&flow.key(&format!("{operation}/{id}")))?;
    Ok(seen.state != crate::words::OperationState::Unknown)
}

fn is_well(observed: AppState) -> bool {
    matches!(observed, AppState::Running | AppState::Completed)
}
