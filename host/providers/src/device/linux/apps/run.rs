//! What runs of applications: started, stopped, looked at.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use evenkeel_core::contract::Failure;
use serde::Deserialize;
use serde_json::Value;

use super::super::process::{self, Ran};
use super::super::trouble::{invalid, not_found, transient};
use super::{Apps, Installed, TIMEOUT, UnitSeen, UnitsSeen, run, text, units};
use crate::device::application::COMPOSE_FILES;
use crate::device::words::AppState;

/// A look at what runs.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a package.
const PACKAGE_BYTES_MAX: u64 = 32 << 20;
/// Files of a package.
const PACKAGE_FILES_MAX: usize = 1024;
/// What compose and podman-compose mark the containers of a project with.
const PROJECT_LABELS: [&str; 2] = ["com.docker.compose.project", "io.podman.compose.project"];

/// How an application is.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) state: AppState,
    pub(super) ready: u32,
    pub(super) total: u32,
    pub(super) restarts: u32,
    pub(super) error: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        Self { state: AppState::Unknown, ready: 0, total: 0, restarts: 0, error: None }
    }
}

/// What runs compose files: `podman compose` where podman has it, else podman-compose by itself.
pub(super) fn compose(root: &Path, podman: Option<&Path>) -> Option<Vec<String>> {
    let podman = podman?;
    if let Some(compose) = process::find(root, "podman-compose") {
        return Some(vec![compose.display().to_string()]);
    }
    let provider = process::find(root, "docker-compose").is_some();
    provider.then(|| vec![podman.display().to_string(), "compose".to_owned()])
}

/// A container as `podman ps` tells of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    #[serde(default)]
    id: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    exit_code: i32,
    #[serde(default)]
    restarts: u32,
}

impl Apps {
    /// Starts an application that is installed.
    pub(in super::super) async fn start(&self, id: &str) -> Result<(), Failure> {
        let known = self.known(id)?;
        let started = match &*known.app_type {
            "compose" => {
                let outcome = self.compose(id, &known, &["up", "-d"]).await;
                outcome.and_then(|ran| done("start", id, &ran))
            }
            _ => self.systemctl_all(id, &known, "start").await,
        };
        let failed = started.is_err();
        let app = Installed {
            started: true,
            stopped: false,
            seq: known.seq + u64::from(failed),
            deaths: known.deaths + u32::from(failed),
            ..known
        };
        self.remember(id, Some(app))?;
        started
    }

    /// Stops an application; its data volumes stay.
    pub(in super::super) async fn stop(&self, id: &str) -> Result<(), Failure> {
        let known = self.known(id)?;
        let app = Installed { started: false, stopped: true, ..known.clone() };
        match &*known.app_type {
            "compose" => done("stop", id, &self.compose(id, &known, &["down"]).await?)?,
            _ => self.systemctl_all(id, &known, "stop").await?,
        }
        self.remember(id, Some(app))
    }

    /// Stops and starts it.
    pub(in super::super) async fn restart(&self, id: &str) -> Result<(), Failure> {
        self.stop(id).await?;
        self.start(id).await
    }

    async fn compose(&self, id: &str, app: &Installed, words: &[&str]) -> Result<Ran, Failure> {
        let compose = self
            .compose
            .as_ref()
            .ok_or_else(|| not_found("this device has neither podman-compose nor docker-compose"))?;
        let base = self.folder_of(&app.app_type, id);
        let names =
            self.root.names(&base).map_err(|error| transient(format!("cannot list {base}: {error}")))?;
        let file = COMPOSE_FILES.iter().find(|name| names.iter().any(|found| found == *name));
        let file = file.ok_or_else(|| invalid(format!("{id} has no compose file")))?;
        let file = self.root.outside(&format!("{base}/{file}")).display().to_string();
        let (program, first) = compose.split_first().ok_or_else(|| invalid("no compose"))?;
        let mut all: Vec<&str> = first.iter().map(String::as_str).collect();
        all.extend(["-p", id, "-f", &file]);
        all.extend(words);
        run(Path::new(program), app.user.as_deref(), &all, TIMEOUT, &BTreeMap::new()).await
    }

    async fn systemctl(&self, user: Option<&str>, words: &[&str], timeout: Duration) -> Result<Ran, Failure> {
        let systemctl = self.systemctl.as_ref().ok_or_else(|| not_found("this device has no systemd"))?;
        let machine = user.filter(|user| *user != "root").map(|user| format!("{user}@"));
        let mut all: Vec<&str> = Vec::new();
        if let Some(machine) = &machine {
            all.extend(["--user", "-M", machine]);
        }
        all.extend(words);
        run(systemctl, None, &all, timeout, &BTreeMap::new()).await
    }

    async fn systemctl_all(&self, id: &str, app: &Installed, verb: &str) -> Result<(), Failure> {
        let services = self.services(id, app)?;
        let mut words = vec![verb];
        words.extend(services.iter().map(String::as_str));
        done(verb, id, &self.systemctl(app.user.as_deref(), &words, TIMEOUT).await?)
    }

    fn services(&self, id: &str, app: &Installed) -> Result<Vec<String>, Failure> {
        let base = self.folder_of(&app.app_type, id);
        let files = self.below(&base).map_err(|error| transient(format!("cannot list {base}: {error}")))?;
        let services = units::services(&files);
        if services.is_empty() {
            Err(invalid(format!("{id} has no unit that can be started")))
        } else {
            Ok(services)
        }
    }

    /// Has systemd read its units anew; where there is no systemd nothing is to be read.
    pub(in super::super) async fn daemon_reload(&self, user: Option<&str>) -> Result<(), Failure> {
        if self.systemctl.is_none() {
            return Ok(());
        }
        done("reload", "systemd", &self.systemctl(user, &["daemon-reload"], LOOK_TIMEOUT).await?)
    }

    /// How an application is; what cannot be told is Unknown.
    pub(super) async fn status(&self, id: &str, app: &Installed) -> Status {
        let status = match &*app.app_type {
            "compose" => self.containers(id, app).await.map(|containers| of_containers(&containers, app)),
            _ => self.of_units(id, app).await,
        };
        status.unwrap_or_else(|failure| Status {
            error: Some(failure.message.to_string()),
            ..Status::default()
        })
    }

    async fn containers(&self, id: &str, app: &Installed) -> Result<Vec<Container>, Failure> {
        let mut found: BTreeMap<String, Container> = BTreeMap::new();
        for label in PROJECT_LABELS {
            let filter = format!("label={label}={id}");
            let words = ["ps", "--all", "--format", "json", "--filter", &filter];
            let ran = self.podman.run(app.user.as_deref(), &words, LOOK_TIMEOUT).await?;
            if !ran.succeeded() {
                return Err(transient(format!("podman does not list containers: {}", ran.complaint())));
            }
            let text = ran.text();
            let text = if text.trim().is_empty() { "[]" } else { text.trim() };
            let containers: Vec<Container> =
                serde_json::from_str(text).map_err(|_| transient("podman lists containers in no JSON"))?;
            found.extend(containers.into_iter().map(|one| (one.id.clone(), one)));
        }
        Ok(found.into_values().collect())
    }

    async fn of_units(&self, id: &str, app: &Installed) -> Result<Status, Failure> {
        let services = self.services(id, app)?;
        let mut states = Vec::new();
        for service in &services {
            let words = ["show", service, "--property=ActiveState,Result,NRestarts"];
            let ran = self.systemctl(app.user.as_deref(), &words, LOOK_TIMEOUT).await?;
            let text = ran.text();
            let of = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
                line.unwrap_or_default().to_owned()
            };
            states.push((
                of("ActiveState"),
                of("Result"),
                of("NRestarts").parse::<u32>().unwrap_or_default(),
            ));
        }
        let count = |state: &str| states.iter().filter(|(active, ..)| active == state).count();
        let total = states.len();
        let state = if count("failed") > 0 {
            AppState::Error
        } else if count("active") == total {
            AppState::Running
        } else if count("activating") > 0 {
            AppState::Starting
        } else if count("deactivating") > 0 {
            AppState::Stopping
        } else if app.stopped {
            AppState::Stopped
        } else if states.iter().all(|(_, result, _)| result == "success") {
            AppState::Completed
        } else {
            AppState::Error
        };
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let restarts = states.iter().map(|(.., restarts)| restarts).sum();
        Ok(Status { state, ready: number(count("active")), total: number(total), restarts, error: None })
    }

    /// The units that match, as the status shows them.
    pub(in super::super) async fn units(&self, patterns: &[String]) -> Result<UnitsSeen, Failure> {
        if self.systemctl.is_none() || patterns.is_empty() {
            return Ok(UnitsSeen::default());
        }
        let mut words = vec!["list-units", "--all", "--output", "json", "--"];
        words.extend(patterns.iter().map(String::as_str));
        let ran = self.systemctl(None, &words, LOOK_TIMEOUT).await?;
        let listed: Vec<Value> =
            serde_json::from_slice(&ran.out).map_err(|_| transient("systemctl lists units in no JSON"))?;
        let mut units = Vec::new();
        for unit in &listed {
            let name = text(unit, "unit");
            let enabled = self.systemctl(None, &["is-enabled", "--", name], LOOK_TIMEOUT).await?;
            units.push(UnitSeen {
                unit: name.to_owned(),
                description: text(unit, "description").to_owned(),
                enable_state: enabled.text().trim().to_owned(),
                load_state: text(unit, "load").to_owned(),
                active_state: text(unit, "active").to_owned(),
                sub_state: text(unit, "sub").to_owned(),
            });
        }
        units.sort_by(|one, other| one.unit.cmp(&other.unit));
        Ok(UnitsSeen { units })
    }

    /// The files of an application's package; none while its image is not there, or where it has none.
    pub(super) async fn package(&self, app: &Value) -> Result<Option<Vec<(String, Vec<u8>)>>, Failure> {
        let image = text(app, "image");
        if image.is_empty()
            || !matches!(text(app, "appType"), "compose" | "quadlet")
            || !self.podman.is_there()
        {
            return Ok(None);
        }
        let user = app.get("runAs").and_then(Value::as_str);
        let there = self.podman.run(user, &["image", "exists", image], LOOK_TIMEOUT).await?;
        if !there.succeeded() {
            return Ok(None);
        }
        let made = self.podman.run(user, &["create", "--pull=never", image, "-"], LOOK_TIMEOUT).await?;
        done("open", image, &made)?;
        let container = made.text().trim().to_owned();
        let folder = tempfile::Builder::new().prefix("evenkeel-package-").tempdir();
        let read = match &folder {
            Ok(folder) => {
                let (from, to) = (format!("{container}:/"), folder.path().display().to_string());
                let copied = self.podman.run(user, &["cp", &from, &to], TIMEOUT).await;
                copied.and_then(|ran| done("read", image, &ran)).and_then(|()| {
                    let trouble = |why: String| invalid(format!("{image}: {why}"));
                    package_files(folder.path()).map_err(trouble)
                })
            }
            Err(error) => Err(transient(format!("cannot make a folder for {image}: {error}"))),
        };
        self.podman.run(user, &["rm", "--force", &container], LOOK_TIMEOUT).await?;
        read.map(Some)
    }
}

/// The regular files below a folder; links and devices of a package are nothing that an application is made of.
fn package_files(base: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let (mut found, mut open, mut bytes) = (Vec::new(), vec![base.to_owned()], 0_u64);
    let trouble = |error: std::io::Error| error.to_string();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).map_err(trouble)? {
            let path = entry.map_err(trouble)?.path();
            let metadata = std::fs::symlink_metadata(&path).map_err(trouble)?;
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_file() {
                bytes = bytes.saturating_add(metadata.len());
                if bytes > PACKAGE_BYTES_MAX || found.len() >= PACKAGE_FILES_MAX {
                    return Err("its package is too large".to_owned());
                }
                let name = path.strip_prefix(base).unwrap_or(&path).display().to_string();
                found.push((name, std::fs::read(&path).map_err(trouble)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn of_containers(containers: &[Container], app: &Installed) -> Status {
    let of = |state: &str| containers.iter().filter(|one| one.state.eq_ignore_ascii_case(state)).count();
    let (running, total) = (of("running"), containers.len());
    let bad = containers.iter().any(|one| one.state.eq_ignore_ascii_case("exited") && one.exit_code != 0);
    let state = if total > 0 && running == total {
        AppState::Running
    } else if app.stopped {
        if running == 0 { AppState::Stopped } else { AppState::Stopping }
    } else if total == 0 || bad {
        AppState::Error
    } else if of("created") + of("initialized") + of("configured") > 0 {
        AppState::Starting
    } else if of("exited") == total {
        AppState::Completed
    } else {
        AppState::Running
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let restarts = containers.iter().map(|one| one.restarts).sum();
    let error = (total == 0 && app.started).then(|| "it has no containers".to_owned());
    Status { state, ready: number(running), total: number(total), restarts, error }
}

fn done(what: &str, element: &str, ran: &Ran) -> Result<(), Failure> {
    if ran.timed_out {
        return Err(transient(format!("cannot {what} {element}: it took too long")));
    }
    if ran.succeeded() {
        return Ok(());
    }
    Err(transient(format!("cannot {what} {element}: exit {}: {}", ran.code, ran.complaint())))
}
