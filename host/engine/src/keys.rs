//! What the host remembers of each object that a controller looks after.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_cluster::Need;
use evenkeel_core::breaker::Breaker;
use evenkeel_core::contract::{Action, FailedPass, Gvk, ObjectRef};
use evenkeel_core::memo::Digest;
use evenkeel_core::object::CachedObject;
use evenkeel_core::query::Prepared;

use crate::doubt::Doubt;
use crate::limits::GONE_KEYS_MAX;

/// A controller of a plugin, for as long as the host lives: a swap keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ControllerId(pub(crate) u32);

impl ControllerId {
    /// Its lane in the queue.
    pub(crate) fn lane(self) -> u64 {
        u64::from(self.0)
    }
}

/// One object of one controller: what is queued, and what at most one pass at a time is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) controller: ControllerId,
    /// Never given out again, so that what is left of a forgotten key means nobody.
    serial: u64,
}

impl Key {
    pub(crate) fn serial(self) -> u64 {
        self.serial
    }
}

/// What is remembered of a key.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The primary's place.
    pub(crate) object: ObjectRef,
    /// The queries of its last pass, to be answered in advance in the next one.
    pub(crate) learned: Arc<[Arc<Prepared>]>,
    /// Passes since the queries were learned without help; none where they hold just what was asked.
    pub(crate) padded_for: Option<u32>,
    /// What its last successful pass concluded.
    pub(crate) memo: Option<Arc<Memo>>,
    /// How its last pass failed, until one succeeds.
    pub(crate) failure: Option<Arc<FailedPass>>,
    /// Of the input that was rejected, so that it is not tried again before it changes.
    pub(crate) rejected: Option<Basis>,
    /// Failures in a row, counted on while passes succeed only because they are told of the one before.
    pub(crate) failures: u32,
    /// Runs in a row that found their evidence stale.
    pub(crate) stale_runs: u32,
    /// The primary as it was before it went.
    pub(crate) last_seen: Option<Arc<CachedObject>>,
    /// Whether the primary is gone and a pass has seen so.
    pub(crate) gone: bool,
    /// What it waits for, if it does.
    pub(crate) wait: Option<Wait>,
    /// When its conclusion wants it run again.
    pub(crate) requeue_at: Option<Duration>,
    /// When its controller wants it run again.
    pub(crate) resync_at: Option<Duration>,
    /// Something else than an object has woken it, so that answers from outside Kubernetes may have changed.
    pub(crate) look_outside: bool,
    /// What has changed since it was looked at.
    pub(crate) doubt: Doubt,
    /// Slows it down where it wakes too often.
    pub(crate) breaker: Breaker,
    /// Until when the breaker holds it back.
    pub(crate) slowed_until: Option<Duration>,
    /// Who woke it lately.
    pub(crate) wakers: Wakers,
}

/// Of everything that a pass rested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Of what the host knows by itself: the primary and what the caches answered.
    pub(crate) near: Digest,
    /// Of all that, and of what providers answered.
    pub(crate) whole: Digest,
}

/// What a successful pass concluded, and from what.
#[derive(Debug)]
pub(crate) struct Memo {
    /// Of everything that it rested on.
    pub(crate) basis: Basis,
    /// The actions that leave something to look after, in order.
    pub(crate) kept: Vec<Kept>,
    /// The kinds that it prunes.
    pub(crate) prune: Vec<Gvk>,
    /// What it made, where it prunes.
    pub(crate) made: BTreeSet<ObjectRef>,
    /// How long after it the key runs again.
    pub(crate) requeue_after: Option<Duration>,
    /// Whether it asked for the time, so that a requeue may be answered otherwise.
    pub(crate) timely: bool,
    /// Whether it was told of a failure, so that a requeue or a resync may be answered otherwise.
    pub(crate) told: bool,
}

/// An action that leaves something to look after.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) action: Action,
    /// The object that it is about.
    pub(crate) object: ObjectRef,
    /// The revision of that object which was found to be as applied: it is not compared twice.
    pub(crate) sound_at: Mutex<Option<String>>,
}

impl Kept {
    pub(crate) fn new(action: Action, object: ObjectRef, sound_at: Option<String>) -> Self {
        Self { action, object, sound_at: Mutex::new(sound_at) }
    }
}

/// What a key waits for before it can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A watch is not in step yet.
    Sync(Box<Need>),
    /// Its input is at fault.
    Input,
    /// Its grant does not allow what it wants.
    Grant,
    /// Somebody paused it.
    Paused,
}

/// Who woke a key how often since its breaker was last at rest: a few candidates, so that it is bounded.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Vec<(ObjectRef, u32)>);

const WAKERS_MAX: usize = 4;

impl Wakers {
    pub(crate) fn note(&mut self, waker: &ObjectRef) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| known == waker) {
            *count += 1;
        } else if self.0.len() < WAKERS_MAX {
            self.0.push((waker.clone(), 1));
        } else {
            // The most frequent ones survive this, whatever the order.
            self.0.iter_mut().for_each(|(_, count)| *count -= 1);
            self.0.retain(|(_, count)| *count > 0);
        }
    }

    pub(crate) fn most(&self) -> Option<&ObjectRef> {
        self.0.iter().max_by_key(|(_, count)| *count).map(|(waker, _)| waker)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Every key, found by its object or its number.
#[derive(Default)]
pub(crate) struct Keys {
    by_object: HashMap<ControllerId, HashMap<ObjectRef, Key>>,
    entries: HashMap<Key, Entry>,
    given: u64,
    /// Keys that were asked for by name, of which no object was seen and that no pass has looked at yet.
    unseen: HashMap<ControllerId, HashSet<Key>>,
    /// Keys whose primary is gone, oldest first; some may have come back since.
    gone: VecDeque<Key>,
}

impl Keys {
    pub(crate) fn find(&self, controller: ControllerId, object: &ObjectRef) -> Option<Key> {
        self.by_object.get(&controller)?.get(object).copied()
    }

    /// The key of an object, made where it is new; tells whether it is.
    pub(crate) fn intern(&mut self, controller: ControllerId, object: &ObjectRef) -> (Key, bool) {
        if let Some(key) = self.find(controller, object) {
            return (key, false);
        }
        self.given += 1;
        let key = Key { controller, serial: self.given };
        self.entries.insert(key, Entry::new(object.clone()));
        self.by_object.entry(controller).or_default().insert(object.clone(), key);
        (key, true)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Entry> {
        self.entries.get_mut(&key)
    }

    /// How many keys of a controller were asked for by name and not looked at since, though nobody has seen their objects.
    pub(crate) fn unseen(&self, controller: ControllerId) -> usize {
        self.unseen.get(&controller).map_or(0, HashSet::len)
    }

    /// Notes that nobody has seen the object of this key, which was asked for by name.
    pub(crate) fn note_unseen(&mut self, key: Key) {
        self.unseen.entry(key.controller).or_default().insert(key);
    }

    /// Its object was seen, or a pass found that there is none.
    pub(crate) fn note_seen(&mut self, key: Key) {
        if let Some(unseen) = self.unseen.get_mut(&key.controller) {
            unseen.remove(&key);
            if unseen.is_empty() {
                self.unseen.remove(&key.controller);
            }
        }
    }

    /// Lets go of a key.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        self.note_seen(key);
        let entry = self.entries.remove(&key)?;
        if let Some(of_controller) = self.by_object.get_mut(&key.controller) {
            of_controller.remove(&entry.object);
            if of_controller.is_empty() {
                self.by_object.remove(&key.controller);
            }
        }
        Some(entry)
    }

    /// Notes that a key's primary is gone; returns the one to be forgotten for it, if there are too many.
    pub(crate) fn note_gone(&mut self, key: Key) -> Option<Key> {
        self.gone.push_back(key);
        if self.gone.len() <= GONE_KEYS_MAX {
            return None;
        }
        let oldest = self.gone.pop_front()?;
        self.get(oldest).is_some_and(|entry| entry.gone).then_some(oldest)
    }

    /// Every key of a controller, by its object.
    pub(crate) fn of(&self, controller: ControllerId) -> Vec<Key> {
        let mut keys: Vec<_> = self.by_object.get(&controller).into_iter().flatten().collect();
        keys.sort_unstable_by_key(|(object, _)| *object);
        keys.into_iter().map(|(_, key)| *key).collect()
    }

    /// Every entry with its key, in no order that may be shown.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Entry)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }
}

impl Entry {
    fn new(object: ObjectRef) -> Self {
        Self {
            object,
            learned: Arc::new([]),
            padded_for: None,
            memo: None,
            failure: None,
            rejected: None,
            failures: 0,
            stale_runs: 0,
            look_outside: false,
            doubt: Doubt::Everything,
            last_seen: None,
            gone: false,
            wait: None,
            requeue_at: None,
            resync_at: None,
            breaker: Breaker::default(),
            slowed_until: None,
            wakers: Wakers::default(),
        }
    }
}

#[cfg(test)]
impl Key {
    pub(crate) fn for_test(serial: u64) -> Self {
        Self { controller: ControllerId(0), serial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), name)
    }

    #[test]
    fn the_loudest_waker_is_found_in_bounded_space() {
        let mut wakers = Wakers::default();
        for round in 0..50 {
            wakers.note(&object("loud"));
            wakers.note(&object(&format!("quiet-{round}")));
        }
        assert_eq!(wakers.most(), Some(&object("loud")));
        assert!(wakers.0.len() <= WAKERS_MAX);
    }

    #[test]
    fn a_key_whose_object_came_back_is_not_forgotten_with_the_gone_ones() {
        let mut keys = Keys::default();
        let (back, _) = keys.intern(ControllerId(0), &object("back"));
        assert_eq!(keys.note_gone(back), None);
        let mut forgotten = Vec::new();
        for number in 0..GONE_KEYS_MAX + 1 {
            let (key, new) = keys.intern(ControllerId(0), &object(&number.to_string()));
            assert!(new);
            keys.get_mut(key).expect("an entry").gone = true;
            forgotten.extend(keys.note_gone(key));
        }
        let names: Vec<_> =
            forgotten.iter().filter_map(|key| keys.get(*key)).map(|entry| &*entry.object.name).collect();
        assert_eq!(names, ["0"]);
    }
}
