//! Plugins from a folder: `NAME.wasm`, and `NAME.yaml` with its settings where there are any.
//!
//! Files may be added, replaced and removed at any time. A version that is refused leaves the one before it at work,
//! and its reason stands in [`Directory::files`], in the log and on the plugin's status. Whoever replaces a file by
//! renaming a finished one over it is served at once; a file written in place is taken once it is closed or still.

mod content;
mod scan;
mod settings;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::guest::Guest;
use notify::Watcher;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::content::Content;
pub use self::settings::{SettingsError, parse_settings};
use crate::host::Host;
use crate::limits::{DIRECTORY_DEBOUNCE, DIRECTORY_POLL};

/// Makes a plugin of the bytes of a component.
pub trait Loader: Send + Sync {
    /// Compiles it and reads its manifest; the error is a chain of sentences for a person.
    fn load<'a>(&'a self, wasm: Vec<u8>) -> LoaderFuture<'a>;
}

impl<F, L> Loader for F
where
    F: Fn(Vec<u8>) -> L + Send + Sync,
    L: Future<Output = Result<Arc<dyn Guest>, LoaderError>> + Send + 'static,
{
    fn load(&self, wasm: Vec<u8>) -> LoaderFuture<'_> {
        Box::pin(self(wasm))
    }
}

/// Why a component does not load.
pub type LoaderError = Box<dyn std::error::Error + Send + Sync>;

/// What loading resolves to.
pub type LoaderFuture<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Guest>, LoaderError>> + Send + 'a>>;

/// A folder that is watched for as long as this lives.
#[derive(Debug)]
pub struct Directory {
    files: Arc<Mutex<Vec<FileStatus>>>,
    task: JoinHandle<()>,
}

/// A component file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStatus {
    /// Its name.
    pub file: String,
    /// The plugin that it holds, where one was ever loaded from it.
    pub plugin: Option<String>,
    /// The digest of what runs from it.
    pub digest: Option<String>,
    /// Why what is in the file now does not run.
    pub refused: Option<String>,
}

/// Why a folder cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the plugin folder {}", directory.display())]
pub struct DirectoryError {
    directory: PathBuf,
    #[source]
    cause: std::io::Error,
}

impl Directory {
    /// Loads all that is there, then follows the changes.
    pub async fn open(host: Host, loader: Arc<dyn Loader>, directory: &Path) -> Result<Self, DirectoryError> {
        let files = Arc::new(Mutex::default());
        let mut content = Content { host, loader, directory: directory.to_owned(), known: BTreeMap::new() };
        // Watch before the first look, or a file that arrives in between is seen at the next poll only.
        let bell = Arc::new(Bell::default());
        let watcher = watch(directory, Arc::clone(&bell));
        content.look().await.map_err(|cause| DirectoryError { directory: directory.to_owned(), cause })?;
        publish(&files, &content);
        let task = tokio::spawn(follow(content, watcher, bell, Arc::clone(&files)));
        Ok(Self { files, task })
    }

    /// What is there, by file name.
    pub fn files(&self) -> Vec<FileStatus> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Rung when the folder changes.
#[derive(Default)]
struct Bell {
    /// Whether a changed file is known to be whole.
    settled: AtomicBool,
    rung: Notify,
}

impl Bell {
    fn ring(&self, event: notify::Result<notify::Event>) {
        let Ok(event) = event else {
            // The queue overflowed: a look will tell.
            self.rung.notify_one();
            return;
        };
        if !event.paths.iter().any(|path| scan::is_ours(path)) {
            return;
        }
        let settled = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Remove(_) => true,
            EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => false,
            EventKind::Access(_) => return,
        };
        if settled {
            self.settled.store(true, Ordering::Release);
        }
        self.rung.notify_one();
    }
}

fn watch(directory: &Path, bell: Arc<Bell>) -> Option<notify::RecommendedWatcher> {
    let made = notify::recommended_watcher(move |event| bell.ring(event)).and_then(|mut watcher| {
        watcher.watch(directory, notify::RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match made {
        Ok(watcher) => Some(watcher),
        Err(cause) => {
            let directory = directory.display();
            tracing::warn!(%cause, %directory, "the plugin folder reports no changes, so it is polled");
            None
        }
    }
}

async fn follow(
    mut content: Content,
    _watcher: Option<notify::RecommendedWatcher>,
    bell: Arc<Bell>,
    files: Arc<Mutex<Vec<FileStatus>>>,
) {
    loop {
        tokio::select! {
            () = bell.rung.notified() => {
                // A copy is many events: wait until a file was closed, or all is still.
                while !bell.settled.swap(false, Ordering::AcqRel)
                    && tokio::time::timeout(DIRECTORY_DEBOUNCE, bell.rung.notified()).await.is_ok()
                {}
            }
            () = tokio::time::sleep(DIRECTORY_POLL) => {}
        }
        if let Err(cause) = content.look().await {
            tracing::warn!(%cause, directory = %content.directory.display(), "the plugin folder cannot be read");
        }
        publish(&files, &content);
    }
}

fn publish(files: &Mutex<Vec<FileStatus>>, content: &Content) {
    let now = content.known.values().map(|known| known.status.clone()).collect();
    *files.lock().unwrap_or_else(PoisonError::into_inner) = now;
}
