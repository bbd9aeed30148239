//! `update-state.json`: what must outlive a pass, a crash and a rollback of the OS.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::Code;

/// How many failed versions are remembered.
pub const FAILED_MAX: usize = 32;

/// The state of updates on this device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct State {
    /// The form of this file; 1.
    pub schema: u32,
    /// The update under way; null in the steady state.
    pub update: Option<Update>,
    /// Versions that failed for good, oldest first.
    pub failed: Vec<FailedVersion>,
    /// What is known of boots.
    pub boot: BootState,
    /// Config files that are ours, by path.
    pub managed: Vec<Managed>,
    /// How the last update ended.
    pub last_outcome: Option<LastOutcome>,
    /// The failed version that an operator had tried once more, while the word for it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried: Option<String>,
    /// The enrolment under which the versions in the spec files were given out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub enrolment: String,
}

/// A version of a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Target {
    /// Its number.
    pub version: String,
    /// Its fingerprint; "" where it has none.
    pub spec_hash: String,
}

/// Where an update started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct From {
    /// Version of current.
    pub version: String,
    /// The image that was booted; "" in package mode.
    pub os_image: String,
}

/// How far an update is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Checks and downloads.
    #[default]
    Preparing,
    /// Prepared; waits for its window, or runs its hooks.
    Ready,
    /// Applications are installed and files are written.
    Applying,
    /// The OS is put in place for the next boot.
    Staging,
    /// The machine is on its way down.
    Rebooting,
    /// Hooks run and applications start.
    Activating,
    /// The new OS has to prove itself.
    Verifying,
    /// Back to where it started.
    RollingBack,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "Preparing",
            Self::Ready => "Ready",
            Self::Applying => "Applying",
            Self::Staging => "Staging",
            Self::Rebooting => "Rebooting",
            Self::Activating => "Activating",
            Self::Verifying => "Verifying",
            Self::RollingBack => "RollingBack",
        }
    }

    /// Whether nothing on the device was changed yet.
    pub fn is_before_changes(self) -> bool {
        matches!(self, Self::Preparing | Self::Ready)
    }

    /// Whether the machine may come up on another OS than before.
    pub fn is_around_reboot(self) -> bool {
        matches!(self, Self::Staging | Self::Rebooting | Self::Activating | Self::Verifying)
    }
}

/// An update under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Update {
    /// Where it goes.
    pub target: Target,
    /// Where it started.
    pub from: From,
    /// How far it is.
    pub phase: Phase,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// When it was adopted, RFC 3339.
    pub since: String,
    /// When it is tried again, RFC 3339.
    pub next_try: Option<String>,
    /// What this attempt has passed: windows found open, pulls asked for.
    pub steps: Vec<String>,
    /// Whether it rebooted the machine.
    pub rebooted: bool,
    /// The reboot that was asked for.
    pub reboot: Option<RebootAsked>,
    /// Since when the boot is checked, or applications are watched, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifying_since: Option<String>,
    /// What the last attempt failed with.
    pub error: Option<Trouble>,
    /// Config files that were put back on the update's OS, for another try there: the `/etc` of the old OS still has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Managed>,
    /// The way back, once it is taken.
    pub rollback: Option<WayBack>,
}

/// A reboot that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RebootAsked {
    /// The boot that it was asked in.
    pub boot_id: String,
    /// What shall be booted.
    pub image: String,
    /// When it was asked for, RFC 3339.
    pub at: String,
    /// How often it was asked for.
    pub tries: u32,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// In which phase.
    pub phase: String,
    /// What failed: `os`, `config`, `hooks`, `images`, `applications`.
    pub component: String,
    /// Which of them, by its name.
    pub element: String,
    /// Why.
    pub message: String,
    /// Its kind.
    pub code: Code,
    /// Whether another try is worth it.
    pub retryable: bool,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { phase, component, element, message, code: _, retryable: _ } = self;
        write!(f, "While {phase}: {component} failed for {element}: {message}")
    }
}

/// Which way back is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// On the OS that is booted.
    #[default]
    Files,
    /// By way of the old OS.
    Os,
}

/// How far the way back is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Applications stop and hooks run, on the OS that failed.
    Leaving,
    /// The old OS is on its way up.
    Booting,
    /// Files and applications are put back.
    #[default]
    Restoring,
    /// It was tried too often; somebody has to look.
    Stuck,
}

/// The way back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WayBack {
    /// Which.
    pub kind: Way,
    /// Whether the version has failed for good.
    pub mark_failed: bool,
    /// How far it is.
    pub stage: Stage,
    /// Which try it is, from 1.
    pub tries: u32,
    /// Whether it changed a file, so that hooks have to run.
    pub changed_files: bool,
    /// What the last try failed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A version that failed for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailedVersion {
    /// Its number.
    pub version: String,
    /// Its fingerprint.
    pub spec_hash: String,
    /// When, RFC 3339.
    pub at: String,
    /// Why.
    pub reason: String,
}

/// What is known of boots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BootState {
    /// The boot that the last pass saw.
    pub last_boot_id: String,
    /// The boot whose hooks have run.
    pub after_rebooting: String,
}

/// A config file that is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    /// Its path.
    pub path: String,
    /// Digest under which what was there before is kept; null where nothing was.
    pub backup: Option<String>,
}

/// How an update ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It is in effect.
    Updated,
    /// It failed for good.
    Error,
}

/// How the last update ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastOutcome {
    /// Its version.
    pub version: String,
    /// How.
    pub result: Ended,
    /// Why.
    #[serde(default)]
    pub message: String,
    /// When, RFC 3339.
    #[serde(default)]
    pub at: String,
}

impl State {
    /// One with nothing in it.
    pub fn empty() -> Self {
        Self { schema: 1, ..Self::default() }
    }

    /// As the file has it.
    pub fn json(&self) -> Value {
        // Texts, numbers and lists of them serialize.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether a version has failed for good, by its number or by its content.
    pub fn has_failed(&self, version: &str, hash: &str) -> bool {
        self.failed
            .iter()
            .any(|failed| failed.version == version || (!hash.is_empty() && failed.spec_hash == hash))
    }

    /// Remembers a version as failed for good.
    pub fn mark_failed(&mut self, failed: FailedVersion) {
        self.failed.retain(|old| old.version != failed.version);
        self.failed.push(failed);
        let surplus = self.failed.len().saturating_sub(FAILED_MAX);
        self.failed.drain(..surplus);
    }

    /// What is kept of the file that was at a path before it was ours; none where the path is not ours.
    pub fn managed(&self, path: &str) -> Option<&Managed> {
        self.managed.iter().find(|managed| managed.path == path)
    }

    /// Remembers a path as ours.
    pub fn manage(&mut self, path: &str, backup: Option<String>) {
        self.managed.retain(|managed| managed.path != path);
        self.managed.push(Managed { path: path.to_owned(), backup });
        self.managed.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// A path is no longer ours; `on_target` where that holds for the update's OS alone.
    pub fn let_go(&mut self, path: &str, on_target: bool) {
        let Some(at) = self.managed.iter().position(|managed| managed.path == path) else { return };
        let gone = self.managed.remove(at);
        if let Some(update) = self.update.as_mut().filter(|_| on_target)
            && update.elsewhere.iter().all(|managed| managed.path != path)
        {
            update.elsewhere.push(gone);
        }
    }

    /// The old OS is booted again: what its `/etc` still has is ours again, to be put back there.
    pub fn come_home(&mut self) {
        let left = self.update.as_mut().map(|update| std::mem::take(&mut update.elsewhere));
        for Managed { path, backup } in left.unwrap_or_default() {
            self.manage(&path, backup);
        }
    }
}
