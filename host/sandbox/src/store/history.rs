//! The recent events of one table, bounded by count and by bytes, and what a selector makes of them.

use super::object::{Key, Stored};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

/// Events kept a table. A client that lists and then watches needs those of the time between.
const EVENTS_MAX: usize = 20_000;
/// Bytes of objects that only the history still holds, at most about this much a table.
const BYTES_MAX: usize = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }
}

/// One change of a table. The text is made at most once and shared by all watchers.
pub(crate) struct Event {
    pub kind: EventKind,
    /// The new state; for a deletion the last state under the revision of the deletion.
    pub object: Arc<Stored>,
    pub previous: Option<Arc<Stored>>,
    line: OnceLock<Bytes>,
    left: OnceLock<Arc<Stored>>,
}

impl Event {
    pub(crate) fn new(kind: EventKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) -> Event {
        Event { kind, object, previous, line: OnceLock::new(), left: OnceLock::new() }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.object.head.revision
    }

    /// What a watcher sees who only sees objects that pass: an object that starts to pass was added, one that stops
    /// was deleted (in the state in which it still passed, under this event's revision).
    pub(crate) fn seen_by(&self, passes: impl Fn(&Stored) -> bool) -> Option<(EventKind, Arc<Stored>)> {
        let before = self.previous.as_ref().is_some_and(|previous| passes(previous));
        let after = self.kind != EventKind::Deleted && passes(&self.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some((EventKind::Added, self.object.clone())),
            (true, true) => Some((EventKind::Modified, self.object.clone())),
            (true, false) if self.kind == EventKind::Deleted => {
                Some((EventKind::Deleted, self.object.clone()))
            }
            (true, false) => {
                let previous = self.previous.as_ref()?;
                let left = self.left.get_or_init(|| Arc::new(super::at_revision(previous, self.revision())));
                Some((EventKind::Deleted, left.clone()))
            }
        }
    }

    /// The line of a plain JSON watch in the storage version, shared.
    pub(crate) fn line(&self) -> Bytes {
        self.line.get_or_init(|| event_line(self.kind, &self.object.json)).clone()
    }

    fn bytes(&self) -> usize {
        self.previous.as_ref().map_or(0, |previous| previous.json.len()) + 64
    }
}

/// `{"type":…,"object":…}` and a line break.
pub(crate) fn event_line(kind: EventKind, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.name().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// The events after `compacted`, oldest first.
#[derive(Clone)]
pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    compacted: u64,
}

impl History {
    pub(crate) fn new(revision: u64) -> History {
        History { events: VecDeque::new(), bytes: 0, compacted: revision }
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(old) = self.events.pop_front() else { break };
            self.bytes -= old.bytes();
            self.compacted = old.revision();
        }
    }

    /// Forgets what happened up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.events.clear();
        self.bytes = 0;
        self.compacted = revision;
    }

    /// Up to `limit` events after `revision`; `None` where some of them are forgotten.
    pub(crate) fn after(&self, revision: u64, limit: usize) -> Option<Vec<Arc<Event>>> {
        if revision < self.compacted {
            return None;
        }
        let start = self.events.partition_point(|event| event.revision() <= revision);
        Some(self.events.iter().skip(start).take(limit).cloned().collect())
    }

    /// What the table held at `revision`; `None` where that is forgotten.
    pub(crate) fn rewind(
        &self,
        objects: &BTreeMap<Key, Arc<Stored>>,
        revision: u64,
    ) -> Option<BTreeMap<Key, Arc<Stored>>> {
        if revision < self.compacted {
            return None;
        }
        let mut objects = objects.clone();
        for event in self.events.iter().rev().take_while(|event| event.revision() > revision) {
            let key = event.object.key();
            match &event.previous {
                Some(previous) => objects.insert(key, previous.clone()),
                None => objects.remove(&key),
            };
        }
        Some(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stored(revision: u64, label: &str) -> Arc<Stored> {
        let object = json!({"metadata": {"name": "a", "labels": {"l": label}, "resourceVersion": revision.to_string()}});
        Arc::new(Stored::freeze(&object, revision))
    }

    fn passes(stored: &Stored) -> bool {
        stored.head.labels["l"] == "x"
    }

    #[test]
    fn an_object_that_enters_or_leaves_a_selector_is_added_or_deleted() {
        let cases = [
            ("x", "x", Some("MODIFIED")),
            ("y", "x", Some("ADDED")),
            ("x", "y", Some("DELETED")),
            ("y", "y", None),
        ];
        for (before, after, expected) in cases {
            let event = Event::new(EventKind::Modified, stored(9, after), Some(stored(3, before)));
            let seen = event.seen_by(passes);
            assert_eq!(seen.as_ref().map(|(kind, _)| kind.name()), expected, "{before} -> {after}");
            if let Some((_, object)) = seen {
                assert!(passes(&object));
                assert_eq!(object.value()["metadata"]["resourceVersion"], "9");
            }
        }
    }

    #[test]
    fn a_forgotten_revision_is_told_apart_from_no_news() {
        let mut history = History::new(1);
        history.push(Arc::new(Event::new(EventKind::Added, stored(2, "x"), None)));
        assert_eq!(history.after(1, 10).map(|events| events.len()), Some(1));
        assert_eq!(history.after(2, 10).map(|events| events.len()), Some(0));
        history.compact(2);
        assert!(history.after(1, 10).is_none());
    }
}
