//! What the cluster side never exceeds, each with its reason.

use std::time::Duration;

/// Objects a list request asks for at once: a page of large objects still fits in a few megabytes.
pub const LIST_PAGE: u32 = 500;

/// The largest answer taken, in bytes; a page of the largest objects that etcd holds stays below it.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The longest line of a watch, in bytes. Etcd holds objects of up to 1.5 MiB; JSON text of one may be longer.
pub const WATCH_LINE_BYTES_MAX: usize = 32 << 20;

/// Changes that wait for the reader of the feed. Past this the watches stop reading, and the API server waits.
pub const FEED_CHANGES_MAX: usize = 1_024;

/// Dead UIDs remembered a kind, so that no late answer revives an object. Far more than can be on their way at once.
pub const GRAVES_MAX: usize = 8_192;

/// Field indexes a kind. A query by a further field looks at every object.
pub const INDEXES_MAX: usize = 16;

/// The longest pause before a watch tries again.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often a kind that is not served is looked for where CustomResourceDefinitions do not tell.
pub const UNSERVED_POLL: Duration = Duration::from_secs(60);

/// How long after it came the document of all kinds is believed: as long as a start takes to ask for its kinds. One that is
/// asked for later is asked for by itself, but for those that Kubernetes itself has.
pub const DISCOVERY_DOCUMENT_HOLDS: Duration = Duration::from_secs(10);

/// Live reads under way at once for one question whether the cache is current.
pub const FRESH_READS_AT_ONCE: usize = 4;

/// Characters of an API server's message that are kept.
pub const MESSAGE_CHARS_MAX: usize = 1_024;

/// Events remembered so that a repeated one is counted and not created anew.
pub const EVENTS_REMEMBERED_MAX: usize = 4_096;

/// Different messages with one reason about one object within [`EVENT_SIMILAR_WITHIN`], past which they are combined.
pub const EVENT_SIMILAR_MAX: usize = 10;

/// How long similar Events count together.
pub const EVENT_SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Events about one object at once; further ones are dropped until [`EVENT_REFILL`] has passed for each.
pub const EVENT_BURST: u32 = 25;

/// One more Event about an object after this long.
pub const EVENT_REFILL: Duration = Duration::from_secs(300);
