//! D8: applications are put in place and files are written; nothing of it runs yet.

use crate::boot;
use crate::device::Device;
use crate::files;
use crate::flow::{Flow, Halt, Next, Progress};
use crate::preparing;
use crate::state::Phase;
use crate::words::{AppId, AppSeen, AppState, Code, Error, InstallApp, Spec};

/// A1 to A4.
pub fn apply(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let target = flow.desired.clone();
    let steps = app_steps(flow, &target, Spec::Desired);
    steps.iter().for_each(|step| step.put(flow, ""));
    for step in steps {
        match step.take(flow, "")? {
            Progress::Done => {}
            Progress::Running => {
                flow.note = step.note();
                return Ok(Next::Wait);
            }
            Progress::Failed(error) => {
                return Err(Halt::Failed(flow.trouble("applications", &step.id, &error)));
            }
        }
    }
    // A3
    let dropped = files::dropped(flow, &target);
    if let Some((path, error)) = files::restore(flow, &dropped, "")?.into_iter().next() {
        return Err(Halt::Failed(flow.trouble("config", &path, &error)));
    }
    if let Err((path, error)) = files::write(flow, Spec::Desired, "")? {
        // What somebody else wrote meanwhile is looked at again; it is no fault of the spec.
        let code = if error.code == Code::Conflict { Code::Transient } else { error.code };
        return Err(Halt::Failed(flow.trouble("config", &path, &Error { code, ..error })));
    }
    // A4
    if target.spec.resources != flow.current.spec.resources {
        preparing::set_monitors(flow, target.spec.resources.clone())?;
    }
    let update = flow.update()?;
    let staged = boot::changes_os(flow, &update) && !is_booted(flow, &target)?;
    flow.enter(if staged { Phase::Staging } else { Phase::Activating })
}

fn is_booted(flow: &Flow<'_>, target: &Device) -> Result<bool, Halt> {
    let os = flow.os()?;
    Ok(target.spec.os.image.as_ref().is_none_or(|image| crate::image::is_of(&os.booted, image)))
}

/// What is done to an application's files.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Deed {
    Stop,
    Remove,
    Install(InstallApp),
}

/// One step on the way to the applications of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppStep {
    /// The application.
    pub id: String,
    deed: Deed,
}

impl AppStep {
    fn operation(&self) -> &'static str {
        match self.deed {
            Deed::Stop => "stop-app",
            Deed::Remove => "remove-app",
            Deed::Install(_) => "install-app",
        }
    }

    fn name(&self, prefix: &str) -> String {
        format!("{prefix}{}/{}", self.operation(), self.id)
    }

    /// Puts the question how it stands, which is read later.
    pub fn put(&self, flow: &Flow<'_>, prefix: &str) {
        flow.put_long(&self.name(prefix));
    }

    /// Has it done, under a key with this prefix.
    pub fn take(&self, flow: &Flow<'_>, prefix: &str) -> Result<Progress, Halt> {
        let (operation, name) = (self.operation(), self.name(prefix));
        match &self.deed {
            Deed::Stop | Deed::Remove => flow.long(operation, &name, &AppId { id: self.id.clone() }),
            Deed::Install(install) => flow.long(operation, &name, install),
        }
    }

    /// What is under way.
    pub fn note(&self) -> String {
        let verb = match self.deed {
            Deed::Stop => "stopping",
            Deed::Remove => "removing",
            Deed::Install(_) => "installing",
        };
        format!("{verb} application {}", self.id)
    }
}

/// Whether anything of an application is running.
pub fn is_up(seen: &AppSeen) -> bool {
    match seen.observed {
        AppState::Running | AppState::Starting | AppState::Stopping | AppState::Unknown => true,
        AppState::Preparing | AppState::Error | AppState::Completed | AppState::Stopped => false,
    }
}

/// A1 and A2: what is left to do, as the device is now. Removed ones come first, all of them in order of their ids.
pub fn app_steps(flow: &Flow<'_>, device: &Device, spec: Spec) -> Vec<AppStep> {
    let wanted = device.applications();
    let mut steps = Vec::new();
    let mut push = |id: &str, deed| steps.push(AppStep { id: id.to_owned(), deed });
    for (id, seen) in
        flow.applications.iter().filter(|(id, seen)| !seen.embedded && !wanted.contains_key(*id))
    {
        // One that failed to start may have left something running.
        if is_up(seen) || seen.observed == AppState::Error {
            push(id, Deed::Stop);
        }
        push(id, Deed::Remove);
    }
    for (id, application) in &wanted {
        let seen = flow.applications.get(id);
        let digest = application.digest();
        if seen.is_some_and(|seen| seen.installed_digest.as_ref() == Some(&digest)) {
            continue;
        }
        if seen.is_some_and(|seen| is_up(seen) || seen.observed == AppState::Error) {
            push(id, Deed::Stop);
        }
        let name = application.name().to_owned();
        push(id, Deed::Install(InstallApp { spec, name, id: id.clone(), digest }));
    }
    steps
}
