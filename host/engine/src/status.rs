//! What the host tells about itself: for the command line, `/readyz` and `explain`.

use std::time::Duration;

use evenkeel_core::contract::{FailedPass, Gvk, ObjectRef};
use serde::Serialize;

/// A snapshot of the host; everything in it is sorted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Whether there is nothing to do right now.
    pub idle: bool,
    /// Whether every watch is up and every plugin acts.
    pub ready: bool,
    /// Why it is not ready, a sentence a watch.
    pub complaints: Vec<String>,
    /// Plugins by name.
    pub plugins: Vec<PluginStatus>,
    /// Watches by kind and scope.
    pub watches: Vec<WatchStatus>,
    /// The queue.
    pub queue: QueueStatus,
    /// The journal.
    pub journal: JournalStatus,
}

/// A plugin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// Its version, as its manifest has it.
    pub version: String,
    /// The digest of what runs.
    pub digest: String,
    /// Whether it acts.
    pub state: PluginState,
    /// A version that was refused while this one went on.
    pub refused: Option<Refusal>,
    /// Its controllers by name.
    pub controllers: Vec<ControllerStatus>,
    /// What its grant denied it, each sentence once, bounded.
    pub denied: Vec<String>,
    /// Which of its controllers have nothing to look after under its grant, and why; a sentence each.
    pub idle: Vec<String>,
}

/// Whether a plugin acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum PluginState {
    /// Its passes run.
    Active,
    /// Its passes do not run until another version is loaded.
    Held {
        /// Why.
        reason: String,
    },
}

/// A version that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Its digest.
    pub digest: String,
    /// Its version, as its manifest has it; empty where the manifest was not readable.
    pub version: String,
    /// Why it does not run.
    pub reason: String,
}

/// A controller.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Its name.
    pub name: String,
    /// The objects that it looks after.
    pub keys: usize,
    /// Those of which the last pass failed.
    pub failing: usize,
    /// Those paused by annotation.
    pub paused: usize,
    /// Those that wait for a watch to be in step.
    pub waiting: usize,
    /// Passes in which the plugin was called.
    pub passes: u64,
    /// Calls of the plugin in them.
    pub calls: u64,
    /// Passes that needed no call, because nothing that they rest on had changed.
    pub elided: u64,
    /// Writes sent to the API server.
    pub sent: u64,
    /// Writes left out, because they would have changed nothing.
    pub skipped: u64,
    /// Passes that failed.
    pub failures: u64,
    /// Calls that the plugin did not survive, by kind of end.
    pub faults: u64,
    /// Keys that the breaker holds back now, at most a few.
    pub slowed: Vec<Slowed>,
}

/// A key that woke too often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slowed {
    /// The primary.
    pub object: ObjectRef,
    /// The object whose changes woke it most.
    pub woken_by: Option<ObjectRef>,
    /// How long it is held back still.
    pub for_another: Duration,
}

/// A watch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchStatus {
    /// The kind.
    pub gvk: Gvk,
    /// What of it is watched, in words.
    pub scope: String,
    /// How it stands, in words.
    pub state: String,
    /// Whether it is up and in step.
    pub healthy: bool,
    /// What the API server said last, where it was not what was hoped for.
    pub trouble: Option<String>,
}

/// How one object of a controller stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyStatus {
    /// What it waits for, if it does.
    pub waits: Option<Waits>,
    /// How its last pass failed, until one succeeds.
    pub failure: Option<FailedPass>,
    /// When its conclusion has it run again.
    pub requeue_in: Option<Duration>,
    /// When its controller has it run again.
    pub resync_in: Option<Duration>,
    /// Set where the breaker holds it back.
    pub slowed: Option<Slowed>,
}

/// What a key waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "for")]
pub enum Waits {
    /// The watch of a kind to be in step.
    Watch {
        /// The kind.
        gvk: Gvk,
    },
    /// An input other than the one that was rejected.
    Input,
    /// A grant that allows what it wants.
    Grant,
    /// Somebody to take the annotation away that pauses it.
    Paused,
}

/// The queue.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys at work.
    pub running: usize,
}

/// The journal.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalStatus {
    /// Records in memory.
    pub records: usize,
    /// Their bytes, about.
    pub bytes: usize,
    /// Records that the file could not take in time.
    pub dropped: u64,
}
