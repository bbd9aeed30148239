//! What follows from how a look at a key ended: what is remembered, what it depends on, when it runs again.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Need;
use evenkeel_core::contract::{FailedPass, Failure, FailureKind};
use evenkeel_core::fingerprint::mix;
use evenkeel_core::query::Prepared;
use evenkeel_core::queue::Priority;
use evenkeel_core::record::{PassRecord, Trigger};
use evenkeel_core::retry::{self, Retry};

use crate::answers::widened;
use crate::doubt::Doubt;
use crate::keys::{Basis, Entry, Key, Memo, Wait};
use crate::limits::{RESYNC_MIN, STALE_RUNS_MAX};
use crate::observe::{Gist, LookReport};
use crate::shared::Shared;
use crate::state::{State, Taken};
use crate::worker::{Close, Concluded, Counted, Ended, Failed, Waiting};

/// Notes how a look ended, and lets go of the key. Tells whether its worker is noted as at rest, too.
pub(crate) fn settle(shared: &Arc<Shared>, taken: &Taken, ended: Ended, close: Close) -> bool {
    let Close { record, counted, primary_gone } = close;
    let now = shared.now();
    let need = match &ended {
        Ended::Waiting(Waiting { need, queries: _ }) => Some(need.clone()),
        _ => None,
    };
    let gist = Gist::of(&ended, |failed| {
        matches!(retry_of(shared, taken, failed), Retry::BackOff(_) | Retry::AtOnce)
    });
    // Most looks have nothing to tell and nothing to wait for: all of them is noted under one lock.
    let is_quiet = record.is_none() && need.is_none();
    if is_quiet {
        observe(shared, taken, &gist, now, None);
    }
    let mut state = shared.state();
    let mut settling = Settling { shared, state: &mut state, taken, primary_gone, now };
    settling.count(&ended, counted);
    settling.note(ended);
    state.queue.done(&taken.key, now);
    state.at_work.remove(&taken.key);
    if is_quiet {
        state.rests(&taken.plugin);
        shared.release(state);
        return true;
    }
    drop(state);
    observe(shared, taken, &gist, now, record.as_ref());
    if let Some(record) = record {
        shared.journal.append(record);
    }
    if let Some(need) = need {
        parked(shared, taken, &need);
    }
    shared.wake();
    false
}

/// Tells whoever counts.
fn observe(shared: &Shared, taken: &Taken, gist: &Gist, now: Duration, record: Option<&PassRecord>) {
    let Some(observer) = &shared.attached.observer else { return };
    let Gist { outcome, fault, retries } = gist;
    observer.looked(&LookReport {
        plugin: taken.loaded.name(),
        controller: &taken.plan().spec.name,
        outcome: *outcome,
        fault: fault.as_ref(),
        retries: *retries,
        queued: taken.queued,
        worked: now.saturating_sub(taken.since),
        record,
    });
}

/// Makes sure that somebody tells when what a key waits for is there.
fn parked(shared: &Shared, taken: &Taken, need: &Need) {
    let waits = |state: &State| {
        matches!(state.keys.get(taken.key).map(|entry| &entry.wait), Some(Some(Wait::Sync(_))))
    };
    if !waits(&shared.state()) {
        return;
    }
    let watch = widened(&taken.loaded.grant, need);
    // The watch may have been given up between the look and the parking, as one that no key needed.
    shared.cluster.want(&watch.gvk, watch.scope.clone(), watch.depth);
    shared.state().wait_along(taken.key, watch.clone(), shared.now());
    // Or it may have come into step: nobody would tell again. That a kind is served again will be told.
    if shared.cluster.is_in_step(&watch.gvk, &watch.scope, watch.depth) {
        shared.state().in_step(&watch.gvk, &watch.scope);
    } else if shared.cluster.is_in_step(&need.gvk, &need.scope, need.depth) {
        let mut state = shared.state();
        if waits(&state) {
            state.unpark(taken.key);
            state.enqueue(taken.key, taken.trigger.clone(), Priority::Change);
        }
    }
}

/// What follows from a failure of this look.
fn retry_of(shared: &Shared, taken: &Taken, failed: &Failed) -> Retry {
    let told = taken.failure.is_some();
    let failures = taken.failures.saturating_add(1);
    let seed = shared.seed ^ taken.key.serial();
    match retry::after(&failed.failure, failures, seed) {
        // A plugin that was not told yet may want to say so in a status.
        Retry::WhenInputChanges | Retry::WhenGrantChanges if failed.action.is_some() && !told => {
            Retry::AtOnce
        }
        // Not our grant was in the way, but the API server: roles and quotas change, and nobody tells us.
        Retry::WhenGrantChanges if failed.action.is_some() && !failed.denied => retry::again(failures, seed),
        retry => retry,
    }
}

/// When a failed look is tried again, for the journal.
pub(crate) fn retry_in_words(shared: &Shared, taken: &Taken, failed: &Failed) -> String {
    match retry_of(shared, taken, failed) {
        Retry::BackOff(wait) => format!("in {} ms", wait.as_millis()),
        Retry::AtOnce => "at once".to_owned(),
        Retry::WhenInputChanges => "when its input changes".to_owned(),
        Retry::WhenGrantChanges => "when its grant changes".to_owned(),
    }
}

struct Settling<'a> {
    shared: &'a Arc<Shared>,
    state: &'a mut State,
    taken: &'a Taken,
    primary_gone: bool,
    now: Duration,
}

impl Settling<'_> {
    fn key(&self) -> Key {
        self.taken.key
    }

    fn count(&mut self, ended: &Ended, counted: Counted) {
        let Some(counts) = self.state.counts(self.taken.key) else { return };
        counts.calls += counted.calls;
        counts.passes += u64::from(counted.calls > 0);
        counts.sent += counted.sent;
        counts.skipped += counted.skipped;
        counts.elided += u64::from(matches!(ended, Ended::Stands));
        if let Ended::Failed(failed) = ended {
            counts.failures += 1;
            counts.faults += u64::from(failed.fault.is_some());
        }
    }

    fn note(&mut self, ended: Ended) {
        if counts_as_answer(&ended)
            && let Some(slot) = self.state.slot_of(self.key())
        {
            slot.health.answered(self.taken.key);
        }
        let looked = matches!(ended, Ended::Stands | Ended::StillRejected | Ended::Concluded(_));
        if !looked {
            // What was to be looked at has yet to be.
            let outside = self.taken.look_outside;
            self.entry(|entry| {
                entry.look_outside |= outside;
                entry.doubt = Doubt::Everything;
            });
        }
        match ended {
            Ended::NotOurs => self.state.forget(self.key()),
            Ended::Paused => self.entry(|entry| entry.wait = Some(Wait::Paused)),
            Ended::Waiting(waiting) => self.waiting(waiting),
            Ended::Slowed => {
                if let Some(until) = self.state.keys.get(self.key()).and_then(|entry| entry.slowed_until) {
                    let trigger = self.taken.trigger.clone();
                    self.state.enqueue_at(self.key(), trigger, Priority::Resync, until);
                }
            }
            Ended::Stale { queries } => self.stale(queries),
            Ended::Stands => self.stands(),
            Ended::StillRejected => self.timers(),
            Ended::Concluded(concluded) => self.concluded(*concluded),
            Ended::Failed(failed) => self.failed(*failed),
        }
        if looked && self.primary_gone {
            self.gone();
        }
    }

    fn entry(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.state.keys.get_mut(self.taken.key) {
            change(entry);
        }
    }

    // ---- ends ----------------------------------------------------------------------------------------------------

    fn waiting(&mut self, waiting: Waiting) {
        if let Some(queries) = waiting.queries {
            // What was answered in advance is among them, and may be asked no more.
            self.learn(queries, !self.taken.learned.is_empty(), Vec::new());
            self.entry(|entry| entry.memo = None);
        }
        self.state.park(self.key(), waiting.need);
    }

    fn stale(&mut self, queries: Vec<Arc<Prepared>>) {
        if self.taken.stale_runs >= STALE_RUNS_MAX {
            let message = "what the pass rests on changes faster than it can act on it";
            let failure = Failure::new(FailureKind::Conflict, message);
            return self.failed(Failed {
                failure,
                action: None,
                queries,
                basis: None,
                fault: None,
                denied: false,
            });
        }
        self.learn(queries, true, Vec::new());
        self.entry(|entry| {
            entry.memo = None;
            entry.stale_runs += 1;
        });
        self.state.enqueue(self.key(), self.taken.trigger.clone(), Priority::Change);
    }

    fn stands(&mut self) {
        let now = self.now;
        let requeue_due = self.taken.requeue_due;
        self.entry(|entry| {
            entry.stale_runs = 0;
            if requeue_due {
                entry.requeue_at =
                    entry.memo.as_ref().and_then(|memo| memo.requeue_after).map(|after| now + after);
            }
        });
        self.timers();
    }

    fn concluded(&mut self, concluded: Concluded) {
        let Concluded {
            basis,
            queries,
            padded,
            extras,
            kept,
            made,
            prune,
            requeue_after,
            timely,
            told,
            cured,
        } = concluded;
        self.learn(queries, padded, extras);
        let requeue_after = requeue_after.map(retry::requeue);
        let now = self.now;
        // Cured, it is to be seen what the plugin says without the failure.
        let again = told && cured;
        let memo = Memo { basis, kept, prune, made, requeue_after, timely, told };
        self.entry(|entry| {
            entry.memo = (!again).then(|| Arc::new(memo));
            entry.requeue_at = requeue_after.map(|after| now + after);
            entry.failure = None;
            entry.rejected = None;
            entry.stale_runs = 0;
            if !again {
                entry.failures = 0;
            }
        });
        if again {
            self.state.enqueue(self.key(), self.taken.trigger.clone(), Priority::Retry);
        }
        self.timers();
    }

    fn failed(&mut self, failed: Failed) {
        let retry = retry_of(self.shared, self.taken, &failed);
        let Failed { failure, action, queries, basis, fault, denied } = failed;
        self.learn(queries, true, Vec::new());
        if denied {
            self.state.note_denied(self.key(), failure.message.clone());
        }
        let count = self.taken.failures.saturating_add(1);
        self.entry(|entry| {
            entry.failures = count;
            entry.memo = None;
            entry.requeue_at = None;
            entry.stale_runs = 0;
            entry.rejected = None;
            entry.failure = Some(Arc::new(FailedPass { failure: failure.clone(), action, count }));
        });
        match retry {
            Retry::BackOff(wait) => {
                self.state.enqueue_at(self.key(), Trigger::Retry, Priority::Retry, self.now + wait);
            }
            Retry::AtOnce => self.state.enqueue(self.key(), Trigger::Retry, Priority::Retry),
            Retry::WhenInputChanges => self.reject(basis, Wait::Input),
            Retry::WhenGrantChanges => self.reject(basis, Wait::Grant),
        }
        self.timers();
        if fault.is_some_and(|fault| fault.is_guests_fault()) {
            self.faulted(&failure);
        }
    }

    fn reject(&mut self, basis: Option<Basis>, wait: Wait) {
        self.entry(|entry| {
            entry.rejected = basis;
            entry.wait = Some(wait);
        });
    }

    /// The plugin did not survive the call: is the version bad?
    fn faulted(&mut self, failure: &Failure) {
        let key = self.key();
        let Some(slot) = self.state.slot_of(key) else { return };
        if !Arc::ptr_eq(&slot.loaded, &self.taken.loaded) {
            return;
        }
        if let Some(keys) = slot.health.faulted(key) {
            let reason = format!("{keys} objects, as in {}: {}", self.taken.object, failure.message);
            self.state.condemn(self.taken.loaded.name(), &reason);
        }
    }

    // ---- what follows --------------------------------------------------------------------------------------------

    /// Remembers the queries for the next pass, and wakes the key when their answers change. `extras` are watched
    /// too, but not answered.
    fn learn(&mut self, queries: Vec<Arc<Prepared>>, padded: bool, extras: Vec<Arc<Prepared>>) {
        let grew = queries.len() > self.taken.learned.len();
        self.entry(|entry| {
            entry.padded_for = match (padded, entry.padded_for) {
                (false, _) => None,
                (true, Some(passes)) => Some(passes.saturating_add(1)),
                (true, None) => grew.then_some(1),
            };
            entry.learned = queries.clone().into();
        });
        self.state.depend(self.taken, queries, extras);
    }

    /// When the key runs again though nothing changes.
    fn timers(&mut self) {
        let now = self.now;
        let resync = self.taken.plan().spec.resync.map(|every| Duration::from_millis(every).max(RESYNC_MIN));
        let resync = resync.filter(|_| !self.primary_gone);
        let steps =
            self.state.counts(self.key()).map_or(0, |counts| counts.elided.wrapping_add(counts.passes));
        let seed = self.shared.seed ^ self.key().serial();
        self.entry(|entry| entry.resync_at = resync.map(|every| now + jittered(every, mix(seed, steps))));
        let Some(entry) = self.state.keys.get(self.key()) else { return };
        // A key that backs off is not to be run sooner by a sweep.
        let backs_off = entry.failure.is_some() && entry.rejected.is_none();
        let (requeue_at, resync_at) = (entry.requeue_at, entry.resync_at.filter(|_| !backs_off));
        if let Some(at) = requeue_at {
            self.state.enqueue_at(self.key(), Trigger::Requeue, Priority::Retry, at);
        }
        if let Some(at) = resync_at {
            self.state.enqueue_at(self.key(), Trigger::Resync, Priority::Resync, at);
        }
    }

    /// The primary is gone, and a pass has seen so: the key is kept among the last few of those.
    fn gone(&mut self) {
        self.state.keys.note_seen(self.key());
        let was = self.state.keys.get(self.key()).is_none_or(|entry| entry.gone);
        if was {
            return;
        }
        self.entry(|entry| entry.gone = true);
        if let Some(oldest) = self.state.keys.note_gone(self.key()) {
            self.state.forget(oldest);
        }
    }
}

/// Up to a tenth earlier, so that what started together does not stay together.
fn jittered(every: Duration, chance: u64) -> Duration {
    let tenth = every / 10;
    let share = u32::try_from(chance % 1000).unwrap_or(0);
    every.saturating_sub(tenth.saturating_mul(share) / 1000)
}

/// Whether the plugin survived being called, or was not called at all because it had concluded before.
fn counts_as_answer(ended: &Ended) -> bool {
    match ended {
        Ended::Concluded(_) | Ended::Stands => true,
        Ended::Failed(failed) => failed.fault.is_none(),
        Ended::NotOurs
        | Ended::Paused
        | Ended::Waiting(_)
        | Ended::Slowed
        | Ended::Stale { .. }
        | Ended::StillRejected => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resync_comes_up_to_a_tenth_early_and_never_late() {
        let every = Duration::from_secs(100);
        assert_eq!(jittered(every, 0), every);
        assert_eq!(jittered(every, 999), Duration::from_millis(90_010));
    }
}
