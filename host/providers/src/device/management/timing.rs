//! Waits between two tries. Many devices lose one service at once: each waits a little differently, and always the same.

use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::Timings;

/// How far a wait is from the middle at most, in percent.
const SPREAD_PERCENT: u32 = 20;
/// Doublings that count.
const DOUBLINGS_MAX: u32 = 16;

/// The wait after polls that failed.
pub(super) struct Backoff<'t> {
    timings: &'t Timings,
    name: &'t str,
    failed: u32,
}

impl<'t> Backoff<'t> {
    pub(super) fn new(timings: &'t Timings, name: &'t str) -> Self {
        Self { timings, name, failed: 0 }
    }

    /// A poll worked.
    pub(super) fn reset(&mut self) {
        self.failed = 0;
    }

    /// How long to wait now.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = self.timings.backoff.saturating_mul(1 << self.failed.min(DOUBLINGS_MAX));
        let middle = doubled.min(self.timings.backoff_max);
        self.failed = self.failed.saturating_add(1);
        let percent =
            100 - SPREAD_PERCENT + part(&format!("{}/{}", self.name, self.failed), 2 * SPREAD_PERCENT + 1);
        middle.saturating_mul(percent) / 100
    }
}

/// A part of a time that belongs to this name.
pub(super) fn part_of(whole: Duration, name: &str) -> Duration {
    whole.saturating_mul(part(name, 100)) / 100
}

/// A number below `end` that belongs to this text.
fn part(text: &str, end: u32) -> u32 {
    let digest = digest(&SHA256, text.as_bytes());
    let number = digest.as_ref().iter().take(4).fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
    number % end.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_differ_a_little_from_device_to_device() {
        let timings = Timings::default();
        let waits = |name: &str| {
            let mut backoff = Backoff::new(&timings, name);
            (0..8).map(|_| backoff.next().as_secs_f64()).collect::<Vec<f64>>()
        };
        let (one, other) = (waits("one"), waits("other"));
        assert_ne!(one, other);
        for (wait, middle) in one.iter().zip([5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]) {
            assert!((wait / middle - 1.0).abs() <= 0.2001, "{one:?}");
        }
        assert!(part_of(Duration::from_secs(60), "one") < Duration::from_secs(60));
    }
}
