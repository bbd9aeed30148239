//! Who asked about what: from a change of one object to the keys whose last pass rests on it.
//!
//! A change wakes exactly the keys of which an answer differs now. Queries are filed under their most selective
//! condition, so a look-up costs by what it finds and not by how many keys there are.

mod kind;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use self::kind::KindIndex;
use crate::contract::{Gvk, ObjectRef, Query};
use crate::fingerprint::Fingerprint;
use crate::object::CachedObject;
use crate::query::Prepared;

/// What happened to one object in the cache.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its kind, as it is watched.
    pub gvk: Gvk,
    /// Where it lives.
    pub object: ObjectRef,
    /// What it was; none where it was not there.
    pub old: Option<Arc<CachedObject>>,
    /// What it is; none where it is gone.
    pub new: Option<Arc<CachedObject>>,
}

impl Change {
    /// From two states of an object; at least one must be there.
    pub fn between(old: Option<Arc<CachedObject>>, new: Option<Arc<CachedObject>>) -> Option<Self> {
        let either = new.as_ref().or(old.as_ref())?;
        Some(Self { gvk: either.gvk().clone(), object: either.reference(), old, new })
    }
}

/// Which keys asked which queries.
#[derive(Debug)]
pub struct DependencyIndex<K> {
    keys: HashMap<K, Box<[usize]>>,
    /// Each query once, whoever asked it.
    entries: Vec<Option<Entry<K>>>,
    free: Vec<usize>,
    by_id: HashMap<Fingerprint, usize>,
    kinds: HashMap<Gvk, KindIndex>,
}

#[derive(Debug)]
struct Entry<K> {
    query: Arc<Prepared>,
    keys: BTreeSet<K>,
}

impl<K> Default for DependencyIndex<K> {
    fn default() -> Self {
        Self {
            keys: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            kinds: HashMap::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> DependencyIndex<K> {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what the last pass of a key asked; forgets what earlier ones did. The clock and providers are not in it.
    pub fn record(&mut self, key: K, queries: &[Arc<Prepared>]) {
        let mut now: Vec<usize> =
            queries.iter().filter(|query| query.gvk().is_some()).map(|query| self.entry(query)).collect();
        now.sort_unstable();
        now.dedup();
        let before = self.keys.get(&key).cloned().unwrap_or_default();
        if *before == *now {
            return;
        }
        for at in now.iter().filter(|at| before.binary_search(at).is_err()) {
            if let Some(Some(entry)) = self.entries.get_mut(*at) {
                entry.keys.insert(key.clone());
            }
        }
        for at in before.iter().filter(|at| now.binary_search(at).is_err()) {
            self.leave(*at, &key);
        }
        if now.is_empty() {
            self.keys.remove(&key);
        } else {
            self.keys.insert(key, now.into());
        }
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: &K) {
        for at in self.keys.remove(key).unwrap_or_default() {
            self.leave(at, key);
        }
    }

    /// The keys with an answer that this change made another; sorted, each once.
    pub fn affected(&self, change: &Change) -> Vec<K> {
        let Some(kind) = self.kinds.get(&change.gvk) else { return Vec::new() };
        let mut keys = Vec::new();
        for at in kind.candidates(change) {
            if let Some(Some(entry)) = self.entries.get(at)
                && differs(&entry.query, change)
            {
                keys.extend(entry.keys.iter().cloned());
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The keys that asked about a kind at all: it became served, or is no longer.
    pub fn affected_by_serving(&self, gvk: &Gvk) -> Vec<K> {
        let Some(kind) = self.kinds.get(gvk) else { return Vec::new() };
        let entries = kind.entries().filter_map(|at| self.entries.get(at)?.as_ref());
        let mut keys: Vec<K> = entries.flat_map(|entry| entry.keys.iter().cloned()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What a key asked, in no particular order.
    pub fn queries(&self, key: &K) -> impl Iterator<Item = &Arc<Prepared>> {
        let entries = self.keys.get(key).into_iter().flatten();
        entries.filter_map(|at| Some(&self.entries.get(*at)?.as_ref()?.query))
    }

    /// Every query that somebody asks about a kind, each once, in no particular order.
    pub fn queries_about(&self, gvk: &Gvk) -> impl Iterator<Item = &Arc<Prepared>> {
        let entries = self.kinds.get(gvk).into_iter().flat_map(KindIndex::entries);
        entries.filter_map(|at| Some(&self.entries.get(at)?.as_ref()?.query))
    }

    /// Keys in the index.
    pub fn keys_len(&self) -> usize {
        self.keys.len()
    }

    /// Different queries in the index.
    pub fn queries_len(&self) -> usize {
        self.by_id.len()
    }

    /// The place of a query's entry, made where it is new.
    fn entry(&mut self, query: &Arc<Prepared>) -> usize {
        if let Some(at) = self.by_id.get(&query.id()) {
            return *at;
        }
        let entry = Some(Entry { query: Arc::clone(query), keys: BTreeSet::new() });
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.entries.push(None);
                self.entries.len() - 1
            }
        };
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = entry;
        }
        self.by_id.insert(query.id(), at);
        if let Some(gvk) = query.gvk() {
            self.kinds.entry(gvk.clone()).or_default().insert(query, at);
        }
        at
    }

    /// Takes a key out of an entry, and the entry out of the index with its last key.
    fn leave(&mut self, at: usize, key: &K) {
        let Some(slot) = self.entries.get_mut(at) else { return };
        let Some(entry) = slot else { return };
        entry.keys.remove(key);
        if !entry.keys.is_empty() {
            return;
        }
        if let Some(entry) = slot.take() {
            self.by_id.remove(&entry.query.id());
            self.free.push(at);
            if let Some(gvk) = entry.query.gvk()
                && let Some(kind) = self.kinds.get_mut(gvk)
            {
                kind.remove(&entry.query, at);
                if kind.is_empty() {
                    self.kinds.remove(gvk);
                }
            }
        }
    }
}

/// Whether the change makes the query's answer another one.
fn differs(query: &Prepared, change: &Change) -> bool {
    let (Some(view), Query::Get(_) | Query::List(_)) = (query.view(), query.query()) else { return false };
    let shown = |object: &Option<Arc<CachedObject>>| {
        object.as_ref().filter(|object| query.selects(object)).map(|object| object.view_hash(view))
    };
    shown(&change.old) != shown(&change.new)
}

#[cfg(test)]
mod tests;
