//! What may be asked of a device, and the answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Hook, Spec};

/// A question without arguments: `{}`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

/// Answer to `rendered`: the newest spec that the service sent since the provider started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// Annotation `device-controller/renderedVersion`, as it came; none until a spec came.
    pub version: Option<String>,
    /// Annotation `device-controller/renderedSpecHash`; "" where there is none.
    #[serde(default)]
    pub spec_hash: String,
    /// The whole Device, sealed; null where the service sent none.
    pub device: Option<Value>,
    /// When it came, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_at: Option<String>,
    /// Whether the last exchange with the service worked.
    pub reachable: bool,
    /// Whether the service no longer knows this device.
    pub gone: bool,
    /// Why it is not reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One of the files of `/var/lib/flightctl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecFile {
    /// Whether it is there.
    pub present: bool,
    /// Whether it is there and is JSON of the right form.
    pub valid: bool,
    /// Why it is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is in it: a sealed Device, or the update state; null where it is not valid.
    pub content: Option<Value>,
}

/// Answer to `spec-files`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecFiles {
    /// `desired.json`.
    pub desired: SpecFile,
    /// `current.json`.
    pub current: SpecFile,
    /// `rollback.json`.
    pub rollback: SpecFile,
    /// `update-state.json`.
    pub state: SpecFile,
}

/// Answer to `boot`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    /// The kernel's boot id.
    pub boot_id: String,
    /// When it booted, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted_at: Option<String>,
}

/// Whether the system is made of images or of packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OsMode {
    /// bootc or rpm-ostree.
    #[default]
    Image,
    /// Neither.
    Package,
}

/// An OS image of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OsImage {
    /// Its reference as the backend tells it.
    pub image: String,
    /// Its digest, `sha256:…`; "" where it is not known.
    #[serde(default)]
    pub digest: String,
}

/// How the check of a boot stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    /// It is not over.
    Pending,
    /// The boot is good.
    Passed,
    /// The boot is bad.
    Failed,
    /// Nobody checks.
    #[default]
    None,
}

/// The check of a boot, such as greenboot's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootCheck {
    /// Whether there is one.
    pub enabled: bool,
    /// How it stands.
    pub state: CheckState,
}

/// Answer to `os`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Os {
    /// Image or package mode.
    pub mode: OsMode,
    /// `bootc`, `rpm-ostree` or `none`.
    pub backend: String,
    /// The booted deployment; "" in package mode.
    pub booted: OsImage,
    /// What the next boot takes, where it is another one.
    pub staged: Option<OsImage>,
    /// What a rollback would boot.
    pub rollback: Option<OsImage>,
    /// The check of this boot.
    pub check: BootCheck,
}

/// Arguments of `files`; each list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskFiles {
    /// Absolute paths, below the configured root.
    pub paths: Vec<String>,
    /// Names of users; numbers are answered as they are.
    pub users: Vec<String>,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A regular file, or nothing.
    #[default]
    File,
    /// A directory.
    Dir,
    /// A symbolic link, which is never followed.
    Symlink,
    /// A device, a socket, a pipe.
    Other,
}

/// What is known of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSeen {
    /// Rises with every change that was seen, over restarts too; two within one tick of the kernel's clock (up to 10 ms) may share
    /// a number.
    pub seq: u64,
    /// Whether something is there.
    pub exists: bool,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, setuid, setgid and sticky included.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// `sha256:` and the digest of the content in hex, of the target's text for a link; "" for what has none.
    pub sha256: String,
    /// Why the provider would never write there (its own state, its certificates); none where it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Answer to `files`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesSeen {
    /// By path.
    pub files: BTreeMap<String, FileSeen>,
    /// Number of each user; null where it does not exist.
    pub users: BTreeMap<String, Option<u32>>,
    /// Number of each group; null where it does not exist.
    pub groups: BTreeMap<String, Option<u32>>,
}

/// Arguments of `hooks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskHooks {
    /// Which.
    pub hook: Hook,
}

/// Answer to `hooks`: vendor and local files merged, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HooksSeen {
    /// The files.
    pub files: Vec<HookFile>,
}

/// Whose hook file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Below `/usr/lib/flightctl/hooks.d`.
    Vendor,
    /// Below `/etc/flightctl/hooks.d`.
    Local,
}

/// A file of hook actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFile {
    /// Its name within the hook's folder, such as `10-backup.yaml`.
    pub path: String,
    /// Whose it is.
    pub origin: Origin,
    /// Digest of its content; `run-hook` names it again, so that what was decided on is what runs.
    pub sha256: String,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// In the order of the file.
    #[serde(default)]
    pub actions: Vec<HookAction>,
}

/// An action of a hook file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookAction {
    /// The command line, as it is written.
    pub run: String,
    /// Names of its environment variables; the values stay with the provider.
    #[serde(default)]
    pub env_vars: Vec<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// Whether that is there; true where none is named.
    pub work_dir_exists: bool,
    /// Milliseconds; none for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// All must hold.
    #[serde(default, rename = "if")]
    pub conditions: Vec<HookCondition>,
    /// What a failure means; `Fail` where it is not said.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// The first word of `run` that is no assignment, and whether it is an executable.
    pub executable: Executable,
}

/// A condition of a hook's action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HookCondition {
    /// A config file is changed by the update.
    Path {
        /// A path; one that ends in `/` means all below it.
        path: String,
        /// Which changes; all where it is empty.
        #[serde(default)]
        op: Vec<FileOp>,
    },
    /// Such as `rebooted == true`.
    Expression(String),
}

/// How an update changes a config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOp {
    /// Only the new spec has it.
    Created,
    /// Both have it, with other content, mode or owner.
    Updated,
    /// Only the old spec has it.
    Removed,
}

/// What the failure of an action means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// The hook fails.
    #[default]
    Fail,
    /// It is told, and the hook goes on.
    Ignore,
}

/// A program that a hook runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executable {
    /// As it is written.
    pub word: String,
    /// Whether it is an executable, by `PATH` where it has no slash.
    pub found: bool,
}

/// What an image reference is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageKind {
    /// An operating system.
    Os,
    /// A container image.
    Image,
    /// An OCI artifact.
    Artifact,
    /// A Helm chart.
    Chart,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PullPolicy {
    /// Though it is there.
    Always,
    /// If it is not there.
    #[default]
    IfNotPresent,
    /// Never: it has to be there.
    Never,
}

/// An image that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRef {
    /// The reference.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What it is of.
    pub kind: ImageKind,
    /// Whose storage; root's where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it is pulled.
    #[serde(default)]
    pub pull_policy: PullPolicy,
}

/// Arguments of `images`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskImages {
    /// Sorted.
    pub refs: Vec<ImageRef>,
}

/// How a pull stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullState {
    /// Not there, not wanted.
    Absent,
    /// Waits for its turn.
    Queued,
    /// Under way.
    Pulling,
    /// There.
    Present,
    /// The last try failed; the provider tries a transient failure again by itself.
    Failed,
}

/// How an image stands. No bytes are told: progress alone wakes nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSeen {
    /// The reference as it was asked for.
    #[serde(rename = "ref")]
    pub reference: String,
    /// How its pull stands.
    pub state: PullState,
    /// Its digest; "" where it is not there.
    #[serde(default)]
    pub digest: String,
    /// Failed tries since it is wanted.
    #[serde(default)]
    pub tries: u32,
    /// When it is tried again, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<String>,
    /// What the last try failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Answer to `images`, in the order asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagesSeen {
    /// One for each that was asked for.
    pub images: Vec<ImageSeen>,
}

/// Arguments of `application`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskApplication {
    /// The spec file that it stands in.
    pub spec: Spec,
    /// Its name there.
    pub name: String,
}

/// Answer to `application`: what its content says, package included once that is present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationContent {
    /// Why its content cannot be used: a file does not parse, a service has no image, a path leaves its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Images that its content names, sorted: those of its services, not its own package.
    #[serde(default)]
    pub images: Vec<ImageRef>,
    /// Programs that it needs and the device lacks (`podman`, `helm`, `systemctl`), sorted.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Whether it brings unit files along, so that systemd has to be reloaded.
    #[serde(default)]
    pub units: bool,
}

/// How an application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppState {
    /// It is installed and was not started yet.
    Preparing,
    /// It starts; a unit in `activating` too.
    Starting,
    /// All of it runs.
    Running,
    /// It failed.
    Error,
    /// Nobody can tell.
    Unknown,
    /// All of it ended well.
    Completed,
    /// It stops.
    Stopping,
    /// It is stopped.
    Stopped,
}

/// An application on the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppSeen {
    /// Rises each time that it stops or dies, over restarts of the host too.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `compose`, `quadlet`, `container`, `helm` or `vm`.
    pub app_type: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether the OS image brought it.
    #[serde(default)]
    pub embedded: bool,
    /// Digest that `install-app` was given; none where its files are not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_digest: Option<String>,
    /// How it is.
    pub observed: AppState,
    /// Containers that run.
    #[serde(default)]
    pub ready: u32,
    /// Containers that there are.
    #[serde(default)]
    pub total: u32,
    /// Restarts of its containers.
    #[serde(default)]
    pub restarts: u32,
    /// Since when it runs without a break, RFC 3339; none where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<String>,
    /// When it last stopped or died, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Deaths in a row, each within an hour of its start; 0 again after an hour of running.
    #[serde(default)]
    pub deaths: u32,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Answer to `applications`, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppsSeen {
    /// Those that are installed, embedded ones too.
    pub applications: Vec<AppSeen>,
}

/// How much of something is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Health {
    /// No alert.
    #[default]
    Healthy,
    /// An alert of severity Warning.
    Warning,
    /// An alert of severity Critical.
    Critical,
    /// It cannot be measured.
    Error,
    /// Not measured yet.
    Unknown,
}

/// A monitored resource. No percentage is told: a reading alone wakes nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSeen {
    /// The worst alert that fires.
    pub status: Health,
    /// What the alert says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Answer to `resources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourcesSeen {
    /// Processors.
    pub cpu: ResourceSeen,
    /// Memory.
    pub memory: ResourceSeen,
    /// The monitored file system.
    pub disk: ResourceSeen,
}

/// Arguments of `window` and `schedule`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskWindow {
    /// IANA name; the machine's own zone where it is absent or `Local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Five cron fields.
    pub at: String,
    /// How long after a run it stays open, such as `30m`; "" for the run's minute alone.
    #[serde(default)]
    pub grace: String,
}

/// Answer to `window`. To `schedule`, which only asks whether it can be read, the answer has `error` or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Whether it is open.
    pub open: bool,
    /// The run that it is open for, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// When it closes, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes_at: Option<String>,
    /// When it opens next, RFC 3339; none where it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_open_at: Option<String>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Arguments of `systemd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskSystemd {
    /// Names or globs, sorted.
    pub patterns: Vec<String>,
}

/// A systemd unit, in the words of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitSeen {
    /// Its name.
    pub unit: String,
    /// What it is.
    #[serde(default)]
    pub description: String,
    /// Such as `enabled`.
    #[serde(default)]
    pub enable_state: String,
    /// Such as `loaded`.
    #[serde(default)]
    pub load_state: String,
    /// Such as `active`.
    #[serde(default)]
    pub active_state: String,
    /// Such as `running`.
    #[serde(default)]
    pub sub_state: String,
}

/// Answer to `systemd`, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsSeen {
    /// The units.
    pub units: Vec<UnitSeen>,
}

/// Arguments of `operation`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskOperation {
    /// The key that the operation was given.
    pub key: String,
}

/// How a long operation stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    /// Nobody asked for it.
    #[default]
    Unknown,
    /// Under way.
    Running,
    /// It took effect.
    Succeeded,
    /// It did not.
    Failed,
    /// It began, and the host or the machine died before an outcome was on record.
    Lost,
}

/// Answer to `operation`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationSeen {
    /// How it stands.
    pub state: OperationState,
    /// When it began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Of a hook: what it exited with, 124 for a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Answer to `identity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The device's name with the service.
    pub device_name: String,
    /// Whether it is enrolled.
    pub enrolled: bool,
    /// Another one for each enrolment, such as the fingerprint of the certificate; "" without a service.
    #[serde(default)]
    pub enrolment: String,
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `linux`.
    pub operating_system: String,
    /// The host's version.
    pub agent_version: String,
    /// What the operator wants reported.
    #[serde(default)]
    pub custom_info: BTreeMap<String, String>,
    /// Settings of the provider that it left out, and why: an invalid drop-in.
    #[serde(default)]
    pub skipped: Vec<String>,
}
