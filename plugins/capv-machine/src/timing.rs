//! Times that the specification fixes, each with its reason, and arithmetic on an object's times.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The first look at a task after it was started.
pub const TASK_POLL_MIN: Duration = Duration::from_secs(2);
/// A task that is not to be found is given this long to appear: vCenter may be slow to list a fresh one.
pub const TASK_FRESH: Duration = Duration::from_secs(30);
/// Before a task is tried again that another task was in the way of.
pub const BUSY: Duration = Duration::from_secs(10);
/// Before something is looked at again that a person has to put right.
pub const PERSON: Duration = Duration::from_secs(60);
/// Before a VM is looked at again that cannot be read, or whose guest is shutting down.
pub const SLOW: Duration = Duration::from_secs(20);
/// How long a name that is taken may be by a clone of ours whose task was lost.
pub const LOST_CLONE: Duration = Duration::from_secs(600);
/// A clone that nobody saw any more of after this long is not coming: the longest heard of took 48 minutes.
pub const CLONE_MAX: Duration = Duration::from_secs(3600);
/// How long the guest of a `trySoft` machine gets to shut down.
pub const GUEST_SHUTDOWN_SECONDS: u32 = 300;
/// The first wait after vCenter could not be asked; the host doubles it.
pub const BACK_OFF_MIN: Duration = Duration::from_secs(1);

/// A time of an object; one that cannot be read counts as none.
pub fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// How long ago it was; zero for what is still to come.
pub fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// How long it is until then, from now; none for what is past.
pub fn until(then: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(then.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// So long after.
pub fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_make_no_sense_do_no_harm() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(time(Some("soon")), None);
        assert_eq!(since(after(now, SLOW), now), Duration::ZERO);
        assert_eq!(until(now, now), None);
        assert_eq!(after(now, Duration::MAX), Timestamp::MAX);
    }
}
