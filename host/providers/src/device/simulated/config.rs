//! What a simulated device is like before anything happens, and what can be wrong with it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::device::words::{Code, Health, OsMode};

/// A device.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Config {
    /// Where its clock starts, RFC 3339: as the scenario's.
    pub clock: String,
    /// The spec files, by name: `desired`, `current`, `rollback`, `state`; none for a first start. A Device may be given as
    /// `{version, hash, spec}`.
    pub files: BTreeMap<String, Value>,
    /// What the service offers.
    pub rendered: Option<Offer>,
    /// Which enrolment it is.
    pub enrolment: String,
    /// The operating system.
    pub os: OsConfig,
    /// Files on its disk.
    pub disk: BTreeMap<String, FileConfig>,
    /// Applications that are installed and run, by name, as in a spec.
    pub apps: Vec<Value>,
    /// Users and groups besides root.
    pub users: BTreeMap<String, u32>,
    /// Programs that it has not.
    pub missing: Vec<String>,
    /// Images that are there from the start.
    pub images: Vec<String>,
    /// How registries answer, by reference.
    pub registry: BTreeMap<String, Registry>,
    /// How long operations take, in seconds; 1 where nothing is said. `pull` and `reboot` too.
    pub seconds: BTreeMap<String, u64>,
    /// Alerts.
    pub alerts: Alerts,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock: "2026-01-01T00:00:00Z".to_owned(),
            files: BTreeMap::new(),
            rendered: None,
            enrolment: "cert-1".to_owned(),
            os: OsConfig::default(),
            disk: BTreeMap::new(),
            apps: Vec::new(),
            users: BTreeMap::new(),
            missing: Vec::new(),
            images: Vec::new(),
            registry: BTreeMap::new(),
            seconds: BTreeMap::new(),
            alerts: Alerts::default(),
        }
    }
}

/// A spec that the service offers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Offer {
    pub version: String,
    pub hash: String,
    /// Null where the service sends none.
    pub spec: Option<Value>,
}

/// The operating system.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct OsConfig {
    pub mode: OsMode,
    pub image: String,
    pub digest: String,
    /// Seconds that the check of a boot takes; nobody checks where it is absent.
    pub check_seconds: Option<u64>,
    /// Digests of images, by reference.
    pub digests: BTreeMap<String, String>,
    /// Users that an image brings, by its reference.
    pub users: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Default for OsConfig {
    fn default() -> Self {
        Self {
            mode: OsMode::Image,
            image: "quay.io/x/os:a".to_owned(),
            digest: "sha256:aa".to_owned(),
            check_seconds: None,
            digests: BTreeMap::new(),
            users: BTreeMap::new(),
        }
    }
}

/// A file on the disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileConfig {
    pub content: String,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// A folder.
    pub dir: bool,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self { content: String::new(), mode: 0o644, uid: 0, gid: 0, dir: false }
    }
}

/// How a registry answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Registry {
    /// How long a pull takes.
    pub seconds: Option<u64>,
    /// How it ends.
    pub code: Option<Code>,
    /// What is said.
    pub message: String,
    /// How often; always where it is absent.
    pub times: Option<u32>,
}

/// Alerts that fire.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Alerts {
    pub cpu: Health,
    pub memory: Health,
    pub disk: Health,
    /// Whether other monitors than those of now would end them.
    pub ends_with_monitors: bool,
}

/// Something that goes wrong with operations or questions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Fault {
    /// The operation, or the question; `*` for any operation.
    #[serde(default)]
    pub operation: Option<String>,
    #[serde(default)]
    pub question: Option<String>,
    /// A part of the key.
    #[serde(default)]
    pub key: String,
    #[serde(default = "transient")]
    pub code: Code,
    #[serde(default = "broken")]
    pub message: String,
    /// How often; once where it is absent.
    #[serde(default = "once")]
    pub times: u32,
    #[serde(default)]
    pub effect: Effect,
}

fn transient() -> Code {
    Code::Transient
}

fn broken() -> String {
    "made to fail".to_owned()
}

fn once() -> u32 {
    1
}

/// How it goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Effect {
    /// It fails: a long one at its end.
    #[default]
    Fails,
    /// A long one is not even begun.
    Refused,
    /// It never ends.
    Hangs,
    /// It is done, and the answer does not arrive.
    Unanswered,
    /// It ends well and has no effect.
    Ignored,
}

/// How a hook's action ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct HookResult {
    /// A part of `<file>#<index>`.
    pub file: String,
    #[serde(default)]
    pub exit: i32,
    #[serde(default)]
    pub seconds: Option<u64>,
    /// How often; always where it is absent.
    #[serde(default)]
    pub times: Option<u32>,
}

/// How an application behaves when it is started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Starts {
    /// Its name.
    pub name: String,
    /// The operation fails so.
    pub code: Option<Code>,
    /// The operation succeeds, and it is in error soon after.
    pub error: bool,
    /// It runs so many seconds after the operation; 0 at once.
    pub seconds: u64,
    /// What is said.
    pub message: String,
    /// How often; always where it is absent.
    pub times: Option<u32>,
}
