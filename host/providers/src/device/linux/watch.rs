//! What happens on the machine by itself, told to whoever waits for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Inner, STATE_FOLDER, lock};
use crate::device::words::{AskFiles, CheckState, Known, Os};

/// Folders that are watched at once; what is asked of others is looked at with each pass.
const WATCHES_MAX: usize = 4096;
/// Events that wait to be looked at. Past it everything is told.
const EVENTS_MAX: usize = 1024;
/// Between two looks at what announces nothing, and may be waited for.
const LOOK: Duration = Duration::from_secs(5);
/// Between two looks at what rarely changes by itself, or is told of anyway. Each look is a program that runs.
const SELDOM: Duration = Duration::from_secs(60);
/// Events that come together are looked at together.
const SETTLE: Duration = Duration::from_millis(20);

/// Folders of the machine that are watched.
pub(super) struct Watches {
    root: PathBuf,
    watcher: Mutex<Option<RecommendedWatcher>>,
    folders: Mutex<BTreeSet<PathBuf>>,
    events: Mutex<Option<mpsc::Receiver<Vec<PathBuf>>>>,
}

impl Watches {
    pub(super) fn new(root: &Path) -> Self {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Something happened that could not be told: everything is looked at.
            let paths = event.map(|event| if event.kind.is_access() { None } else { Some(event.paths) });
            if let Some(paths) = paths.unwrap_or_else(|_| Some(Vec::new())) {
                let _ = sender.try_send(paths);
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files cannot be watched: drift is found when something else happens");
        }
        Self {
            root: root.to_owned(),
            watcher: Mutex::new(watcher.ok()),
            folders: Mutex::default(),
            events: Mutex::new(Some(receiver)),
        }
    }

    /// Watches the nearest folder above a path that is there.
    pub(super) fn path(&self, path: &str) {
        let mut above = self.root.join(path.trim_start_matches('/'));
        while above.pop() && above.starts_with(&self.root) {
            if above.is_dir() {
                self.add(above);
                return;
            }
        }
    }

    /// Watches a folder, or the nearest one above it that is there.
    pub(super) fn folder(&self, path: &str) {
        self.path(&format!("{}/x", path.trim_end_matches('/')));
    }

    fn add(&self, folder: PathBuf) {
        let mut folders = lock(&self.folders);
        if folders.len() >= WATCHES_MAX || folders.contains(&folder) {
            return;
        }
        if let Some(watcher) = lock(&self.watcher).as_mut()
            && watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok()
        {
            folders.insert(folder);
        }
    }

    /// A folder that is gone is watched anew once it is there again.
    fn gone(&self, path: &Path) {
        lock(&self.folders).remove(path);
    }
}

/// Starts the tasks of the provider.
pub(super) fn start(inner: &Arc<Inner>) -> Vec<AbortHandle> {
    vec![
        tokio::spawn(events(Arc::clone(inner))).abort_handle(),
        tokio::spawn(monitors(Arc::clone(inner))).abort_handle(),
        tokio::spawn(service(Arc::clone(inner))).abort_handle(),
        tokio::spawn(looks(Arc::clone(inner))).abort_handle(),
        tokio::spawn(containers(Arc::clone(inner))).abort_handle(),
        tokio::spawn(images(Arc::clone(inner))).abort_handle(),
        tokio::spawn(Arc::clone(inner).run_hooks()).abort_handle(),
    ]
}

async fn events(inner: Arc<Inner>) {
    let Some(mut events) = lock(&inner.watches.events).take() else { return };
    while let Some(paths) = events.recv().await {
        tokio::time::sleep(SETTLE).await;
        let mut all: BTreeSet<PathBuf> = paths.iter().cloned().collect();
        let mut everything = paths.is_empty();
        while let Ok(more) = events.try_recv() {
            everything |= more.is_empty();
            all.extend(more);
        }
        inner.happened(&all, everything);
    }
}

impl Inner {
    /// Tells who waits for these paths.
    fn happened(&self, paths: &BTreeSet<PathBuf>, everything: bool) {
        if everything {
            self.asked.tell(&["files", "hooks", "spec-files"]);
            return;
        }
        for path in paths {
            if !path.exists() {
                self.watches.gone(path);
            }
        }
        let state = self.root.outside(STATE_FOLDER);
        if paths
            .iter()
            .any(|path| path.starts_with(&state) && path.extension().is_some_and(|end| end == "json"))
        {
            self.asked.tell(&["spec-files"]);
        }
        if paths.iter().any(|path| {
            path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("hooks.d"))
        }) || paths.iter().any(|path| path.ends_with("flightctl"))
        {
            self.asked.tell(&["hooks"]);
        }
        for (query, _) in self.asked.of("files") {
            let Ok(ask) = serde_json::from_str::<AskFiles>(&query.arguments) else { continue };
            // A folder above that comes or goes counts, too.
            let touched = |path: &String| {
                let outside = self.root.outside(path);
                paths.iter().any(|changed| outside.starts_with(changed))
            };
            if ask.paths.iter().any(touched) {
                self.asked.tell_one(query);
            }
        }
    }

    /// Looks whether the answers to a question have changed, and tells those that have.
    async fn look_again(self: &Arc<Self>, question: &str) {
        for (query, before) in self.asked.of(question) {
            let Ok(now) = Arc::clone(self).look(&query).await else { continue };
            if !before.is_empty() && *now != *before {
                self.asked.tell_one(query);
            }
        }
    }
}

async fn monitors(inner: Arc<Inner>) {
    loop {
        let due = {
            let mut monitors = lock(&inner.monitors);
            let before = monitors.see();
            monitors.sample(Instant::now(), &inner.root);
            if monitors.see() != before {
                inner.asked.tell(&["resources"]);
            }
            monitors.due()
        };
        let due = due.unwrap_or_else(|| Instant::now() + LOOK);
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            () = inner.monitors_changed.notified() => {}
        }
    }
}

async fn service(inner: Arc<Inner>) {
    loop {
        inner.service.news().await;
        inner.asked.tell(&["rendered", "identity"]);
    }
}

/// Looks now and then at what announces nothing, as long as there is something to look at.
async fn looks(inner: Arc<Inner>) {
    let mut seldom = Instant::now() + SELDOM;
    loop {
        tokio::time::sleep(LOOK).await;
        let due = Instant::now() >= seldom;
        if due {
            seldom = Instant::now() + SELDOM;
        }
        if inner.apps.any() && (due || !inner.containers_told.load(Ordering::Relaxed)) {
            inner.look_again("applications").await;
            inner.look_again("systemd").await;
        }
        let os = inner.os.systemctl.is_some() || inner.os.bootc.is_some() || inner.os.rpm_ostree.is_some();
        if os && (due || inner.boot_is_checked()) {
            inner.look_again("os").await;
        }
    }
}

impl Inner {
    /// Whether the last that is known of the OS is that its boot is being checked.
    fn boot_is_checked(&self) -> bool {
        let pending = |answer: &str| {
            serde_json::from_str(answer).is_ok_and(|known: Known<Os>| match known {
                Known::Answer(os) => os.check.enabled && os.check.state == CheckState::Pending,
                Known::Unknown { .. } => true,
            })
        };
        self.asked.of("os").iter().any(|(_, answer)| pending(answer))
    }
}

/// Looks at applications when podman tells of their containers.
async fn containers(inner: Arc<Inner>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if !inner.apps.tells() {
            continue;
        }
        let mut events = match inner.apps.events() {
            Ok(Some(events)) => events,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, "podman does not tell of containers: they are looked at now and then");
                tokio::time::sleep(SELDOM).await;
                continue;
            }
        };
        inner.containers_told.store(true, Ordering::Relaxed);
        while inner.apps.tells() && events.next().await.is_some() {
            // Events that come together are looked at together.
            tokio::time::sleep(SETTLE).await;
            inner.look_again("applications").await;
        }
        inner.containers_told.store(false, Ordering::Relaxed);
    }
}

async fn images(inner: Arc<Inner>) {
    loop {
        inner.images.work().await;
        inner.asked.tell(&["images", "application"]);
    }
}
