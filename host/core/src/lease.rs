//! Leader election over a Lease: who may act, decided without a clock and without IO.
//!
//! The protocol is the one of client-go, so that a Lease shows what people know. A candidate never compares its clock
//! with another's: it takes the Lease once it has seen it unchanged for as long as its holder claimed it, measured by
//! its own clock from the moment it saw the last change. The holder counts from before it sent its last renewal, and
//! for a shorter time. Between the two lies room for clocks that go unlike, and for a write that is on its way.
//!
//! All times are the time since some start, by one clock that does not jump.

use std::time::Duration;

use crate::fingerprint::mix;

/// How long things take; the usual ones are those of client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long others leave a Lease alone that its holder does not renew.
    pub lease: Duration,
    /// How long after its last renewal the holder acts, at most.
    pub act: Duration,
    /// Between two looks, and between two renewals.
    pub retry: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), act: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// Why timings are of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingsError {
    /// The Lease's duration is written in whole seconds.
    #[error("a lease lasts whole seconds, at least one")]
    Seconds,
    /// Nobody else may take over while the holder still acts.
    #[error("a holder must cease to act at least a fifth of the lease before others may take it")]
    Act,
    /// A renewal that fails must be tried again in time.
    #[error("a renewal must be tried at least twice while the holder acts")]
    Retry,
}

impl Timings {
    /// Whether they leave room for what goes wrong.
    pub fn check(self) -> Result<Self, TimingsError> {
        let Self { lease, act, retry } = self;
        if lease < Duration::from_secs(1) || lease.subsec_nanos() != 0 {
            return Err(TimingsError::Seconds);
        }
        if act > lease * 4 / 5 {
            return Err(TimingsError::Act);
        }
        if retry.is_zero() || retry * 2 > act { Err(TimingsError::Retry) } else { Ok(self) }
    }

    /// How long after the last renewal a write that was begun in time may go on: half of the room that is left.
    fn finish(self) -> Duration {
        self.act + self.lease.saturating_sub(self.act) / 2
    }
}

/// A Lease as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its resourceVersion.
    pub version: String,
    /// Who holds it; "" for nobody.
    pub holder: String,
    /// For how long its holder claims it; zero where it does not say.
    pub duration: Duration,
    /// Since when it is this holder's, as its holder's clock has it: handed on, never read.
    pub acquired: String,
    /// When it was renewed, as its holder's clock has it: compared, never read.
    pub renewed: String,
    /// How often it changed hands.
    pub transitions: u32,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before this time.
    Rest {
        /// The time.
        until: Duration,
    },
    /// Read the Lease, and tell by [`Elector::looked`] or [`Elector::missed`].
    Look,
    /// Write the Lease, and tell by [`Elector::claimed`].
    Claim(Claim),
}

/// A Lease to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The revision that it replaces; none to create it. The write must fail where there is another one.
    pub version: Option<String>,
    /// Who holds it then; "" for nobody.
    pub holder: String,
    /// For how long.
    pub duration: Duration,
    /// Since when it is this holder's; none for now.
    pub acquired: Option<String>,
    /// How often it changed hands.
    pub transitions: u32,
}

/// What came of a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It was written.
    Yes(Seen),
    /// Somebody else had written it, or deleted it: nothing was done.
    Beaten,
    /// No answer came, so that it may have been written.
    Unknown,
}

/// The time for which somebody may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// A write may begin before this.
    pub begin_before: Duration,
    /// It must have ended by this, or be given up.
    pub end_by: Duration,
}

/// Whether a candidate holds the Lease without acting, because somebody deleted the one before.
///
/// It is made at once all the same, so that whoever deletes it again is noticed: to wait for as long as there is none
/// would miss one that was made and deleted between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probation {
    None,
    FromWhenItIsMade,
    Until(Duration),
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    timings: Timings,
    seed: u64,
    /// The Lease as last seen, and since when it has been so.
    seen: Option<(Seen, Duration)>,
    probation: Probation,
    /// When the last renewal was sent that is known to be in place.
    renewed: Option<Duration>,
    next: Next,
    due: Duration,
    looks: u64,
}

impl Elector {
    /// A candidate that knows nothing yet. `me` is not used by any other one, nor by an earlier life of this one;
    /// `seed` spreads candidates that start together.
    pub fn new(me: &str, timings: Timings, seed: u64) -> Self {
        Self {
            me: me.to_owned(),
            timings,
            seed,
            seen: None,
            probation: Probation::None,
            renewed: None,
            next: Next::Look,
            due: Duration::ZERO,
            looks: 0,
        }
    }

    /// What to do now.
    pub fn next(&self, now: Duration) -> Next {
        if now < self.due { Next::Rest { until: self.due } } else { self.next.clone() }
    }

    /// For how long it may act; none where it may not.
    pub fn term(&self, now: Duration) -> Option<Term> {
        let sent = self.renewed?;
        match self.probation {
            Probation::None => {}
            Probation::FromWhenItIsMade => return None,
            Probation::Until(end) if now < end => return None,
            Probation::Until(_) => {}
        }
        let term = Term { begin_before: sent + self.timings.act, end_by: sent + self.timings.finish() };
        (now < term.begin_before).then_some(term)
    }

    /// Whether what it began while it might act may still end: nobody else was seen to hold the Lease since.
    pub fn may_finish(&self) -> bool {
        self.renewed.is_some()
    }

    /// Whether the last renewal that is known to be in place was sent at this time.
    pub fn was_renewed_at(&self, sent: Duration) -> bool {
        self.renewed == Some(sent)
    }

    /// Who holds the Lease as far as is known; none where nobody does.
    pub fn holder(&self) -> Option<&str> {
        let (seen, _) = self.seen.as_ref()?;
        (!seen.holder.is_empty()).then_some(seen.holder.as_str())
    }

    /// The Lease was read; none where there is none.
    pub fn looked(&mut self, now: Duration, lease: Option<Seen>) {
        let Some(lease) = lease else { return self.looked_in_vain(now) };
        if lease.holder == self.me {
            self.was_made(now);
        } else {
            self.renewed = None;
            self.probation = Probation::None;
        }
        let since = match &self.seen {
            Some((before, since)) if *before == lease => *since,
            Some(_) | None => now,
        };
        let claimed_for = if lease.duration.is_zero() { self.timings.lease } else { lease.duration };
        let free_at = since.saturating_add(claimed_for);
        if lease.holder == self.me {
            // Ours: written by us, though the answer may have been lost.
            self.go(now, Next::Claim(self.renewal(&lease)));
        } else if lease.holder.is_empty() || now >= free_at {
            let transitions = lease.transitions.saturating_add(1);
            self.go(now, Next::Claim(self.claim(Some(&lease.version), transitions)));
        } else {
            // No later than it becomes free, so that a fail-over does not wait for one more round.
            let again = self.again(now).min(free_at);
            self.go(again, Next::Look);
        }
        self.seen = Some((lease, since));
    }

    /// There is no Lease. Where there was one, whoever holds it may not know that it is gone, and still act.
    fn looked_in_vain(&mut self, now: Duration) {
        let mine = self.term(now).is_some();
        self.renewed = None;
        self.probation =
            if mine || self.seen.is_none() { Probation::None } else { Probation::FromWhenItIsMade };
        let transitions = self.seen.as_ref().map_or(0, |(seen, _)| seen.transitions.saturating_add(1));
        self.go(now, Next::Claim(self.claim(None, transitions)));
    }

    /// The Lease could not be read.
    pub fn missed(&mut self, now: Duration) {
        self.go(self.again(now), Next::Look);
    }

    /// The Lease was to be written, and the request was sent no earlier than `sent`.
    pub fn claimed(&mut self, sent: Duration, now: Duration, came: Claimed) {
        match came {
            Claimed::Yes(lease) => {
                self.go(sent + self.timings.retry, Next::Claim(self.renewal(&lease)));
                self.renewed = Some(sent);
                self.was_made(now);
                self.seen = Some((lease, now));
            }
            // A moment later, so that two do not race at full speed.
            Claimed::Beaten => self.go(now + self.timings.retry / 8, Next::Look),
            Claimed::Unknown => self.go(self.again(now), Next::Look),
        }
    }

    /// Acts no more, and tells how to let others know at once; none where there is nothing to hand over. Whoever calls
    /// this has ceased to write.
    pub fn resign(&mut self) -> Option<Claim> {
        self.renewed.take()?;
        let (seen, _) = self.seen.as_ref()?;
        (seen.holder == self.me).then(|| Claim {
            holder: String::new(),
            duration: Duration::from_secs(1),
            ..self.renewal(seen)
        })
    }

    /// The Lease is there, and it is ours.
    fn was_made(&mut self, now: Duration) {
        if self.probation == Probation::FromWhenItIsMade {
            self.probation = Probation::Until(now + self.timings.lease);
        }
    }

    fn renewal(&self, lease: &Seen) -> Claim {
        Claim {
            acquired: Some(lease.acquired.clone()),
            ..self.claim(Some(&lease.version), lease.transitions)
        }
    }

    fn claim(&self, version: Option<&str>, transitions: u32) -> Claim {
        Claim {
            version: version.map(str::to_owned),
            holder: self.me.clone(),
            duration: self.timings.lease,
            acquired: None,
            transitions,
        }
    }

    fn go(&mut self, due: Duration, next: Next) {
        self.due = due;
        self.next = next;
        self.looks = self.looks.wrapping_add(1);
    }

    /// When to look again: up to a fifth later than the pause, so that candidates do not march in step.
    fn again(&self, now: Duration) -> Duration {
        let share = u32::try_from(mix(self.seed, self.looks) % 1000).unwrap_or(0);
        now + self.timings.retry + self.timings.retry.saturating_mul(share) / 5000
    }
}

#[cfg(test)]
mod tests;
