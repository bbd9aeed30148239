//! D12: the new OS and the applications prove themselves; then the update counts.

use serde_json::json;

use crate::boot;
use crate::flow::{Flow, Halt, Next};
use crate::names::events;
use crate::state::{Ended, LastOutcome};
use crate::words::{
    AppState, ApplicationContent, AskApplication, CheckState, Code, Error, Prune, Rollback, Source, Spec,
    WriteSpec,
};

/// V1, V2, and the commit.
pub fn verify(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    let since = update.verifying_since.clone().unwrap_or_default();
    // V1
    if boot::changes_os(flow, &update) && update.rebooted {
        let os = flow.os()?;
        if os.check.enabled {
            let target = flow.desired.spec.os.image.clone().unwrap_or_default();
            let failed = |flow: &Flow<'_>, message: &str| {
                let error = Error { code: Code::Invalid, message: message.to_owned() };
                Err(Halt::Failed(flow.trouble("os", &target, &error)))
            };
            match os.check.state {
                CheckState::Passed => {}
                CheckState::Failed => return failed(flow, "boot check failed"),
                CheckState::Pending | CheckState::None => {
                    let (gone_by, patience) = (flow.elapsed(&since)?, flow.config.boot_check_timeout());
                    if gone_by >= patience {
                        return failed(flow, "boot check timed out");
                    }
                    flow.look_again(patience - gone_by);
                    flow.note = "waiting for the check of this boot".to_owned();
                    return Ok(Next::Wait);
                }
            }
        }
    }
    // V2
    for (id, application) in flow.desired.clone().applications() {
        let observed = flow.applications.get(&id).map(|seen| seen.observed);
        let is_well = matches!(observed, Some(AppState::Running | AppState::Completed));
        if application.shall_run() && !is_well {
            // It is started again as in the phase before; a start that was asked for is not asked for twice in an attempt.
            let message = "it runs no more".to_owned();
            return Err(Halt::Failed(flow.trouble(
                "applications",
                &id,
                &Error { code: Code::Transient, message },
            )));
        }
    }
    let (gone_by, settle) = (flow.elapsed(&since)?, flow.config.settle());
    if gone_by < settle {
        flow.look_again(settle - gone_by);
        flow.note = "watching the applications".to_owned();
        return Ok(Next::Wait);
    }
    commit(flow)
}

fn commit(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let update = flow.update()?;
    let key = flow.key("prune");
    let keep = keep(flow)?;
    flow.state.last_outcome = Some(LastOutcome {
        version: update.target.version.clone(),
        result: Ended::Updated,
        message: String::new(),
        at: flow.now_text()?,
    });
    flow.state.update = None;
    flow.state.retried = None;
    let rollback = Some(Rollback::Clear);
    flow.write("commit", WriteSpec { rollback, current: Some(Source::Desired), ..WriteSpec::default() })?;
    flow.current = flow.desired.clone();
    flow.way_back = None;
    flow.tell(events::UPDATE_SUCCEEDED, format!("version {} is in effect", update.target.version));
    let prune = flow.external("prune", &key, &json!(keep));
    flow.events.push(prune);
    Ok(Next::Go)
}

/// What is needed from here on.
fn keep(flow: &Flow<'_>) -> Result<Prune, Halt> {
    let mut images: Vec<String> = flow.desired.spec.os.image.iter().cloned().collect();
    for application in &flow.desired.spec.applications {
        let ask = AskApplication { spec: Spec::Desired, name: application.name().to_owned() };
        let content: ApplicationContent = flow.look("application", &ask)?;
        images.extend(content.images.into_iter().map(|image| image.reference));
        images.extend(application.image.clone());
        images
            .extend(application.volumes.iter().filter_map(|volume| volume.image.as_ref()?.reference.clone()));
    }
    images.sort();
    images.dedup();
    let kept = |managed: &crate::state::Managed| Some((managed.path.clone(), managed.backup.clone()?));
    Ok(Prune { images, backups: flow.state.managed.iter().filter_map(kept).collect() })
}
