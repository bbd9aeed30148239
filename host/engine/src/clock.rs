//! Where the host takes the time from: a pass that asks for it gets this clock's, so that a test may stand it still.

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the wall time.
///
/// The host measures intervals with tokio's clock alone; this one is what plugins and the journal see.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that starts at a given time and goes as tokio's does: paused, it moves when timers fire.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    base: Timestamp,
    start: Instant,
}

impl VirtualClock {
    /// A clock that shows `base` now. Call it inside the tokio runtime whose time it follows.
    pub fn starting_at(base: Timestamp) -> Self {
        Self { base, start: Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let elapsed =
            jiff::SignedDuration::try_from(self.start.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
        self.base.saturating_add(elapsed).unwrap_or(self.base)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_moves_only_when_a_timer_fires() {
        let clock = VirtualClock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
    }
}
