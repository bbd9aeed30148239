//! The engine's own limits: each with a unit and a reason.

use std::time::Duration;

/// Bytes of the journal in memory: some tens of thousands of small passes.
pub const JOURNAL_BYTES: usize = 32 << 20;
/// Bytes of one journal file: small enough to read in a second.
pub const JOURNAL_FILE_BYTES: u64 = 64 << 20;
/// Journal files kept.
pub const JOURNAL_FILES: u32 = 8;
/// Records that wait for the disk; past that they are dropped and counted rather than delay a pass.
pub const JOURNAL_QUEUE_MAX: usize = 4096;
/// A record larger than this is not read back.
pub const JOURNAL_LINE_BYTES_MAX: u64 = 64 << 20;
/// Records that a subscriber may lag behind.
pub const JOURNAL_SUBSCRIBERS_LAG_MAX: usize = 4096;

/// The part of all workers that the passes of one plugin may take, where there is another plugin: three quarters leave
/// two of the usual eight free, and cost a busy plugin little.
pub const WORKERS_SHARE: (usize, usize) = (3, 4);
/// Objects of whose last applier is kept note before it is looked which of these notes are of use.
pub const APPLIERS_KEPT: usize = 1024;
/// Keys that were asked for by name though nobody has shown their object yet, a controller: a plugin that enqueues names of its
/// own making is stopped here.
pub const UNSEEN_KEYS_MAX: usize = 1024;
/// Watches of single objects that may have been opened since it was looked which of them are needed, besides as many as were
/// needed then.
pub const SINGLE_WATCHES_OPENED_MAX: u64 = 64;
/// Keys whose primary is gone that are still remembered, a host: enough to see a deletion's aftermath.
pub const GONE_KEYS_MAX: usize = 1024;
/// Passes after which the learned queries are learned anew, where they may hold ones no longer asked.
pub const PASSES_BEFORE_RELEARNING: u32 = 16;
/// Runs of one pass that found its evidence stale, before it counts as a conflict.
pub const STALE_RUNS_MAX: u32 = 5;

/// How long keys without a conclusion wait along for a watch that a pass of their controller waits for. First lists come within it even of a busy API
/// server; longer than that a watch that never comes must not keep keys that may not need it.
pub const HELD_UP_MAX: Duration = Duration::from_secs(2);

/// Different keys whose calls the plugin did not survive, at least, before it is called bad.
pub const FAULTY_KEYS_MIN: usize = 5;
/// Sentences about denials that a plugin's status keeps.
pub const DENIALS_MAX: usize = 32;
/// Keys that a status names as slowed down.
pub const SLOWED_MAX: usize = 16;

/// The shortest `resync`: below it a controller would do nothing else.
pub const RESYNC_MIN: Duration = Duration::from_secs(1);
/// How long CustomResourceDefinitions may take to be served after they were applied.
pub const CRDS_SERVED_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether they are.
pub const CRDS_SERVED_EVERY: Duration = Duration::from_millis(50);

/// The largest component file: far above any that a toolchain makes.
pub const COMPONENT_BYTES_MAX: u64 = 128 << 20;
/// The largest settings file.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// How long a folder must be still before its changes are taken: a copy is many events.
pub const DIRECTORY_DEBOUNCE: Duration = Duration::from_millis(50);
/// How soon what is held for a reason that may pass is tried once more, at first.
pub const REFUSED_RETRY_MIN: Duration = Duration::from_secs(1);
/// How often, at least, what was refused for a reason that may pass is tried once more.
pub const REFUSED_RETRY_MAX: Duration = Duration::from_secs(60);
/// How often a folder is looked through where its file system reports nothing.
pub const DIRECTORY_POLL: Duration = Duration::from_secs(5);
