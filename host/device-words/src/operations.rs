//! What may be done to a device.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Hook, ImageRef, Spec};

/// Where `write-spec` takes a Device from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The spec of that version that the service sent; another one is a `conflict`.
    Rendered(String),
    /// What is in `desired.json` before this operation.
    Desired,
    /// What is in `current.json` before this operation.
    Current,
    /// A Device of that version with an empty spec.
    Empty(String),
    /// The one under `sensitive`.
    Given,
}

/// What stands in `rollback.json` while an OS update is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WayBack {
    /// Version of current.
    pub version: String,
    /// Image to return to.
    pub os_image: String,
    /// Version of the desired spec that is tried: annotation `evenkeel.dev/desired-version`.
    pub desired_version: String,
    /// Its hash: annotation `evenkeel.dev/desired-spec-hash`.
    #[serde(default)]
    pub desired_spec_hash: String,
}

/// What becomes of `rollback.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rollback {
    /// An empty Device of version "".
    Clear,
    /// A way back.
    Set(WayBack),
}

/// What the journal must not show.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitive {
    /// A whole Device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Value>,
}

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(struck out)")
    }
}

/// Arguments of `write-spec`: all given files, each by temporary file, fsync, rename and fsync of the folder. The state is
/// written first, then rollback, desired and current. An invalid file that is replaced is kept as `<name>.corrupt-<n>`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteSpec {
    /// `update-state.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// `rollback.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// `desired.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Source>,
    /// `current.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Source>,
    /// What [`Source::Given`] means.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub sensitive: Sensitive,
}

fn is_empty(sensitive: &Sensitive) -> bool {
    sensitive.device.is_none()
}

/// Arguments of `prefetch`: exactly these are wanted from now on. Returns at once; `images` tells how they come along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// Sorted; pulls of others are cancelled.
    pub refs: Vec<ImageRef>,
}

/// Arguments of `run-hook`. The environment is `PATH`, `FLIGHTCTL_AGENT_PID`, the file's `envVars`, then `env`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunHook {
    /// Which hook.
    pub hook: Hook,
    /// The file's name.
    pub file: String,
    /// Its digest as `hooks` told it; another one is a `conflict`.
    pub sha256: String,
    /// Which of its actions, from 0.
    pub index: usize,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Assignments before the program.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// Milliseconds.
    pub timeout_ms: u64,
}

/// What has to be at a path before it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// Nothing.
    Absent,
    /// A file with this digest, as [`FileSeen::sha256`] has it.
    Sha256(String),
}

/// Arguments of `write-file`. The content is that of the last entry for this path in the spec file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteFile {
    /// The spec file.
    pub spec: Spec,
    /// The path.
    pub path: String,
    /// Digest of the content, as in the sealed spec; another one is a `conflict`.
    pub sha256: String,
    /// Permission bits.
    pub mode: u32,
    /// Name or number.
    pub user: String,
    /// Name or number.
    pub group: String,
    /// What must be there; anything where it is absent. Otherwise it is a `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Whether what is there goes into the backup store, by path and digest, with its mode and owner.
    pub backup: bool,
}

/// Arguments of `remove-file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveFile {
    /// The path; nothing there is fine.
    pub path: String,
    /// Whether it goes into the backup store.
    pub backup: bool,
}

/// Arguments of `restore-file`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreFile {
    /// The path.
    pub path: String,
    /// Digest under which the backup store has what was there; null where nothing was.
    pub backup: Option<String>,
}

/// Arguments of `install-app`: files only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstallApp {
    /// The spec file that the application stands in.
    pub spec: Spec,
    /// Its name there.
    pub name: String,
    /// The id that it gets.
    pub id: String,
    /// Told again in [`AppSeen::installed_digest`] once its files are whole.
    pub digest: String,
}

/// Arguments of `remove-app` (files only), `start-app`, `stop-app` and `restart-app`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppId {
    /// The id; removing one that is not there is fine.
    pub id: String,
}

/// Arguments of `daemon-reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonReload {
    /// Whose manager; the system's where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Arguments of `set-monitors`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetMonitors {
    /// `spec.resources`; null for the defaults. A monitor that is not there has its default.
    pub monitors: Option<Value>,
}

/// Arguments of `stage-os`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageOs {
    /// What the next boot takes.
    pub image: String,
}

/// Arguments of `reboot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reboot {
    /// For the log.
    pub reason: String,
    /// The image that has to be staged; otherwise it is a `conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
}

/// Arguments of `rollback-os`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackOs {
    /// The image that the rollback deployment has to be; otherwise it is a `conflict`.
    pub expect: String,
}

/// Arguments of `prune`: what is not named goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// Images and artifacts that stay; the images of deployments always do.
    pub images: Vec<String>,
    /// Backups that stay: path and digest.
    pub backups: Vec<(String, String)>,
}

/// What becomes of a device that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecommissionTarget {
    /// Its credentials go.
    Unenroll,
    /// All goes.
    FactoryReset,
}

/// Arguments of `decommission`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decommission {
    /// Which.
    pub target: DecommissionTarget,
}
