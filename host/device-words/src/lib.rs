//! The questions, operations and answers of the provider `device`, as plugins put and read them.
//!
//! Contents of files never travel: a spec is shown *sealed*, with digests in the place of what may be
//! secret, and an operation names the spec file from which the provider takes the content itself.

mod operations;
mod questions;

use serde::{Deserialize, Serialize};

pub use operations::*;
pub use questions::*;

/// The provider's name.
pub const NAME: &str = "device";

/// Questions that are answered.
pub const QUESTIONS: [&str; 15] = [
    "rendered",
    "spec-files",
    "boot",
    "os",
    "files",
    "hooks",
    "images",
    "application",
    "applications",
    "resources",
    "window",
    "systemd",
    "operation",
    "identity",
    "schedule",
];

/// Operations that are carried out.
pub const OPERATIONS: [&str; 20] = [
    "write-spec",
    "prefetch",
    "run-hook",
    "write-file",
    "remove-file",
    "restore-file",
    "install-app",
    "remove-app",
    "start-app",
    "stop-app",
    "restart-app",
    "daemon-reload",
    "set-monitors",
    "stage-os",
    "unstage-os",
    "reboot",
    "rollback-os",
    "prune",
    "report",
    "decommission",
];

/// What kind of failure it is, and so whether another try is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Worth another try.
    Transient,
    /// The content is at fault: no try until another version.
    Invalid,
    /// A registry, a service or the kernel refused.
    Denied,
    /// What was expected to be there is not.
    Conflict,
    /// It does not exist.
    NotFound,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    /// Its kind.
    pub code: Code,
    /// One sentence; never content of a file, an environment value or a credential.
    pub message: String,
}

/// An answer, or why there is none just now: `{"unknown": {code, message}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// There is no answer.
    Unknown {
        /// Why not.
        unknown: Error,
    },
    /// The answer.
    Answer(T),
}

/// What comes of an operation; the provider itself fails (`Err`) only for arguments that it does not understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// A short one: it is so, and durable.
    Done,
    /// A long one: it is on record and goes on; ask `operation` for its key.
    Accepted,
    /// It did not take effect; a long one was not begun.
    Failed {
        /// Why.
        error: Error,
    },
}

/// Which of the spec files an operation or a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spec {
    /// `desired.json`.
    Desired,
    /// `current.json`.
    Current,
}

/// A point of the flow at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// All is prepared, nothing changed.
    BeforeUpdating,
    /// Written to disk.
    AfterUpdating,
    /// Before a reboot of ours.
    BeforeRebooting,
    /// The first start after any reboot.
    AfterRebooting,
}
