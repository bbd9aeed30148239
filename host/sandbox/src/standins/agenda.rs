//! What each object waits for, found by the object or by whose turn is next.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

/// A time for each of some objects.
#[derive(Debug)]
pub(super) struct Agenda<Id> {
    /// The stage, and when.
    by_id: BTreeMap<Id, (usize, Instant)>,
    by_time: BTreeSet<(Instant, Id)>,
}

impl<Id> Default for Agenda<Id> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<Id: Clone + Ord> Agenda<Id> {
    /// What an object waits for.
    pub(super) fn get(&self, id: &Id) -> Option<(usize, Instant)> {
        self.by_id.get(id).copied()
    }

    /// Has an object wait for a stage, and for nothing else.
    pub(super) fn set(&mut self, id: &Id, stage: usize, at: Instant) {
        self.remove(id);
        self.by_id.insert(id.clone(), (stage, at));
        self.by_time.insert((at, id.clone()));
    }

    /// The object waits no more; returns the stage that it waited for.
    pub(super) fn remove(&mut self, id: &Id) -> Option<usize> {
        let (stage, at) = self.by_id.remove(id)?;
        self.by_time.remove(&(at, id.clone()));
        Some(stage)
    }

    /// Whose turn is next, and when.
    pub(super) fn next(&self) -> Option<&(Instant, Id)> {
        self.by_time.first()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_object_waits_for_one_thing_and_the_earliest_is_next() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut agenda = Agenda::default();
        agenda.set(&"a", 1, after(5));
        agenda.set(&"b", 2, after(3));
        assert_eq!(agenda.next(), Some(&(after(3), "b")));
        agenda.set(&"b", 3, after(9));
        assert_eq!(agenda.next(), Some(&(after(5), "a")));
        assert_eq!(agenda.remove(&"a"), Some(1));
        assert_eq!((agenda.get(&"a"), agenda.get(&"b")), (None, Some((3, after(9)))));
        assert_eq!(agenda.next(), Some(&(after(9), "b")));
    }
}
