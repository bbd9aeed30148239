//! What a plugin may ask of the host at most: every limit with its unit and its reason.

use std::time::Duration;

/// Calls in one pass. Past this a plugin is almost surely asking in a circle; the deepest one we ship needs five.
pub const ROUNDS_PER_PASS_MAX: u32 = 16;
/// Queries that one pass may put: the dependency index holds an entry for each.
pub const QUERIES_PER_PASS_MAX: usize = 512;
/// Actions of one pass. A controller that owns more objects than this ought to be cut in two.
pub const ACTIONS_PER_PASS_MAX: usize = 1024;
/// Kinds under `prune`: each is a list over the cache at the end of every pass.
pub const PRUNE_KINDS_MAX: usize = 64;
/// Log lines taken from one reply; the rest is dropped.
pub const LOG_LINES_MAX: usize = 256;
/// Bytes of one log line; the rest is cut off.
pub const LOG_LINE_BYTES_MAX: usize = 4096;

/// Bytes of the message of a failure; the rest is cut off. It is kept with the object, and told to its plugin again.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 8192;

/// Bytes of one object in an action: etcd takes no more than 1.5 MiB.
pub const OBJECT_BYTES_MAX: usize = 1_572_864;
/// Bytes of an object's name; the API server's own limit.
pub const OBJECT_NAME_BYTES_MAX: usize = 253;
/// Bytes of a DNS label, and so of a namespace; the API server's own limit.
pub const LABEL_BYTES_MAX: usize = 63;
/// Bytes of an API group, version or kind.
pub const KIND_BYTES_MAX: usize = 253;
/// Bytes of a reason of an Event; the API server's own limit.
pub const EVENT_REASON_BYTES_MAX: usize = 128;
/// Bytes of a message of an Event; the API server's own limit.
pub const EVENT_MESSAGE_BYTES_MAX: usize = 1024;

/// JSON pointers of one view: each is looked up in every object that changes.
pub const VIEW_POINTERS_MAX: usize = 32;
/// Different views of applied objects that are held once each; past so many the table begins anew.
pub const VIEWS_SHARED_MAX: usize = 4096;
/// Bytes of a JSON pointer.
pub const POINTER_BYTES_MAX: usize = 1024;
/// Parts of a JSON pointer.
pub const POINTER_TOKENS_MAX: usize = 32;
/// Bytes of a label selector.
pub const SELECTOR_BYTES_MAX: usize = 4096;
/// Requirements of a label selector.
pub const SELECTOR_REQUIREMENTS_MAX: usize = 64;
/// Field matches of one list query.
pub const FIELD_MATCHES_MAX: usize = 8;
/// Bytes of a value that a field is matched against: the index keeps it.
pub const FIELD_VALUE_BYTES_MAX: usize = 1024;
/// Bytes of the arguments of a provider's question or operation.
pub const ARGUMENTS_BYTES_MAX: usize = 262_144;
/// Hashes of views kept with an object; others are computed anew.
pub const VIEW_HASHES_PER_OBJECT_MAX: usize = 16;

/// Controllers of a plugin.
pub const CONTROLLERS_MAX: usize = 64;
/// Permissions of a plugin, and names in one of them.
pub const PERMISSIONS_MAX: usize = 256;
/// CustomResourceDefinitions of a plugin.
pub const CRDS_MAX: usize = 64;
/// Bytes of a name or a sentence in a manifest.
pub const MANIFEST_TEXT_BYTES_MAX: usize = 1024;
/// The shortest `resync`: below it a controller would do nothing else.
pub const RESYNC_MIN: Duration = Duration::from_secs(1);
/// The longest `resync` and `requeue-after` taken: a year.
pub const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The first back-off after a failure.
pub const BACK_OFF_MIN: Duration = Duration::from_millis(5);
/// The longest back-off; a failure that lasts is tried this often.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// The longest `retry-after` honoured: a server in trouble may say an hour, a broken one says a century.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// Passes of one key in quick succession before its breaker opens.
pub const BREAKER_BURST: u32 = 32;
/// After this long a key may run once more.
pub const BREAKER_REFILL: Duration = Duration::from_secs(2);
/// How long a key that thrashes stands still.
pub const BREAKER_COOL_DOWN: Duration = Duration::from_secs(30);

/// Pops in a row from one priority while a lower one waits, before the lower one gets a turn.
pub const POPS_BEFORE_LOWER_PRIORITY: u32 = 64;
/// Answers of the API server remembered, to see that a normalised value is ours.
pub const REMEMBERED_APPLIES_MAX: usize = 65_536;

/// The limits of one pass, as the engine runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls in one pass.
    pub rounds_max: u32,
    /// Queries that one pass may put.
    pub queries_max: usize,
    /// Actions of one pass.
    pub actions_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rounds_max: ROUNDS_PER_PASS_MAX,
            queries_max: QUERIES_PER_PASS_MAX,
            actions_max: ACTIONS_PER_PASS_MAX,
        }
    }
}
