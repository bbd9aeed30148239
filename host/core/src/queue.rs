//! The work queue: each key once, the urgent before the routine, one pass of a key at a time.
//!
//! Keys of one urgency stand in lanes, one for each controller, that take turns: a controller with ten thousand keys
//! in line does not keep another one waiting.
//!
//! It holds no clock: whoever asks says what time it is, as the time since some start.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::limits::POPS_BEFORE_LOWER_PRIORITY;

/// How urgent it is that a key runs; the first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Something changed: a user may be waiting.
    Change,
    /// A failure is tried again, or a conclusion asked for it.
    Retry,
    /// A sweep over everything.
    Resync,
}

const PRIORITIES: [Priority; 3] = [Priority::Change, Priority::Retry, Priority::Resync];

/// Places that an empty line has room for.
const LINE_KEPT: usize = 32;

/// A work queue over keys `K`, each with the trigger `T` that put it there first.
#[derive(Debug)]
pub struct Queue<K, T> {
    slots: HashMap<K, Slot<T>>,
    lane: fn(&K) -> u64,
    ready: BTreeMap<Priority, Lanes<K>>,
    delayed: BTreeMap<(Duration, u64), K>,
    /// Tells places in line that were given up from those that hold.
    serial: u64,
    ready_count: usize,
    processing: usize,
    /// How often a key was put in line, a lane; one that stands in line already is not counted again.
    adds: BTreeMap<u64, u64>,
    /// Pops in a row of the most urgent priority while another waited.
    streak: u32,
}

/// The keys in line of one priority, each with its place.
#[derive(Debug)]
struct Lanes<K> {
    lanes: BTreeMap<u64, VecDeque<(K, u64)>>,
    /// The lane that had its turn last.
    last: u64,
}

#[derive(Debug)]
struct Slot<T> {
    waiting: Option<Waiting<T>>,
    delayed: Option<Delayed<T>>,
    processing: bool,
}

/// To be run as soon as its turn comes, or as soon as the pass under way ends.
#[derive(Debug)]
struct Waiting<T> {
    trigger: T,
    priority: Priority,
    /// The place in line; none while a pass is under way.
    place: Option<u64>,
}

#[derive(Debug)]
struct Delayed<T> {
    at: (Duration, u64),
    trigger: T,
    priority: Priority,
}

impl<K, T> Default for Queue<K, T> {
    fn default() -> Self {
        Self::with_lanes(|_| 0)
    }
}

impl<K, T> Queue<K, T> {
    /// A queue in which keys of the same number share a lane.
    pub fn with_lanes(lane: fn(&K) -> u64) -> Self {
        Self {
            slots: HashMap::new(),
            lane,
            ready: BTreeMap::new(),
            delayed: BTreeMap::new(),
            serial: 0,
            ready_count: 0,
            processing: 0,
            adds: BTreeMap::new(),
            streak: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, T> Queue<K, T> {
    /// Has a key run. One that waits already keeps its trigger and takes the more urgent priority; one that is
    /// at work runs once more afterwards.
    pub fn add(&mut self, key: K, trigger: T, priority: Priority) {
        self.serial += 1;
        let serial = self.serial;
        let slot = self.slots.entry(key.clone()).or_insert_with(Slot::empty);
        let at_work = slot.processing;
        match &mut slot.waiting {
            Some(waiting) if waiting.priority <= priority => return,
            Some(waiting) => {
                waiting.priority = priority;
                if waiting.place.is_none() {
                    return;
                }
                // The old place in line stays behind, and is passed over when its turn comes.
                waiting.place = Some(serial);
            }
            None => {
                slot.waiting = Some(Waiting { trigger, priority, place: (!at_work).then_some(serial) });
                *self.adds.entry((self.lane)(&key)).or_default() += 1;
                if at_work {
                    return;
                }
                self.ready_count += 1;
            }
        }
        self.line_up(key, priority, serial);
    }

    /// Has a key run at a time, unless something else runs it before. The earliest of several times holds.
    pub fn add_at(&mut self, key: K, trigger: T, priority: Priority, at: Duration) {
        self.serial += 1;
        let at = (at, self.serial);
        let slot = self.slots.entry(key.clone()).or_insert_with(Slot::empty);
        if let Some(delayed) = &slot.delayed {
            if delayed.at.0 <= at.0 {
                return;
            }
            self.delayed.remove(&delayed.at);
        }
        slot.delayed = Some(Delayed { at, trigger, priority });
        self.delayed.insert(at, key);
    }

    /// The next key to run, with what put it there. It is at work until [`Queue::done`].
    pub fn pop(&mut self, now: Duration) -> Option<(K, T)> {
        self.pop_unless(now, |_| false)
    }

    /// The next key to run of the lanes that are not shut.
    pub fn pop_unless(&mut self, now: Duration, shut: impl Fn(u64) -> bool) -> Option<(K, T)> {
        self.ripen(now);
        let (priority, lane) = self.next_turn(&shut)?;
        let lanes = self.ready.get_mut(&priority)?;
        lanes.last = lane;
        let (key, _) = lanes.lanes.get_mut(&lane)?.pop_front()?;
        self.ready_count -= 1;
        let slot = self.slots.get_mut(&key)?;
        let waiting = slot.waiting.take()?;
        slot.processing = true;
        self.processing += 1;
        if let Some(delayed) = slot.delayed.take() {
            self.delayed.remove(&delayed.at);
        }
        Some((key, waiting.trigger))
    }

    /// The pass of a key is over; if it was added meanwhile it is in line again.
    pub fn done(&mut self, key: &K, now: Duration) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.processing {
            slot.processing = false;
            self.processing -= 1;
        }
        if let Some(waiting) = &mut slot.waiting
            && waiting.place.is_none()
        {
            self.serial += 1;
            waiting.place = Some(self.serial);
            self.ready_count += 1;
            let (priority, serial) = (waiting.priority, self.serial);
            self.line_up(key.clone(), priority, serial);
        }
        self.forget_empty(key);
        self.ripen(now);
    }

    /// Takes a key out, wherever it waits. A pass under way goes on, and nothing follows it.
    pub fn remove(&mut self, key: &K) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.waiting.take().is_some_and(|waiting| waiting.place.is_some()) {
            self.ready_count -= 1;
        }
        if let Some(delayed) = slot.delayed.take() {
            self.delayed.remove(&delayed.at);
        }
        self.forget_empty(key);
    }

    /// Whether a key could run now.
    pub fn is_ready(&self, now: Duration) -> bool {
        self.ready_count > 0 || self.delayed.keys().next().is_some_and(|(at, _)| *at <= now)
    }

    /// When the next delayed key is due.
    pub fn next_wake(&self) -> Option<Duration> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    /// Keys in line, waiting for their time, and at work.
    pub fn sizes(&self) -> Sizes {
        Sizes { ready: self.ready_count, delayed: self.delayed.len(), processing: self.processing }
    }

    /// How each lane stands that ever had a key; looks at every key in the queue.
    pub fn lanes(&self) -> BTreeMap<u64, LaneSizes> {
        let mut lanes: BTreeMap<u64, LaneSizes> = BTreeMap::new();
        for (lane, adds) in &self.adds {
            lanes.entry(*lane).or_default().adds = *adds;
        }
        for (key, slot) in &self.slots {
            let sizes = lanes.entry((self.lane)(key)).or_default();
            sizes.ready += usize::from(slot.waiting.is_some());
            sizes.delayed += usize::from(slot.delayed.is_some());
        }
        lanes
    }

    /// The lane's keys are all taken out, and none will come again.
    pub fn forget_lane(&mut self, lane: u64) {
        self.adds.remove(&lane);
        for Lanes { lanes, .. } in self.ready.values_mut() {
            lanes.remove(&lane);
        }
    }

    /// Moves what is due into line.
    pub fn ripen(&mut self, now: Duration) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            let delayed = self.slots.get_mut(&key).and_then(|slot| slot.delayed.take());
            if let Some(Delayed { trigger, priority, .. }) = delayed {
                self.add(key, trigger, priority);
            }
        }
    }

    fn line_up(&mut self, key: K, priority: Priority, place: u64) {
        let lane = (self.lane)(&key);
        let lanes = self.ready.entry(priority).or_insert_with(|| Lanes { lanes: BTreeMap::new(), last: 0 });
        lanes.lanes.entry(lane).or_default().push_back((key, place));
    }

    /// The most urgent priority that has a key in line, and its next lane; now and then the next priority, so that none
    /// starves.
    fn next_turn(&mut self, shut: &impl Fn(u64) -> bool) -> Option<(Priority, u64)> {
        let turns = PRIORITIES.map(|priority| self.next_lane(priority, shut).map(|lane| (priority, lane)));
        let mut waiting = turns.into_iter().flatten();
        let first = waiting.next()?;
        let Some(second) = waiting.next() else {
            self.streak = 0;
            return Some(first);
        };
        if self.streak >= POPS_BEFORE_LOWER_PRIORITY {
            self.streak = 0;
            return Some(second);
        }
        self.streak += 1;
        Some(first)
    }

    /// The first lane after the last one that has a key in line and is not shut. Empty lanes stay: they are as few as the
    /// controllers, and the next key of one comes soon.
    fn next_lane(&mut self, priority: Priority, shut: &impl Fn(u64) -> bool) -> Option<u64> {
        let Lanes { lanes, last } = self.ready.get_mut(&priority)?;
        let slots = &self.slots;
        let has_turn = |(lane, line): (&u64, &mut VecDeque<(K, u64)>)| {
            (!shut(*lane) && has_key_in_line(line, slots)).then_some(*lane)
        };
        let after = lanes.range_mut(last.saturating_add(1)..).find_map(has_turn);
        after.or_else(|| lanes.range_mut(..=*last).find_map(has_turn))
    }

    fn forget_empty(&mut self, key: &K) {
        let empty = self
            .slots
            .get(key)
            .is_some_and(|slot| !slot.processing && slot.waiting.is_none() && slot.delayed.is_none());
        if empty {
            self.slots.remove(key);
        }
    }
}

/// Whether a key is in line. Drops places before it that were given up for a more urgent one, or taken out.
fn has_key_in_line<K: Eq + Hash, T>(line: &mut VecDeque<(K, u64)>, slots: &HashMap<K, Slot<T>>) -> bool {
    while let Some((key, place)) = line.front() {
        let waiting = slots.get(key).and_then(|slot| slot.waiting.as_ref());
        if waiting.is_some_and(|waiting| waiting.place == Some(*place)) {
            return true;
        }
        line.pop_front();
    }
    // After a sweep a line would keep the memory of ten thousand keys.
    line.shrink_to(LINE_KEPT);
    false
}

impl<T> Slot<T> {
    fn empty() -> Self {
        Self { waiting: None, delayed: None, processing: false }
    }
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Keys in line.
    pub ready: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys at work.
    pub processing: usize,
}

/// How full a lane is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSizes {
    /// Keys in line, those that wait for the end of their own pass included.
    pub ready: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// How often a key was put in line so far.
    pub adds: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn changes_come_before_retries_and_retries_before_resyncs() {
        let mut queue = Queue::default();
        queue.add("sweep", (), Priority::Resync);
        queue.add("again", (), Priority::Retry);
        queue.add("user", (), Priority::Change);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(secs(0))).map(|(key, ())| key).collect();
        assert_eq!(order, ["user", "again", "sweep"]);
    }

    #[test]
    fn a_key_that_becomes_urgent_moves_up_and_runs_once() {
        let mut queue = Queue::default();
        queue.add("a", "resync", Priority::Resync);
        queue.add("b", "resync", Priority::Resync);
        queue.add("b", "change", Priority::Change);
        assert_eq!(queue.pop(secs(0)), Some(("b", "resync")));
        assert_eq!(queue.pop(secs(0)), Some(("a", "resync")));
        assert_eq!(queue.pop(secs(0)), None);
    }

    #[test]
    fn a_key_that_changes_while_it_is_at_work_runs_once_more_afterwards() {
        let mut queue = Queue::default();
        queue.add("a", 1, Priority::Change);
        assert_eq!(queue.pop(secs(0)), Some(("a", 1)));
        queue.add("a", 2, Priority::Change);
        queue.add("a", 3, Priority::Change);
        assert_eq!(queue.pop(secs(0)), None);
        queue.done(&"a", secs(0));
        assert_eq!(queue.pop(secs(0)), Some(("a", 2)));
        queue.done(&"a", secs(0));
        assert!(!queue.is_ready(secs(0)));
    }

    #[test]
    fn the_earliest_of_several_times_holds() {
        let mut queue = Queue::default();
        queue.add_at("a", (), Priority::Retry, secs(30));
        queue.add_at("a", (), Priority::Retry, secs(5));
        queue.add_at("a", (), Priority::Retry, secs(10));
        assert_eq!(queue.next_wake(), Some(secs(5)));
        assert_eq!(queue.pop(secs(4)), None);
        assert_eq!(queue.pop(secs(5)), Some(("a", ())));
        assert_eq!(queue.next_wake(), None);
    }

    #[test]
    fn a_sweep_gets_its_turn_under_a_stream_of_changes() {
        let mut queue = Queue::default();
        queue.add(u32::MAX, (), Priority::Resync);
        for key in 0..POPS_BEFORE_LOWER_PRIORITY * 2 {
            queue.add(key, (), Priority::Change);
        }
        let at = std::iter::from_fn(|| queue.pop(secs(0))).position(|(key, ())| key == u32::MAX);
        assert_eq!(at, Some(POPS_BEFORE_LOWER_PRIORITY as usize));
    }

    #[test]
    fn controllers_take_turns_however_long_their_lines_are() {
        let mut queue: Queue<u32, ()> = Queue::with_lanes(|key| u64::from(key / 100));
        for key in [100, 101, 102, 103, 200, 201, 300] {
            queue.add(key, (), Priority::Change);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(secs(0))).map(|(key, ())| key).collect();
        assert_eq!(order, [100, 200, 300, 101, 201, 102, 103]);
    }

    #[test]
    fn a_lane_tells_who_stands_in_it_and_how_many_came() {
        let mut queue: Queue<u32, ()> = Queue::with_lanes(|key| u64::from(key / 100));
        for key in [100, 100, 101, 200] {
            queue.add(key, (), Priority::Change);
        }
        queue.add_at(102, (), Priority::Retry, secs(5));
        assert_eq!(queue.pop(secs(0)).map(|(key, ())| key), Some(100));
        queue.add(100, (), Priority::Change); // Once more, after the pass under way.
        let lanes = queue.lanes();
        assert_eq!(lanes[&1], LaneSizes { ready: 2, delayed: 1, adds: 3 });
        assert_eq!(lanes[&2], LaneSizes { ready: 1, delayed: 0, adds: 1 });
        assert_eq!(queue.pop(secs(5)).map(|(key, ())| key), Some(200));
        assert_eq!(
            queue.lanes()[&1],
            LaneSizes { ready: 3, delayed: 0, adds: 4 },
            "it became due, and is counted then"
        );
        queue.remove(&200);
        queue.forget_lane(2);
        assert_eq!(queue.lanes().get(&2).map(|lane| lane.adds), Some(0));
    }

    #[test]
    fn a_lane_that_is_shut_is_passed_over_and_keeps_its_place() {
        let mut queue: Queue<u32, ()> = Queue::with_lanes(|key| u64::from(key / 100));
        for (key, priority) in [
            (100, Priority::Change),
            (101, Priority::Change),
            (200, Priority::Resync),
            (102, Priority::Resync),
        ] {
            queue.add(key, (), priority);
        }
        let shut = |lane: u64| lane == 1;
        assert_eq!(queue.pop_unless(secs(0), shut), Some((200, ())));
        assert_eq!(queue.pop_unless(secs(0), shut), None);
        assert!(queue.is_ready(secs(0)), "the others only wait");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(secs(0))).map(|(key, ())| key).collect();
        assert_eq!(order, [100, 101, 102]);
    }

    #[test]
    fn what_is_taken_out_does_not_run() {
        let mut queue = Queue::default();
        queue.add("a", (), Priority::Change);
        queue.add_at("b", (), Priority::Change, secs(1));
        queue.remove(&"a");
        queue.remove(&"b");
        assert_eq!(queue.pop(secs(2)), None);
        assert_eq!(queue.sizes(), Sizes::default());
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Add(u8, Priority),
        AddAt(u8, u64),
        Pop,
        Done,
        Wait(u64),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        let priority = prop_oneof![Just(Priority::Change), Just(Priority::Retry), Just(Priority::Resync)];
        prop_oneof![
            (0..6_u8, priority).prop_map(|(key, priority)| Deed::Add(key, priority)),
            (0..6_u8, 0..20_u64).prop_map(|(key, after)| Deed::AddAt(key, after)),
            Just(Deed::Pop),
            Just(Deed::Done),
            (0..5_u64).prop_map(Deed::Wait),
        ]
    }

    /// The whole order in the plainest words: the most urgent first, controllers in turn, and first come, first served.
    #[derive(Default)]
    struct Naive {
        /// Key, urgency and place of all in line.
        line: Vec<(u8, Priority, u64)>,
        /// Those at work that are to run once more.
        again: BTreeMap<u8, Priority>,
        last: BTreeMap<Priority, u8>,
        places: u64,
    }

    const LANES: u8 = 3;

    impl Naive {
        fn line_up(&mut self, key: u8, priority: Priority) {
            self.places += 1;
            self.line.push((key, priority, self.places));
        }

        fn add(&mut self, key: u8, priority: Priority, at_work: bool) {
            if at_work {
                let again = self.again.entry(key).or_insert(priority);
                *again = priority.min(*again);
                return;
            }
            match self.line.iter().position(|(other, ..)| *other == key) {
                Some(at) if self.line[at].1 <= priority => {}
                Some(at) => {
                    self.line.remove(at);
                    self.line_up(key, priority);
                }
                None => self.line_up(key, priority),
            }
        }

        fn pop(&mut self) -> Option<u8> {
            let urgent = self.line.iter().map(|(_, priority, _)| *priority).min()?;
            let last = self.last.get(&urgent).copied().unwrap_or(0);
            let turns_until = |lane: u8| (lane + LANES - last - 1) % LANES;
            let of_urgent = self.line.iter().filter(|(_, priority, _)| *priority == urgent);
            let (key, ..) = *of_urgent.min_by_key(|(key, _, place)| (turns_until(key % LANES), *place))?;
            self.line.retain(|(other, ..)| *other != key);
            self.last.insert(urgent, key % LANES);
            Some(key)
        }

        fn done(&mut self, key: u8) {
            if let Some(priority) = self.again.remove(&key) {
                self.line_up(key, priority);
            }
        }
    }

    proptest! {
        #[test]
        fn keys_run_in_the_order_that_plain_words_say(
            // Too few for the turn that a lower priority gets now and then.
            deeds in proptest::collection::vec(deed(), 0..POPS_BEFORE_LOWER_PRIORITY as usize),
        ) {
            let mut queue: Queue<u8, ()> = Queue::with_lanes(|key| u64::from(key % LANES));
            let (mut naive, mut at_work) = (Naive::default(), Vec::new());
            for deed in deeds {
                match deed {
                    Deed::Add(key, priority) => {
                        queue.add(key, (), priority);
                        naive.add(key, priority, at_work.contains(&key));
                    }
                    Deed::Pop => {
                        let popped = queue.pop(secs(0)).map(|(key, ())| key);
                        prop_assert_eq!(popped, naive.pop());
                        at_work.extend(popped);
                    }
                    Deed::Done => if let Some(key) = at_work.pop() {
                        queue.done(&key, secs(0));
                        naive.done(key);
                    },
                    Deed::AddAt(..) | Deed::Wait(_) => {}
                }
                prop_assert_eq!(queue.sizes().ready, naive.line.len());
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_key_runs_twice_at_once(deeds in proptest::collection::vec(deed(), 0..120)) {
            let mut queue: Queue<u8, ()> = Queue::with_lanes(|key| u64::from(key % 3));
            let (mut now, mut at_work, mut owed) = (secs(0), Vec::new(), std::collections::BTreeSet::new());
            for deed in deeds {
                match deed {
                    Deed::Add(key, priority) => { queue.add(key, (), priority); owed.insert(key); }
                    Deed::AddAt(key, after) => { queue.add_at(key, (), Priority::Retry, now + secs(after)); owed.insert(key); }
                    Deed::Pop => if let Some((key, ())) = queue.pop(now) {
                        prop_assert!(!at_work.contains(&key), "{key} runs already");
                        at_work.push(key);
                        owed.remove(&key);
                    },
                    Deed::Done => if let Some(key) = at_work.pop() { queue.done(&key, now); },
                    Deed::Wait(by) => now += secs(by),
                }
                prop_assert_eq!(queue.sizes().processing, at_work.len());
            }
            for key in at_work.drain(..) { queue.done(&key, now); }
            now += secs(100);
            while let Some((key, ())) = queue.pop(now) { owed.remove(&key); queue.done(&key, now); }
            prop_assert!(owed.is_empty(), "never ran: {owed:?}");
            prop_assert_eq!(queue.sizes(), Sizes::default());
        }
    }
}
