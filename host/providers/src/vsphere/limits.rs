//! What the host asks of one vCenter at most.

use std::time::Duration;

/// Objects of one property read: vCenter answers pages of about this size anyway.
pub const OBJECTS_PER_READ_MAX: usize = 200;
/// Pages of one property read; a server that hands out tokens for ever is cut off.
pub const PAGES_PER_READ_MAX: usize = 64;
/// Operations remembered, so that none is started twice; the oldest finished ones go first.
pub const OPERATIONS_REMEMBERED_MAX: usize = 16_384;
/// Objects watched in one vCenter; past it passes look again by themselves.
pub const WATCHED_MAX: usize = 16_384;
/// Objects in the watched view that nobody needs any more before they leave it by a call of their own.
pub const IDLE_OBJECTS_MAX: usize = 256;
/// How long an answer waits until changes of what it rests on will be told.
pub const VIEW_WAIT: Duration = Duration::from_secs(10);
/// Bytes of one answer: a thousand machines' properties take a tenth of it.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of one message that goes into a status or a log.
pub const MESSAGE_BYTES_MAX: usize = 512;
/// Levels of nested elements or objects in an answer; the schema needs about ten.
pub const DEPTH_MAX: usize = 64;
/// A login that was refused is not tried again with the same credentials for this long: accounts get locked.
pub const LOGIN_PAUSE: Duration = Duration::from_secs(30);
/// How long a path that was found is taken to lead there still.
pub const PATH_AGE_MAX: Duration = Duration::from_secs(10);
/// Idle time after which vCenter is asked whether a wait still stands.
pub const WAIT: Duration = Duration::from_secs(60);
/// The pause after a wait that failed, doubling up to the second; what is watched is read after each.
pub const WAIT_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Limits of the calls to one vCenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls under way at once.
    pub concurrent: usize,
    /// Calls that wait for their turn; more are refused at once.
    pub waiting: usize,
    /// Calls per second in the long run.
    pub per_second: u32,
    /// Calls at once after a quiet time.
    pub burst: u32,
    /// How long one call may take.
    pub deadline: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            // vCenter itself runs about this many inventory operations of one user well.
            concurrent: 8,
            waiting: 4096,
            per_second: 200,
            burst: 400,
            deadline: Duration::from_secs(30),
        }
    }
}

impl CallLimits {
    /// Without a rate: for a far end in the same process.
    pub fn unpaced() -> Self {
        Self { per_second: u32::MAX, burst: u32::MAX, ..Self::default() }
    }
}
