//! The store: one revision counter, a table a resource, and a bounded history of each table for watches.

pub(crate) mod history;
pub(crate) mod object;

use crate::signal::{Bell, Listener};
use history::{Event, EventKind, History};
use object::{Key, Stored};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Number of a table. Never used twice, so that a kind that comes back is a new one.
pub(crate) type TableId = u32;

/// The objects of one resource.
pub(crate) struct Table {
    pub objects: BTreeMap<Key, Arc<Stored>>,
    pub history: History,
    pub signal: Bell,
    /// Where watches of single objects listen, so that a write wakes those of its object alone.
    singles: BTreeMap<Key, Single>,
}

/// What watches of one object listen to.
struct Single {
    signal: Bell,
    /// The events of the object since somebody listened first, up to a number.
    history: History,
}

impl Table {
    fn new(revision: u64) -> Table {
        let signal = Bell::new(revision);
        let history = History::new(revision);
        Table { objects: BTreeMap::new(), history, signal, singles: BTreeMap::new() }
    }

    /// The same objects and history, which nobody listens to yet.
    fn fork(&self, revision: u64) -> Table {
        Table {
            objects: self.objects.clone(),
            history: self.history.clone(),
            signal: Bell::new(revision),
            singles: BTreeMap::new(),
        }
    }
}

/// All tables under one revision.
pub(crate) struct Store {
    revision: u64,
    tables: BTreeMap<TableId, Table>,
    /// Which objects name an owner, by the owner's UID.
    dependents: BTreeMap<Arc<str>, BTreeSet<(TableId, Key)>>,
    /// Where each live UID is.
    uids: BTreeMap<Arc<str>, (TableId, Key)>,
    /// Histories of tables that are gone: their watchers have yet to see the end.
    retired: VecDeque<(TableId, History)>,
    /// What was changed since somebody looked last, where somebody keeps it.
    changes: Option<Vec<Change>>,
}

/// An object that was written, or is gone.
pub(crate) struct Change {
    pub table: TableId,
    pub key: Key,
    /// Nothing where it is gone.
    pub stored: Option<Arc<Stored>>,
}

/// Histories kept of tables that are gone.
const RETIRED_MAX: usize = 16;

impl Store {
    /// An empty store. The real server has written a few hundred revisions before the first client comes; tests must
    /// not rely on the number.
    pub(crate) fn new() -> Store {
        Store {
            revision: 1,
            tables: BTreeMap::new(),
            dependents: BTreeMap::new(),
            uids: BTreeMap::new(),
            retired: VecDeque::new(),
            changes: None,
        }
    }

    /// Another store that holds the same. Objects are shared until one of the two writes them.
    pub(crate) fn fork(&self) -> Store {
        let tables = self.tables.iter().map(|(id, table)| (*id, table.fork(self.revision)));
        Store {
            revision: self.revision,
            tables: tables.collect(),
            dependents: self.dependents.clone(),
            uids: self.uids.clone(),
            // Of tables that are gone only those watchers want to know that were there.
            retired: VecDeque::new(),
            changes: None,
        }
    }

    /// The revision of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn add_table(&mut self, id: TableId) {
        self.tables.insert(id, Table::new(self.revision));
    }

    /// Drops a table; its watches end after its last event. Its objects must be gone.
    pub(crate) fn remove_table(&mut self, id: TableId) {
        let Some(table) = self.tables.remove(&id) else { return };
        self.retired.push_back((id, table.history));
        if self.retired.len() > RETIRED_MAX {
            self.retired.pop_front();
        }
    }

    /// The history of a table, also of one that is gone.
    pub(crate) fn history(&self, id: TableId) -> Option<&History> {
        let retired = || self.retired.iter().find(|(other, _)| *other == id).map(|(_, history)| history);
        self.tables.get(&id).map(|table| &table.history).or_else(retired)
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(&id)
    }

    pub(crate) fn get(&self, id: TableId, key: &str) -> Option<&Arc<Stored>> {
        self.tables.get(&id)?.objects.get(key)
    }

    /// All tables with their objects, in order.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().map(|(id, table)| (*id, table))
    }

    /// Writes an object under the next revision and tells the watchers.
    pub(crate) fn put(&mut self, id: TableId, mut object: Value) -> Arc<Stored> {
        self.revision += 1;
        let revision = self.revision;
        set_revision(&mut object, revision);
        let stored = Arc::new(Stored::freeze(&object, revision));
        let key = stored.key();
        let table = self.tables.get_mut(&id).expect("a resource that is served has its table");
        let previous = table.objects.insert(key.clone(), stored.clone());
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        if let Some(previous) = &previous {
            self.forget(id, &key, previous);
        }
        self.remember(id, &key, &stored);
        self.announce(id, Event::new(kind, stored.clone(), previous));
        stored
    }

    /// Replaces the text of every object of a table by what `change` makes of it, under the same revision: a new schema
    /// shows in what is read, and is no write.
    pub(crate) fn reshape(&mut self, id: TableId, change: impl Fn(&mut Value)) {
        let Some(table) = self.tables.get_mut(&id) else { return };
        for stored in table.objects.values_mut() {
            let old = stored.value();
            let mut object = old.clone();
            change(&mut object);
            if object != old {
                *stored = Arc::new(Stored::freeze(&object, stored.head.revision));
            }
        }
    }

    /// Removes an object under the next revision; returns it as its last watchers see it.
    pub(crate) fn remove(&mut self, id: TableId, key: &str) -> Option<Arc<Stored>> {
        let table = self.tables.get_mut(&id)?;
        let (key, previous) = table.objects.remove_entry(key)?;
        self.forget(id, &key, &previous);
        self.revision += 1;
        let last = Arc::new(at_revision(&previous, self.revision));
        self.announce(id, Event::new(EventKind::Deleted, last.clone(), Some(previous)));
        Some(last)
    }

    /// Ends every watch of a table, as a lost connection would.
    pub(crate) fn cut(&self, id: TableId) {
        if let Some(table) = self.tables.get(&id) {
            let singles = table.singles.values().map(|single| &single.signal);
            for signal in singles.chain([&table.signal]) {
                signal.ring(|signal| signal.cuts += 1);
            }
        }
    }

    /// Listens to one object of a table. What happened before is in the history of the table.
    pub(crate) fn listen(&mut self, id: TableId, key: &Key) -> Option<Listener> {
        let revision = self.revision;
        let table = self.tables.get_mut(&id)?;
        // Those to whom nobody listens any more go now and then, so that each call stays cheap.
        if table.singles.len().is_power_of_two() {
            table.singles.retain(|_, single| single.signal.has_listeners());
        }
        let new = || Single { signal: Bell::new(revision), history: History::new(revision) };
        Some(table.singles.entry(key.clone()).or_insert_with(new).signal.listener())
    }

    /// The events of one object after a revision, as those have it who listen to it; none where nobody listened then.
    pub(crate) fn single(&self, id: TableId, key: &str) -> Option<&History> {
        Some(&self.tables.get(&id)?.singles.get(key)?.history)
    }

    /// Forgets the history of every table: watches from older revisions are told `410 Expired`.
    pub(crate) fn compact(&mut self) {
        for table in self.tables.values_mut() {
            table.history.compact(self.revision);
            for single in table.singles.values_mut() {
                single.history.compact(self.revision);
            }
        }
    }

    /// The objects that name `uid` as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(TableId, Arc<Stored>)> {
        let places = self.dependents.get(uid).into_iter().flatten();
        places.filter_map(|(id, key)| Some((*id, self.get(*id, key)?.clone()))).collect()
    }

    /// The live object with this UID.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<(TableId, &Arc<Stored>)> {
        let (id, key) = self.uids.get(uid)?;
        Some((*id, self.get(*id, key)?))
    }

    /// From now on changes are noted.
    pub(crate) fn note_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// What was changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Puts an object back as it was, under its own revision; nobody is told.
    pub(crate) fn restore(&mut self, id: TableId, object: &Value) -> Key {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let stored = Arc::new(Stored::freeze(object, revision.unwrap_or_default()));
        let key = stored.key();
        self.take(id, &key);
        self.remember(id, &key, &stored);
        let table = self.tables.get_mut(&id).expect("a resource that is served has its table");
        table.objects.insert(key.clone(), stored);
        key
    }

    /// Takes an object out; nobody is told.
    pub(crate) fn take(&mut self, id: TableId, key: &str) -> Option<Arc<Stored>> {
        let (key, stored) = self.tables.get_mut(&id)?.objects.remove_entry(key)?;
        self.forget(id, &key, &stored);
        Some(stored)
    }

    /// Takes every object of a table out; nobody is told.
    pub(crate) fn clear(&mut self, id: Option<TableId>) {
        let Some(id) = id else { return };
        let keys: Vec<Key> =
            self.tables.get(&id).map(|table| table.objects.keys().cloned().collect()).unwrap_or_default();
        for key in keys {
            self.take(id, &key);
        }
    }

    /// The revision that was reached before.
    pub(crate) fn advance(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// Begins every history at the current revision.
    pub(crate) fn forget_history(&mut self) {
        let revision = self.revision;
        for table in self.tables.values_mut() {
            table.history = History::new(revision);
            table.singles.clear();
            table.signal.ring(|signal| signal.revision = revision);
        }
    }

    fn announce(&mut self, id: TableId, event: Event) {
        let revision = event.revision();
        if let Some(changes) = &mut self.changes {
            let gone = event.kind == EventKind::Deleted;
            let stored = (!gone).then(|| event.object.clone());
            changes.push(Change { table: id, key: event.object.key(), stored });
        }
        if let Some(table) = self.tables.get_mut(&id) {
            let event = Arc::new(event);
            if let Some(single) = table.singles.get_mut(&event.object.key()) {
                single.history.push(event.clone());
                single.signal.ring(|signal| signal.revision = revision);
            }
            table.history.push(event);
            table.signal.ring(|signal| signal.revision = revision);
        }
    }

    fn remember(&mut self, id: TableId, key: &Key, stored: &Stored) {
        self.uids.insert(stored.head.uid.clone(), (id, key.clone()));
        for owner in &stored.head.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert((id, key.clone()));
        }
    }

    fn forget(&mut self, id: TableId, key: &Key, stored: &Stored) {
        self.uids.remove(&stored.head.uid);
        for owner in &stored.head.owners {
            if let Some(set) = self.dependents.get_mut(&owner.uid) {
                set.remove(&(id, key.clone()));
                if set.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

/// Writes `metadata.resourceVersion`.
pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Default::default());
    }
    object["metadata"]["resourceVersion"] = Value::String(revision.to_string());
}

/// The same object under another revision.
pub(crate) fn at_revision(stored: &Stored, revision: u64) -> Stored {
    let mut object = stored.value();
    set_revision(&mut object, revision);
    Stored::freeze(&object, revision)
}
