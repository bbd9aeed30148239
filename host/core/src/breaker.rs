//! Slows down a key that keeps waking: a bucket of passes that fills up slowly, and a pause once it is empty.

use std::time::Duration;

use crate::limits::{BREAKER_BURST, BREAKER_COOL_DOWN, BREAKER_REFILL};

/// The breaker of one key. Time is what the caller says it is, since some start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breaker {
    /// Passes taken out of the full bucket.
    spent: u32,
    /// When the bucket was last filled up.
    filled_at: Duration,
    /// Closed again at this time.
    open_until: Option<Duration>,
}

/// Whether a key may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    Run,
    /// It wakes too often: it may again at this time.
    SlowedUntil(Duration),
}

impl Breaker {
    /// Takes a pass out of the bucket, or says until when there is none.
    pub fn turn(&mut self, now: Duration) -> Turn {
        if let Some(until) = self.open_until {
            if now < until {
                return Turn::SlowedUntil(until);
            }
            self.open_until = None;
            // After the pause a few passes show whether the trouble is over; a full bucket would let it run on.
            self.spent = BREAKER_BURST / 2;
            self.filled_at = now;
        }
        self.fill(now);
        if self.spent < BREAKER_BURST {
            self.spent += 1;
            return Turn::Run;
        }
        let until = now + BREAKER_COOL_DOWN;
        self.open_until = Some(until);
        Turn::SlowedUntil(until)
    }

    /// Until when the key stands still, if it does.
    pub fn open_until(&self, now: Duration) -> Option<Duration> {
        self.open_until.filter(|until| now < *until)
    }

    /// Whether the bucket is full: nothing is held against the key.
    pub fn is_at_rest(&self, now: Duration) -> bool {
        let mut filled = *self;
        filled.fill(now);
        filled.spent == 0 && filled.open_until(now).is_none()
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at);
        let drops = u32::try_from(passed.as_nanos() / BREAKER_REFILL.as_nanos()).unwrap_or(u32::MAX);
        if drops > 0 {
            self.spent = self.spent.saturating_sub(drops);
            self.filled_at =
                if self.spent == 0 { now } else { self.filled_at + BREAKER_REFILL.saturating_mul(drops) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(breaker: &mut Breaker, now: Duration) -> u32 {
        (0..).take_while(|_| breaker.turn(now) == Turn::Run).count().try_into().unwrap_or(u32::MAX)
    }

    #[test]
    fn a_burst_passes_and_what_goes_on_is_paused() {
        let mut breaker = Breaker::default();
        let now = Duration::from_secs(100);
        assert_eq!(burst(&mut breaker, now), BREAKER_BURST);
        assert_eq!(breaker.turn(now + Duration::from_secs(1)), Turn::SlowedUntil(now + BREAKER_COOL_DOWN));
        assert_eq!(breaker.turn(now + BREAKER_COOL_DOWN), Turn::Run);
    }

    #[test]
    fn one_that_goes_on_after_the_pause_is_paused_sooner() {
        let mut breaker = Breaker::default();
        burst(&mut breaker, Duration::ZERO);
        assert_eq!(burst(&mut breaker, BREAKER_COOL_DOWN), BREAKER_BURST / 2);
    }

    #[test]
    fn a_key_that_wakes_now_and_then_is_never_paused() {
        let mut breaker = Breaker::default();
        for step in 0..1000 {
            assert_eq!(breaker.turn(BREAKER_REFILL * step), Turn::Run);
        }
        assert!(breaker.is_at_rest(BREAKER_REFILL * 2000));
    }
}
