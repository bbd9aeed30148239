//! The provider on a real Linux machine, below any folder as its root.
//!
//! Files are written so that a power cut leaves the old one or the new one ([`atomic`]); what must happen once is on record
//! before it begins ([`ledger`]); no path leads out of the root ([`root`]). The machine's programs (podman, systemctl, bootc,
//! rpm-ostree, hooks) run in process groups of their own, for a limited time.

mod accounts;
mod answer;
mod apps;
mod asked;
mod atomic;
mod backups;
pub mod config;
mod digest;
mod files;
mod folder;
mod hooks;
mod image_name;
mod images;
mod ledger;
mod monitors;
mod notes;
mod os;
mod perform;
mod process;
mod root;
pub mod service;
mod specs;
pub mod steps;
mod trouble;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::contract::{ExternalQuery, Json, Operation};
use rustix::process::{Pid, Signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use self::apps::Apps;
use self::asked::Asked;
use self::backups::Backups;
use self::config::{CERTIFICATES, Clock, LinuxOptions, STATE_FOLDER};
use self::files::Files;
use self::images::Images;
use self::ledger::Ledger;
use self::monitors::Monitors;
use self::notes::Notes;
use self::os::OsTools;
use self::root::{DevicePath, Root};
use self::service::Service;
use self::specs::Specs;
use self::watch::Watches;
use crate::changes::Changes;
use crate::device::words::{RunHook, Spec};
use crate::provider::{Caller, Provider, ProviderFuture};

pub use self::specs::{HASH, VERSION};

/// Why the provider does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The root is no folder that can be used.
    #[error("cannot use {} as the device's root", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// Its own files cannot be used.
    #[error("cannot use {what} in {STATE_FOLDER}")]
    State {
        /// Which.
        what: &'static str,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The machine does not tell which boot it is in.
    #[error("cannot read the boot id")]
    BootId(#[source] io::Error),
}

/// The provider. Its tasks end with it.
pub struct LinuxDevice {
    inner: Arc<Inner>,
    tasks: Vec<AbortHandle>,
}

/// Hooks that wait for their turn; the other end is taken by who runs them.
type HookQueue =
    (mpsc::UnboundedSender<(String, RunHook)>, Mutex<Option<mpsc::UnboundedReceiver<(String, RunHook)>>>);

fn hook_queue() -> HookQueue {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Mutex::new(Some(receiver)))
}

/// What its tasks share.
struct Inner {
    files: Mutex<Files>,
    specs: Mutex<Specs>,
    ledger: Mutex<Ledger>,
    monitors: Mutex<Monitors>,
    monitors_changed: tokio::sync::Notify,
    asked: Asked,
    watches: Watches,
    hooks: HookQueue,
    service: Arc<Service>,
    os: OsTools,
    images: Images,
    apps: Apps,
    boot_id: String,
    /// For programs: the machine's own name of the root.
    root: Root,
    name: String,
    version: String,
    custom_info: std::collections::BTreeMap<String, String>,
    /// Settings of the host that are left out.
    skipped: Mutex<Vec<String>>,
    /// Whether podman tells of containers at present.
    containers_told: AtomicBool,
    clock: Clock,
}

impl LinuxDevice {
    /// Opens the provider; call it inside a tokio runtime. What a crash left behind is cleared up first.
    ///
    /// # Errors
    /// If the root or the state folder cannot be used. Files in it that are spoilt are no error: they are kept aside.
    pub fn open(options: LinuxOptions, service: Arc<Service>) -> Result<Self, OpenError> {
        let root =
            |path: &Path| Root::open(path).map_err(|cause| OpenError::Root { path: path.to_owned(), cause });
        let own = root(&options.root)?;
        let boot_id = monitors::boot_id(&own).map_err(OpenError::BootId)?;
        let state = state_folder(&own).map_err(|cause| OpenError::State { what: "the folder", cause })?;
        let files = open_files(root(&options.root)?, &state, &options)?;
        let steps = options.steps.clone();
        let ledger = opened("operations.log", Ledger::open(again(&state)?, steps.clone()))?;
        end_lost(&ledger, &boot_id);
        let os = os_tools(&own, &options);
        let podman = process::find(own.path(), "podman");
        let apps_folder = again(&state)?;
        let apps = opened(
            "applications.json",
            Apps::open(
                root(&options.root)?,
                apps_folder,
                podman.clone(),
                os.systemctl.clone(),
                Arc::clone(&options.clock),
                steps.clone(),
            ),
        )?;
        let inner = Arc::new(Inner {
            files: Mutex::new(files),
            specs: Mutex::new(Specs::new(again(&state)?, steps)),
            ledger: Mutex::new(ledger),
            monitors: Mutex::default(),
            monitors_changed: tokio::sync::Notify::new(),
            asked: Asked::default(),
            watches: Watches::new(own.path()),
            hooks: hook_queue(),
            service,
            os,
            images: Images::new(podman, own.path(), Arc::clone(&options.clock)),
            apps,
            boot_id,
            root: own,
            name: options.name,
            version: options.version,
            custom_info: options.custom_info,
            skipped: Mutex::default(),
            containers_told: AtomicBool::new(false),
            clock: options.clock,
        });
        inner.settle_ledger();
        let tasks = watch::start(&inner);
        Ok(Self { inner, tasks })
    }
}

/// A version of a spec, and its fingerprint; both are "" where there is none.
pub type Version = (String, String);

/// The versions that the state files name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Of what is in effect.
    pub current: Version,
    /// Of what is wanted.
    pub desired: Version,
    /// Of what has failed, the oldest first.
    pub failed: Vec<Version>,
}

impl LinuxDevice {
    /// The versions that the state files name, for who gives versions to what a file says.
    pub fn versions(&self) -> Versions {
        let mut specs = lock(&self.inner.specs);
        let mut of = |spec| {
            let device = specs.device(spec);
            device.map(|device| {
                (specs::annotation(&device, VERSION).to_owned(), specs::annotation(&device, HASH).to_owned())
            })
        };
        let (current, desired) =
            (of(Spec::Current).unwrap_or_default(), of(Spec::Desired).unwrap_or_default());
        let state = specs.state();
        let text = |value: &serde_json::Value, name: &str| {
            value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        let failed = state.get("failed").and_then(serde_json::Value::as_array).into_iter().flatten();
        let failed = failed.map(|one| (text(one, "version"), text(one, "specHash"))).collect();
        Versions { current, desired, failed }
    }

    /// Why a version has failed, if it was the last that was tried.
    pub fn failure_of(&self, version: &str) -> Option<String> {
        let state = lock(&self.inner.specs).state();
        let text =
            |name: &str| state.pointer(&format!("/lastOutcome/{name}")).and_then(serde_json::Value::as_str);
        let failed = text("version") == Some(version) && text("result") == Some("Error");
        failed.then(|| text("message").unwrap_or_default().to_owned())
    }

    /// Tells which settings of the host are left out, a sentence each.
    pub fn tell_skipped(&self, skipped: Vec<String>) {
        let mut known = lock(&self.inner.skipped);
        if *known != skipped {
            *known = skipped;
            drop(known);
            self.inner.asked.tell(&["identity"]);
        }
    }

    /// Whether an update is under way.
    pub fn updates(&self) -> bool {
        lock(&self.inner.specs).state().get("update").is_some_and(serde_json::Value::is_object)
    }
}

impl Drop for LinuxDevice {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Provider for LinuxDevice {
    fn answer<'a>(&'a self, _caller: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(Arc::clone(&self.inner).answer(query))
    }

    fn perform<'a>(
        &'a self,
        _caller: &'a Caller,
        operation: &'a Operation,
    ) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(Arc::clone(&self.inner).perform(operation))
    }

    fn changes(&self) -> Option<&Changes> {
        Some(self.inner.asked.changes())
    }

    fn forget(&self, query: &ExternalQuery) {
        self.inner.asked.forget(query);
    }
}

impl Inner {
    fn now(&self) -> String {
        (self.clock)().to_string()
    }

    /// With no update under way, what nobody can ask any more is forgotten.
    fn settle_ledger(&self) {
        let state = lock(&self.specs).state();
        if state.get("update").is_some_and(serde_json::Value::is_null)
            && let Err(error) = lock(&self.ledger).compact(&self.boot_id)
        {
            tracing::warn!(%error, "the record of operations could not be made smaller");
        }
    }
}

/// A panic while a lock was held does not make what it guards wrong: each change is made on the disk first.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn state_folder(root: &Root) -> io::Result<OwnedFd> {
    let inside = DevicePath::parse(&format!("{STATE_FOLDER}/x")).map_err(io::Error::other)?;
    root.make_parents(&inside, &mut |_| Ok(()))?;
    let folder = root.folder(STATE_FOLDER)?;
    // Secrets are in its files; they are private by themselves, but names and times are nobody's business either.
    rustix::fs::fchmod(&folder, rustix::fs::Mode::RWXU)?;
    Ok(folder)
}

fn again(folder: &OwnedFd) -> Result<OwnedFd, OpenError> {
    folder.try_clone().map_err(|cause| OpenError::State { what: "the folder", cause })
}

/// Says so where a file was spoilt.
fn opened<T>(what: &'static str, opened: io::Result<(T, Option<String>)>) -> Result<T, OpenError> {
    let (opened, aside) = opened.map_err(|cause| OpenError::State { what, cause })?;
    if let Some(kept) = aside {
        tracing::error!(file = what, %kept, "a file was spoilt; what could be read of it counts, and a copy is kept");
    }
    Ok(opened)
}

fn open_files(root: Root, state: &OwnedFd, options: &LinuxOptions) -> Result<Files, OpenError> {
    let trouble = |what| move |cause| OpenError::State { what, cause };
    let steps = options.steps.clone();
    let store = folder::private(state, "backups").map_err(trouble("backups"))?;
    let notes = opened("paths.json", Notes::open(again(state)?, steps.clone()))?;
    let mut protected = vec![
        (STATE_FOLDER.to_owned(), "the agent's own state".to_owned()),
        (CERTIFICATES.to_owned(), "among the agent's certificates".to_owned()),
        ("/proc".to_owned(), "the kernel's".to_owned()),
        ("/sys".to_owned(), "the kernel's".to_owned()),
        ("/dev".to_owned(), "the kernel's".to_owned()),
    ];
    let binary = std::env::current_exe().ok();
    let below = binary.as_deref().and_then(|path| path.strip_prefix(root.path()).ok());
    protected
        .extend(below.map(|path| (format!("/{}", path.display()), "the agent's own program".to_owned())));
    protected.extend(options.protected.iter().cloned());
    let backups = Backups::new(store, steps.clone());
    Files::open(root, backups, notes, protected, steps).map_err(trouble("files that were being written"))
}

/// Ends hooks that outlived the host that started them: their outcome is lost, and they must not run beside a second try.
fn end_lost(ledger: &Ledger, boot_id: &str) {
    for group in ledger.lost_groups() {
        let Some(pid) = Pid::from_raw(group.pid).filter(|_| group.boot_id == boot_id) else { continue };
        if process::started(pid) == Some(group.started) {
            tracing::warn!(pid = group.pid, "a program that an earlier run of the agent started is ended");
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

/// The programs that change the operating system. In a tree that is not the machine's only its own count: a trial must never
/// reboot the machine that it runs on.
fn os_tools(root: &Root, options: &LinuxOptions) -> OsTools {
    let find = |name: &str| {
        let found = process::find(root.path(), name)?;
        (root.is_machine() || found.starts_with(root.path())).then_some(found)
    };
    let systemctl =
        find("systemctl").filter(|_| !root.is_machine() || Path::new("/run/systemd/system").is_dir());
    let reboot = match (options.reboot.is_empty(), &systemctl) {
        (true, Some(systemctl)) => vec![systemctl.display().to_string(), "reboot".to_owned()],
        _ => options.reboot.clone(),
    };
    OsTools {
        bootc: find("bootc"),
        rpm_ostree: find("rpm-ostree"),
        ostree: find("ostree"),
        systemctl,
        reboot,
    }
}
