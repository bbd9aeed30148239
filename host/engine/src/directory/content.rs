//! What of the folder runs, and how a look at it changes that.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_core::guest::Guest;
use tokio::time::Instant;

use super::scan::{Found, scan};
use super::settings::parse_settings;
use super::{FileStatus, Loader};
use crate::host::Host;
use crate::limits::{COMPONENT_BYTES_MAX, DIRECTORY_POLL, REFUSED_RETRY_MAX, SETTINGS_BYTES_MAX};
use crate::plugin::{LoadOutcome, PluginSettings};
use crate::status::Refusal;

pub(super) struct Content {
    pub(super) host: Host,
    pub(super) loader: Arc<dyn Loader>,
    pub(super) directory: PathBuf,
    /// By the file's name without its ending.
    pub(super) known: BTreeMap<String, Known>,
}

pub(super) struct Known {
    found: Found,
    pub(super) status: FileStatus,
    /// When it is tried once more though its file is the same; none where that would be of no use.
    again: Option<Again>,
}

/// Another try of what was refused for a reason that may pass.
#[derive(Clone, Copy)]
struct Again {
    at: Instant,
    /// How often it was tried.
    tries: u32,
}

impl Again {
    fn after(before: Option<Self>) -> Self {
        let tries = before.map_or(0, |again| again.tries).saturating_add(1);
        let wait = DIRECTORY_POLL.saturating_mul(1 << tries.min(6)).min(REFUSED_RETRY_MAX);
        Self { at: Instant::now() + wait, tries }
    }
}

/// Why a file is not taken.
struct Refused {
    reason: String,
    may_pass: bool,
}

impl Refused {
    /// For a reason that lies in the file.
    fn for_good(reason: String) -> Self {
        Self { reason, may_pass: false }
    }

    /// For one that lies elsewhere.
    fn for_now(reason: String) -> Self {
        Self { reason, may_pass: true }
    }
}

impl Content {
    /// Loads what is new or changed, and unloads what is gone.
    pub(super) async fn look(&mut self) -> io::Result<()> {
        let found = scan(&self.directory)?;
        let gone: Vec<_> = self.known.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(plugin) = self.known.remove(&name).and_then(|known| known.status.plugin) {
                tracing::info!(plugin, file = %file_name(&name), "plugin removed, as its file is gone");
                self.host.unload(&plugin);
            }
        }
        for (name, found) in found {
            let same = self.known.get(&name).filter(|known| known.found == found);
            let again = same.and_then(|known| known.again);
            if same.is_some() && again.is_none_or(|again| Instant::now() < again.at) {
                continue;
            }
            let (status, may_pass) = self.take(&name).await;
            let again = may_pass.then(|| Again::after(again));
            self.known.insert(name, Known { found, status, again });
        }
        Ok(())
    }

    /// Loads a file, and tells whether it may be taken later where it was not.
    async fn take(&mut self, name: &str) -> (FileStatus, bool) {
        let before = self.known.get(name).map(|known| known.status.clone());
        let mut status = before.unwrap_or_else(|| FileStatus {
            file: file_name(name),
            plugin: None,
            digest: None,
            refused: None,
        });
        let refused = self.load(name, &mut status).await.err();
        let may_pass = refused.as_ref().is_some_and(|refused| refused.may_pass);
        let told = std::mem::replace(&mut status.refused, refused.map(|refused| refused.reason));
        if let Some(reason) = status.refused.as_ref().filter(|reason| told.as_ref() != Some(*reason)) {
            let going_on = status.digest.as_deref().unwrap_or("nothing");
            tracing::error!(file = status.file, reason, going_on, tried_again = may_pass, "plugin refused");
        }
        (status, may_pass)
    }

    async fn load(&self, name: &str, status: &mut FileStatus) -> Result<(), Refused> {
        let guest = self.component(name).await.map_err(|why| self.refused(status, "", "", why))?;
        let (plugin, version) = (guest.manifest().name.clone(), guest.manifest().version.clone());
        let settings =
            self.settings(name).map_err(|why| self.refused(status, guest.digest(), &version, why))?;
        if let Some(other) = self.known.iter().find(|(other, known)| *other != name && known.holds(&plugin)) {
            let why = Refused::for_now(format!("{} holds the plugin {plugin} already", file_name(other.0)));
            return Err(self.refused(status, guest.digest(), &version, why));
        }
        let loaded = self.host.load(Arc::clone(&guest), settings).await;
        let outcome = loaded.map_err(|held| {
            let why = Refused { reason: chain(&held), may_pass: held.may_pass() };
            self.refused(status, guest.digest(), &version, why)
        })?;
        match outcome {
            LoadOutcome::Loaded => tracing::info!(plugin, version, digest = guest.digest(), "plugin loaded"),
            LoadOutcome::Swapped { from } => {
                tracing::info!(plugin, version, digest = guest.digest(), from, "plugin swapped");
            }
            LoadOutcome::Unchanged => {}
        }
        if let Some(old) = status.plugin.as_ref().filter(|old| **old != plugin) {
            self.host.unload(old);
        }
        status.digest = Some(guest.digest().to_owned());
        status.plugin = Some(plugin);
        Ok(())
    }

    /// Shows the reason on the plugin's status too, where a version of it runs.
    fn refused(&self, status: &FileStatus, digest: &str, version: &str, why: Refused) -> Refused {
        if let Some(plugin) = &status.plugin {
            let refusal =
                Refusal { digest: digest.into(), version: version.into(), reason: why.reason.clone() };
            self.host.refuse(plugin, refusal);
        }
        why
    }

    async fn component(&self, name: &str) -> Result<Arc<dyn Guest>, Refused> {
        let path = self.directory.join(file_name(name));
        let wasm = read(&path, COMPONENT_BYTES_MAX)?;
        self.loader.load(wasm).await.map_err(|error| Refused::for_good(chain(&*error)))
    }

    fn settings(&self, name: &str) -> Result<PluginSettings, Refused> {
        let path = self.directory.join(format!("{name}.yaml"));
        if !path.exists() {
            return Ok(PluginSettings::default());
        }
        let text = read(&path, SETTINGS_BYTES_MAX)?;
        let text = String::from_utf8(text)
            .map_err(|_| Refused::for_good(format!("{name}.yaml is not UTF-8 text")))?;
        parse_settings(&text).map_err(|error| Refused::for_good(format!("{name}.yaml: {}", chain(&error))))
    }
}

impl Known {
    fn holds(&self, plugin: &str) -> bool {
        self.status.plugin.as_deref() == Some(plugin)
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.wasm")
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Refused> {
    let cannot = |cause: io::Error| Refused::for_now(format!("cannot read {}: {cause}", path.display()));
    let file = std::fs::File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    let taken = file.take(limit + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if u64::try_from(taken).is_ok_and(|taken| taken > limit) {
        return Err(Refused::for_good(format!("{} is larger than {limit} bytes", path.display())));
    }
    Ok(bytes)
}

/// An error with its causes, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
