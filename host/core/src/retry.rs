//! When a failed pass is tried again: follows from the kind of failure alone, never from its text.

use std::time::Duration;

use crate::contract::{Failure, FailureKind};
use crate::fingerprint::mix;
use crate::limits::{BACK_OFF_MAX, BACK_OFF_MIN, RETRY_AFTER_MAX, WAIT_MAX};

/// What becomes of a key whose pass failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After this long.
    BackOff(Duration),
    /// Now, on fresh state.
    AtOnce,
    /// When something changes that the pass rested on.
    WhenInputChanges,
    /// When the grant changes.
    WhenGrantChanges,
}

/// Conflicts in a row that are tried again at once: past this somebody else writes as fast as we do.
const CONFLICTS_AT_ONCE_MAX: u32 = 3;

/// What becomes of a key after `failures` failures in a row, this one included; `seed` spreads keys that fail together.
pub fn after(failure: &Failure, failures: u32, seed: u64) -> Retry {
    match failure.kind {
        FailureKind::Transient | FailureKind::NotFound => Retry::BackOff(wait(failure, failures, seed)),
        FailureKind::Conflict if failures <= CONFLICTS_AT_ONCE_MAX && failure.retry_after.is_none() => {
            Retry::AtOnce
        }
        FailureKind::Conflict => {
            Retry::BackOff(wait(failure, failures.saturating_sub(CONFLICTS_AT_ONCE_MAX), seed))
        }
        FailureKind::Invalid => Retry::WhenInputChanges,
        FailureKind::Denied => Retry::WhenGrantChanges,
    }
}

/// The pause before another try of what somebody else may come to allow, as of a transient failure.
pub fn again(failures: u32, seed: u64) -> Retry {
    Retry::BackOff(back_off(failures, seed))
}

/// `requeue-after` as it is honoured: a plugin chose the number.
pub fn requeue(millis: u64) -> Duration {
    Duration::from_millis(millis).min(WAIT_MAX)
}

fn wait(failure: &Failure, failures: u32, seed: u64) -> Duration {
    let backed_off = back_off(failures, seed);
    let told = failure.retry_after.map(|millis| Duration::from_millis(millis).min(RETRY_AFTER_MAX));
    told.map_or(backed_off, |told| told.max(backed_off))
}

/// Doubles from [`BACK_OFF_MIN`] to [`BACK_OFF_MAX`], less up to a quarter.
fn back_off(failures: u32, seed: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let full = BACK_OFF_MIN.saturating_mul(1 << doublings).min(BACK_OFF_MAX);
    let quarter = full / 4;
    let share = u32::try_from(mix(seed, u64::from(failures)) % 1000).unwrap_or(0);
    (full - quarter.saturating_mul(share) / 1000).max(BACK_OFF_MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failure(kind: FailureKind) -> Failure {
        Failure::new(kind, "it did not work")
    }

    #[test]
    fn a_transient_failure_backs_off_from_5_ms_to_5_minutes() {
        let waits = |failures| match after(&failure(FailureKind::Transient), failures, 7) {
            Retry::BackOff(wait) => wait,
            other => panic!("{other:?}"),
        };
        assert_eq!(waits(1), Duration::from_millis(5));
        assert!(waits(5) > Duration::from_millis(59) && waits(5) <= Duration::from_millis(80));
        assert!(waits(60) > Duration::from_secs(224) && waits(60) <= Duration::from_secs(300));
    }

    #[test]
    fn what_the_server_says_to_wait_is_waited_within_reason() {
        let mut busy = failure(FailureKind::Transient);
        busy.retry_after = Some(1000);
        assert_eq!(after(&busy, 1, 0), Retry::BackOff(Duration::from_secs(1)));
        busy.retry_after = Some(u64::MAX);
        assert_eq!(after(&busy, 1, 0), Retry::BackOff(RETRY_AFTER_MAX));
    }

    #[test]
    fn a_conflict_is_tried_again_at_once_and_then_backs_off() {
        assert_eq!(after(&failure(FailureKind::Conflict), 1, 0), Retry::AtOnce);
        assert!(matches!(after(&failure(FailureKind::Conflict), 4, 0), Retry::BackOff(_)));
    }

    #[test]
    fn what_is_at_fault_waits_for_a_change() {
        assert_eq!(after(&failure(FailureKind::Invalid), 9, 0), Retry::WhenInputChanges);
        assert_eq!(after(&failure(FailureKind::Denied), 9, 0), Retry::WhenGrantChanges);
    }

    #[test]
    fn the_worst_number_of_a_plugin_is_a_year() {
        assert_eq!(requeue(u64::MAX), WAIT_MAX);
        assert_eq!(requeue(0), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn a_back_off_stays_within_its_bounds(failures in any::<u32>(), seed in any::<u64>()) {
            let wait = back_off(failures, seed);
            prop_assert!((BACK_OFF_MIN..=BACK_OFF_MAX).contains(&wait), "{wait:?}");
        }
    }
}
