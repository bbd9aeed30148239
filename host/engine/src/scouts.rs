//! The first keys of a controller find out which watches its passes need; those that never came to a conclusion wait along.
//!
//! After a start there may be thousands of keys, and none of their watches. Each would call its plugin to hear what it
//! needs next, and wait for that watch as the one before it does. So while a pass waits for a watch that others need as
//! well, keys of its controller that have no conclusion yet wait for it too, and the plugin is not called for them. They wait
//! for a moment only: it may be that they do not need it at all.

use std::time::Duration;

use evenkeel_cluster::{Need, Scope};
use evenkeel_core::contract::Gvk;
use evenkeel_core::queue::Priority;
use evenkeel_core::record::Trigger;

use crate::keys::{Entry, Key, Wait};
use crate::limits::HELD_UP_MAX;
use crate::state::{Queued, State};

/// A watch that passes of a controller wait for.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// The key that was the first to wait for it.
    first: Key,
    /// Until when others wait along; none while it may be that nobody else needs it.
    until: Option<Duration>,
}

impl State {
    /// A pass waits for a watch. Once a watch has held others up, it does so no more until it is in step.
    pub(crate) fn wait_along(&mut self, key: Key, need: Need, now: Duration) {
        let Some(slot) = self.controllers.get_mut(&key.controller) else { return };
        let is_of_many = is_of_many(&need.scope);
        let awaited = slot.awaited.entry(need).or_insert(Awaited { first: key, until: None });
        // What two of them wait for is no matter of one of them.
        if awaited.until.is_none() && (is_of_many || awaited.first != key) {
            awaited.until = Some(now + HELD_UP_MAX);
        }
    }

    /// Has a key wait along, if it has no conclusion yet and a pass of its controller waits.
    pub(crate) fn is_held_up(&mut self, key: Key, queued: &Queued, now: Duration) -> bool {
        let Some(slot) = self.controllers.get(&key.controller) else { return false };
        let holds = |(need, awaited): (&Need, &Awaited)| {
            let until = awaited.until.filter(|until| now < *until)?;
            Some((need.clone(), until))
        };
        let Some((need, until)) = slot.awaited.iter().find_map(holds) else { return false };
        if !self.keys.get(key).is_some_and(is_unconcluded) {
            return false;
        }
        self.queue.done(&key, now);
        self.park(key, Box::new(need));
        // Should the watch take longer, it finds out for itself.
        self.queue.add_at(key, queued.clone(), Priority::Resync, until);
        true
    }

    /// A part of a kind is in step: whoever waits for it runs.
    pub(crate) fn in_step(&mut self, gvk: &Gvk, scope: &Scope) {
        self.await_no_more(gvk, |need| scope.covers(&need.scope));
        for key in self.waiting_in(gvk, scope) {
            self.unpark(key);
            self.enqueue(key, Trigger::Synced { gvk: gvk.clone() }, Priority::Change);
        }
    }

    /// Nobody is held up for these parts of a kind any more.
    pub(crate) fn await_no_more(&mut self, gvk: &Gvk, which: impl Fn(&Need) -> bool) {
        for slot in self.controllers.values_mut() {
            slot.awaited.retain(|need, _| need.gvk != *gvk || !which(need));
        }
    }
}

/// Whether others need such a watch as well, whoever waits for it.
fn is_of_many(scope: &Scope) -> bool {
    match scope {
        Scope::All => true,
        Scope::Named(names) => names.namespace.is_none(),
        Scope::Namespace(_) | Scope::Object(_) => false,
    }
}

/// Whether none of its passes came to an end that counts.
fn is_unconcluded(entry: &Entry) -> bool {
    let waits = matches!(entry.wait, None | Some(Wait::Sync(_)));
    waits && entry.memo.is_none() && entry.failure.is_none()
}
