//! Applications: their files, and what runs of them, by podman, compose and systemd.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::contract::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::atomic::{self, Content};
use super::config::Clock;
use super::folder;
use super::lock;
use super::process::{self, Keep, PATH, Program, Ran};
use super::root::{DevicePath, Root};
use super::steps::Steps;
use super::trouble::{invalid, not_found, transient, with_file, with_state};
use crate::device::application;
use crate::device::seal;
use crate::device::words::{
    AppSeen, AppState, ApplicationContent, AppsSeen, InstallApp, UnitSeen, UnitsSeen,
};

mod events;
mod run;
mod units;

const FILE: &str = "applications.json";
/// Where compose applications are.
const COMPOSE: &str = "/etc/compose/manifests";
/// Where quadlets are.
const QUADLETS: &str = "/etc/containers/systemd";
/// A start may pull nothing, but containers may take their time.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes that podman may print.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Running this long makes up for all deaths before.
const LONG_RUN: Duration = Duration::from_secs(3600);

/// podman, as some user.
pub(super) struct Podman(Option<PathBuf>);

impl Podman {
    pub(super) fn new(program: Option<PathBuf>) -> Self {
        Self(program)
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Runs it with these words; a user has a storage of its own.
    pub(super) async fn run(
        &self,
        user: Option<&str>,
        words: &[&str],
        timeout: Duration,
    ) -> Result<Ran, Failure> {
        let program = self.0.as_ref().ok_or_else(|| not_found("this device has no podman"))?;
        run(program, user, words, timeout, &BTreeMap::new()).await
    }
}

/// Runs a program of the machine, as root or as somebody else.
async fn run(
    program: &std::path::Path,
    user: Option<&str>,
    words: &[&str],
    timeout: Duration,
    more: &BTreeMap<String, String>,
) -> Result<Ran, Failure> {
    let name = program.display().to_string();
    let mut argv: Vec<String> = Vec::new();
    if let Some(user) = user.filter(|user| *user != "root") {
        let runuser = process::tool("runuser").ok_or_else(|| not_found("this device has no runuser"))?;
        argv.extend([runuser.display().to_string(), "-l".to_owned(), user.to_owned(), "-c".to_owned()]);
        let quoted = std::iter::once(&*name).chain(words.iter().copied()).map(quote);
        argv.push(quoted.collect::<Vec<_>>().join(" "));
    } else {
        argv.push(name.clone());
        argv.extend(words.iter().map(|word| (*word).to_owned()));
    }
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH.to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
        ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
    ]);
    env.extend(more.clone());
    let program =
        Program { argv, env, folder: PathBuf::from("/"), timeout, keep: Keep::All(OUTPUT_BYTES_MAX) };
    program.run().await.map_err(|error| transient(format!("cannot run {name}: {error}")))
}

/// A word for a shell, as it is.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What is installed, as it is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Installed {
    name: String,
    app_type: String,
    user: Option<String>,
    /// Of the spec that it was installed from; none while its files are not whole.
    digest: Option<String>,
    /// Whether it was started; what is not is Preparing.
    started: bool,
    /// Whether it was stopped on purpose.
    stopped: bool,
    seq: u64,
    deaths: u32,
    running_since: Option<String>,
    ended_at: Option<String>,
}

/// The applications of a device.
pub(super) struct Apps {
    root: Root,
    folder: OwnedFd,
    installed: Mutex<BTreeMap<String, Installed>>,
    podman: Podman,
    compose: Option<Vec<String>>,
    systemctl: Option<PathBuf>,
    clock: Clock,
    steps: Steps,
}

impl Apps {
    /// Opens them. A record that cannot be read is kept aside, and told.
    pub(super) fn open(
        root: Root,
        folder: OwnedFd,
        podman: Option<PathBuf>,
        systemctl: Option<PathBuf>,
        clock: Clock,
        steps: Steps,
    ) -> io::Result<(Self, Option<String>)> {
        let (installed, aside) = match folder::read(&folder, FILE)?.as_deref().map(serde_json::from_slice) {
            None => (BTreeMap::new(), None),
            Some(Ok(installed)) => (installed, None),
            Some(Err(_)) => (BTreeMap::new(), Some(folder::keep_aside(&folder, FILE)?)),
        };
        let compose = run::compose(root.path(), podman.as_deref());
        let installed = Mutex::new(installed);
        let podman = Podman::new(podman);
        Ok((Self { root, folder, installed, podman, compose, systemctl, clock, steps }, aside))
    }

    /// Whether anything is installed.
    pub(super) fn any(&self) -> bool {
        !lock(&self.installed).is_empty()
    }

    /// What an application's content says, with its package as far as that is there.
    pub(super) async fn content(&self, device: &Value, name: &str) -> Result<ApplicationContent, Failure> {
        let app = seal::find_application(device, name)
            .ok_or_else(|| not_found(format!("no application {name:?}")))?;
        let package = self.package(app).await?;
        let have = |program: &str| match program {
            "podman" => {
                self.podman.is_there() && (text(app, "appType") != "compose" || self.compose.is_some())
            }
            "systemctl" => self.systemctl.is_some(),
            other => process::find(self.root.path(), other).is_some(),
        };
        Ok(application::content(app, &package.unwrap_or_default(), have))
    }

    /// Makes an application's files what the spec says; nothing of it is started.
    pub(super) async fn install(&self, device: &Value, wanted: &InstallApp) -> Result<(), Failure> {
        let InstallApp { name, id, digest, .. } = wanted;
        checked(id)?;
        let app = seal::find_application(device, name)
            .ok_or_else(|| not_found(format!("no application {name:?}")))?;
        let package = self.package(app).await?.unwrap_or_default();
        let kind = text(app, "appType").to_owned();
        let mut files = application::files(app, &package).map_err(|why| invalid(format!("{name}: {why}")))?;
        units::complete(&kind, id, app, &mut files)?;
        let known = lock(&self.installed).get(id).cloned().unwrap_or_default();
        let before = Installed { name: name.clone(), app_type: kind, digest: None, ..known };
        let user = app.get("runAs").and_then(Value::as_str).map(str::to_owned);
        // Until its files are whole it is not installed from anything.
        self.remember(id, Some(Installed { user: user.clone(), ..before.clone() }))?;
        self.put_files(&before.app_type, id, &files)?;
        let digest = Some(digest.clone());
        self.remember(id, Some(Installed { user, digest, started: false, stopped: false, ..before }))
    }

    /// Removes an application's files; it has been stopped before.
    pub(super) async fn remove(&self, id: &str) -> Result<(), Failure> {
        checked(id)?;
        let Some(known) = lock(&self.installed).get(id).cloned() else { return Ok(()) };
        self.put_files(&known.app_type, id, &BTreeMap::new())?;
        self.remember(id, None)
    }

    fn folder_of(&self, kind: &str, id: &str) -> String {
        format!("{}/{id}", if kind == "compose" { COMPOSE } else { QUADLETS })
    }

    /// Makes the folder of an application hold exactly these files.
    fn put_files(&self, kind: &str, id: &str, files: &application::Files) -> Result<(), Failure> {
        let base = self.folder_of(kind, id);
        let trouble = |path: &str| {
            let path = path.to_owned();
            move |error: io::Error| with_file("write", &path, &error)
        };
        for path in self.below(&base).map_err(trouble(&base))? {
            if !files.contains_key(&path) {
                let full = format!("{base}/{path}");
                let target = DevicePath::parse(&full).map_err(|error| invalid(error.to_string()))?;
                let (folder, name) = self.root.parent(&target).map_err(trouble(&full))?;
                atomic::remove(folder.as_fd(), name).map_err(trouble(&full))?;
            }
        }
        for (path, bytes) in files {
            let full = format!("{base}/{path}");
            let target = DevicePath::parse(&full).map_err(|error| invalid(error.to_string()))?;
            self.root.make_parents(&target, &mut |_| Ok(())).map_err(trouble(&full))?;
            let (folder, name) = self.root.parent(&target).map_err(trouble(&full))?;
            // Environment values are in them: only root reads those.
            let mode = if name == ".env" { 0o600 } else { 0o644 };
            let content = Content::File { bytes, mode };
            atomic::put(folder.as_fd(), name, &content, None, &self.steps).map_err(trouble(&full))?;
        }
        if files.is_empty() {
            let mut folders = self.folders_below(&base).map_err(trouble(&base))?;
            folders.push(base);
            for folder in folders {
                self.root.remove_if_empty(&folder).map_err(trouble(&folder))?;
            }
        }
        Ok(())
    }

    /// Paths of files below a folder, within it.
    fn below(&self, base: &str) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for folder in std::iter::once(base.to_owned()).chain(self.folders_below(base)?) {
            for name in self.root.names(&folder)? {
                let path = format!("{folder}/{name}");
                if self.root.folder(&path).is_err() {
                    found.push(path.trim_start_matches(base).trim_start_matches('/').to_owned());
                }
            }
        }
        Ok(found)
    }

    /// Folders below a folder, the deepest first.
    fn folders_below(&self, base: &str) -> io::Result<Vec<String>> {
        let (mut found, mut open) = (Vec::new(), vec![base.to_owned()]);
        while let Some(folder) = open.pop() {
            for name in self.root.names(&folder)? {
                let path = format!("{folder}/{name}");
                let is_link = DevicePath::parse(&path).is_ok_and(|path| self.is_link(&path));
                if !is_link && self.root.folder(&path).is_ok() {
                    found.push(path.clone());
                    open.push(path);
                }
            }
        }
        found.sort_by_key(|path| std::cmp::Reverse(path.matches('/').count()));
        Ok(found)
    }

    fn is_link(&self, path: &DevicePath) -> bool {
        let Ok((folder, name)) = self.root.parent(path) else { return false };
        let stat = rustix::fs::statat(&folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
    }

    /// Remembers an application, or that it is gone.
    fn remember(&self, id: &str, app: Option<Installed>) -> Result<(), Failure> {
        let mut installed = lock(&self.installed);
        let mut next = installed.clone();
        match app {
            Some(app) => next.insert(id.to_owned(), app),
            None => next.remove(id),
        };
        if next == *installed {
            return Ok(());
        }
        let trouble = |error: io::Error| with_state("write", FILE, &error);
        let bytes = serde_json::to_vec(&next).map_err(|error| trouble(error.into()))?;
        let content = Content::File { bytes: &bytes, mode: 0o600 };
        atomic::put(self.folder.as_fd(), FILE, &content, None, &self.steps).map_err(trouble)?;
        *installed = next;
        Ok(())
    }

    fn known(&self, id: &str) -> Result<Installed, Failure> {
        checked(id)?;
        let known = lock(&self.installed).get(id).cloned();
        known.ok_or_else(|| not_found(format!("no application {id} is installed")))
    }

    /// How they all are.
    pub(super) async fn see(&self) -> Result<AppsSeen, Failure> {
        let all: Vec<(String, Installed)> =
            lock(&self.installed).iter().map(|(id, app)| (id.clone(), app.clone())).collect();
        let mut applications = Vec::new();
        for (id, app) in all {
            applications.push(self.look(&id, app).await?);
        }
        Ok(AppsSeen { applications })
    }

    /// How one is, and what that means for its deaths.
    async fn look(&self, id: &str, mut app: Installed) -> Result<AppSeen, Failure> {
        let status = if app.digest.is_none() || !(app.started || app.stopped) {
            run::Status { state: AppState::Preparing, ..run::Status::default() }
        } else {
            self.status(id, &app).await
        };
        let now = (self.clock)();
        let before = app.clone();
        let runs = matches!(status.state, AppState::Running);
        match (runs, &app.running_since) {
            (true, None) => app.running_since = Some(now.to_string()),
            (true, Some(since)) => {
                let since = since.parse::<jiff::Timestamp>().ok();
                let long = since.is_some_and(|since| {
                    now.duration_since(since) >= jiff::SignedDuration::try_from(LONG_RUN).unwrap_or_default()
                });
                if long {
                    app.deaths = 0;
                }
            }
            (false, Some(_)) if !matches!(status.state, AppState::Starting | AppState::Unknown) => {
                app.running_since = None;
                app.ended_at = Some(now.to_string());
                app.seq += 1;
                if !app.stopped && status.state == AppState::Error {
                    app.deaths += 1;
                }
            }
            (false, _) => {}
        }
        if app != before && lock(&self.installed).get(id) == Some(&before) {
            self.remember(id, Some(app.clone()))?;
        }
        Ok(AppSeen {
            seq: app.seq,
            id: id.to_owned(),
            name: app.name,
            app_type: app.app_type,
            user: app.user,
            embedded: false,
            installed_digest: app.digest,
            observed: status.state,
            ready: status.ready,
            total: status.total,
            restarts: status.restarts,
            running_since: app.running_since,
            ended_at: app.ended_at,
            deaths: app.deaths,
            error: status.error,
        })
    }
}

/// An id becomes a folder and a word of command lines.
fn checked(id: &str) -> Result<(), Failure> {
    let good = !id.is_empty()
        && id.len() <= 200
        && id.starts_with(|one: char| one.is_ascii_alphanumeric())
        && id.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one));
    if good {
        Ok(())
    } else {
        Err(invalid(format!("{:?} is no id of an application", id.chars().take(60).collect::<String>())))
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
