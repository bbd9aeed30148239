//! The objects of one kind as the host knows them.
//!
//! Everything that tells about an object goes through [`KindCache::put`] and [`KindCache::remove`]: watch events, lists,
//! answers to our own writes, live reads. They come in any order, so each is held against what is there: an older
//! revision never replaces a newer one, and a UID that died stays dead.

mod graves;
mod index;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::canonical::canonical_text;
use evenkeel_core::contract::{FieldMatch, Gvk, ListQuery};
use evenkeel_core::deps::Change;
use evenkeel_core::object::CachedObject;
use evenkeel_core::pointer::Pointer;
use evenkeel_core::query::value_at;
use evenkeel_core::selector::Selector;

use self::graves::Graves;
use self::index::{Index, IndexOn};
use self::objects::Objects;
use crate::limits;
use crate::scope::{Depth, Place, Scope};

/// One object in the cache.
#[derive(Clone, Debug)]
struct Entry {
    object: Arc<CachedObject>,
    depth: Depth,
}

/// What the cache says about one object.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The API server does not serve the kind.
    Unserved,
    /// No watch that covers it has its first list yet.
    NotSynced,
    /// There is none.
    Absent,
    /// This is it.
    Found(Arc<CachedObject>),
}

/// What the cache says about many.
#[derive(Clone, Debug)]
pub enum ListLookup {
    /// The API server does not serve the kind.
    Unserved,
    /// No watch that covers them has its first list yet.
    NotSynced,
    /// These, by namespace, then name.
    Found(Vec<Arc<CachedObject>>),
}

/// What is in the cache of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindStats {
    /// The kind.
    pub gvk: Gvk,
    /// Objects.
    pub objects: usize,
    /// Bytes that they and their indexes take, about.
    pub bytes: usize,
}

/// A relist under way.
pub(crate) struct Relist {
    scope: Scope,
    depth: Depth,
    /// The newest revision known when the list was asked for.
    known: u64,
    seen: BTreeSet<Place>,
    /// The server's history starts over: it was restored from a backup, or is another one.
    starts_over: bool,
}

/// The objects of one kind.
pub(crate) struct KindCache {
    gvk: Gvk,
    served: bool,
    objects: Objects,
    /// Parts that are watched, and whether the first list of each is in.
    coverage: BTreeMap<(Scope, Depth), bool>,
    graves: Graves,
    indexes: BTreeMap<IndexOn, Index>,
    bytes: usize,
    /// The newest revision that anything told of.
    newest: u64,
}

/// The revision as a number; API servers promise since 1.35 that it is one that grows.
pub(crate) fn revision(text: &str) -> Option<u64> {
    text.parse().ok()
}

impl KindCache {
    pub(crate) fn new(gvk: Gvk) -> Self {
        KindCache {
            gvk,
            served: true,
            objects: Objects::default(),
            coverage: BTreeMap::new(),
            graves: Graves::default(),
            indexes: BTreeMap::new(),
            bytes: 0,
            newest: 0,
        }
    }

    // ---- what is covered -----------------------------------------------------------------------------------------

    /// Notes that a watch of this part has begun.
    pub(crate) fn cover(&mut self, scope: &Scope, depth: Depth) {
        self.coverage.entry((scope.clone(), depth)).or_insert(false);
    }

    /// Notes that a watch of this part has ended and drops what nothing covers any more. No change is told: nobody asks.
    pub(crate) fn uncover(&mut self, scope: &Scope, depth: Depth) {
        self.coverage.remove(&(scope.clone(), depth));
        if self.coverage.is_empty() {
            // Whoever asks next may ask otherwise, and there is room for so many only.
            self.indexes.clear();
        }
        let places: Vec<Place> = match scope {
            Scope::All => self.objects.places().cloned().collect(),
            Scope::Namespace(namespace) => {
                self.in_namespace(Some(namespace)).map(|(place, _)| place.clone()).collect()
            }
            Scope::Named(_) => self.objects.places().filter(|place| scope.contains(place)).cloned().collect(),
            Scope::Object(object) => vec![Place::of(object)],
        };
        for place in places {
            let covering = self.covering(&place);
            match (covering, self.objects.get_mut(&place)) {
                // What is there may be more than what is still kept up to date.
                (Some(depth), Some(entry)) => entry.depth = entry.depth.min(depth),
                (None, Some(_)) => {
                    self.take(&place);
                }
                (_, None) => {}
            }
        }
    }

    /// Whether some watch covers the object at all, synced or not, and how much of it.
    pub(crate) fn covering(&self, place: &Place) -> Option<Depth> {
        self.parts(&Scope::Object(place.reference(&self.gvk))).map(|(depth, _)| depth).max()
    }

    /// Whether this part is watched and its first list is in.
    pub(crate) fn is_synced(&self, scope: &Scope, depth: Depth) -> bool {
        self.parts(scope).any(|(has, synced)| synced && has >= depth)
    }

    /// Whether a watch covers the object whose first list is in. Asked for each object that a pass rests on, so it makes
    /// nothing where a watch of many covers it; those come first, and are few.
    fn is_place_synced(&self, place: &Place, depth: Depth) -> bool {
        let mut of_many = self.coverage.iter().take_while(|((has, _), _)| !matches!(has, Scope::Object(_)));
        of_many.any(|((scope, has), synced)| *synced && *has >= depth && scope.contains(place))
            || self.is_synced(&Scope::Object(place.reference(&self.gvk)), depth)
    }

    /// The depth of each watch that covers a part, and whether its first list is in.
    fn parts(&self, scope: &Scope) -> impl Iterator<Item = (Depth, bool)> {
        scope.covering(&self.coverage).map(|(depth, synced)| (depth, *synced))
    }

    /// The API server serves the kind. Returns whether that is new.
    pub(crate) fn serve(&mut self) -> bool {
        !std::mem::replace(&mut self.served, true)
    }

    /// Whether the API server serves the kind.
    pub(crate) fn is_served(&self) -> bool {
        self.served
    }

    /// The API server does not serve the kind. Returns the objects that went with it; none if it was known.
    pub(crate) fn cease(&mut self) -> Option<Vec<Change>> {
        if !std::mem::replace(&mut self.served, false) {
            return None;
        }
        for synced in self.coverage.values_mut() {
            *synced = false;
        }
        // They are out of sight and not dead: a kind that comes back brings the same UIDs with it.
        let places: Vec<Place> = self.objects.places().cloned().collect();
        Some(places.iter().filter_map(|place| self.lose(place)).collect())
    }

    // ---- asking --------------------------------------------------------------------------------------------------

    /// One object.
    pub(crate) fn get(&self, place: &Place, depth: Depth) -> Lookup {
        if !self.served {
            return Lookup::Unserved;
        }
        if !self.is_place_synced(place, depth) {
            return Lookup::NotSynced;
        }
        match self.objects.get(place) {
            Some(entry) => Lookup::Found(entry.object.clone()),
            None => Lookup::Absent,
        }
    }

    /// Whatever is cached of it, up to date or not.
    pub(crate) fn peek(&self, place: &Place) -> Option<&Arc<CachedObject>> {
        self.objects.get(place).map(|entry| &entry.object)
    }

    /// Every object that matches; none where an index is to be made first by [`KindCache::index_for`].
    pub(crate) fn list(&self, query: &ListQuery, selector: &Selector, depth: Depth) -> Option<ListLookup> {
        if !self.served {
            return Some(ListLookup::Unserved);
        }
        let scope = query.namespace.clone().map_or(Scope::All, Scope::Namespace);
        if !self.is_synced(&scope, depth) {
            return Some(ListLookup::NotSynced);
        }
        let matches = |object: &CachedObject| {
            query
                .namespace
                .as_ref()
                .is_none_or(|namespace| object.head().namespace.as_ref() == Some(namespace))
                && query
                    .controlled_by
                    .as_deref()
                    .is_none_or(|uid| object.head().controller_uid.as_deref() == Some(uid))
                && selector.matches(&object.head().labels)
        };
        let mut found: Vec<Arc<CachedObject>> = Vec::new();
        let mut fields = query.fields.iter();
        match wanted_index(query) {
            Some((on, value)) if self.can_index(&on) => {
                let index = self.indexes.get(&on)?;
                if matches!(on, IndexOn::Field(_)) {
                    // The index has looked already, and the field of an object need not be read again.
                    fields.next();
                }
                let entries = index.places(value).filter_map(|place| self.objects.get(place));
                found.extend(entries.map(|entry| &entry.object).filter(|object| matches(object)).cloned());
            }
            Some(_) | None => {
                let entries = self.in_namespace(query.namespace.as_ref());
                found.extend(
                    entries.map(|(_, entry)| &entry.object).filter(|object| matches(object)).cloned(),
                );
            }
        }
        for FieldMatch { pointer, value } in fields {
            let (Ok(pointer), Some(value)) = (Pointer::parse(pointer), canonical_text(value)) else {
                return Some(ListLookup::Found(vec![]));
            };
            found.retain(|object| *value_at(object, &pointer) == *value);
        }
        Some(ListLookup::Found(found))
    }

    /// Makes the index that a query wants.
    pub(crate) fn index_for(&mut self, query: &ListQuery) {
        let Some((on, _)) = wanted_index(query) else { return };
        if !self.can_index(&on) || self.indexes.contains_key(&on) {
            return;
        }
        let mut index = Index::default();
        for (place, entry) in self.objects.iter() {
            index.put(place, on.value(&entry.object));
        }
        self.indexes.insert(on, index);
    }

    fn can_index(&self, on: &IndexOn) -> bool {
        self.indexes.contains_key(on) || self.indexes.len() < limits::INDEXES_MAX
    }

    /// Whether an object with this UID is known to be gone.
    pub(crate) fn is_buried(&self, uid: &str) -> bool {
        self.graves.holds(uid)
    }

    /// Objects of a namespace, or all, in order.
    pub(crate) fn in_scope<'a>(
        &'a self,
        namespace: Option<&Arc<str>>,
    ) -> impl Iterator<Item = &'a Arc<CachedObject>> {
        self.in_namespace(namespace).map(|(_, entry)| &entry.object)
    }

    fn in_namespace<'a>(
        &'a self,
        namespace: Option<&Arc<str>>,
    ) -> impl Iterator<Item = (&'a Place, &'a Entry)> {
        let from = Place { namespace: namespace.cloned(), name: "".into() };
        let namespace = namespace.cloned();
        self.objects
            .from(from)
            .take_while(move |(place, _)| namespace.is_none() || place.namespace == namespace)
    }

    pub(crate) fn stats(&self) -> KindStats {
        let indexes: usize = self.indexes.values().map(Index::bytes).sum();
        KindStats { gvk: self.gvk.clone(), objects: self.objects.len(), bytes: self.bytes + indexes }
    }

    /// The newest revision that anything told of.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    // ---- being told ----------------------------------------------------------------------------------------------

    /// Notes a revision that a bookmark or a list told.
    pub(crate) fn reached(&mut self, told: Option<u64>) {
        self.newest = self.newest.max(told.unwrap_or(0));
    }

    /// Takes an object in, unless something newer is known, and says what changed.
    pub(crate) fn put(&mut self, object: Arc<CachedObject>, depth: Depth) -> Option<Change> {
        let place = Place::of_head(&object);
        let told = revision(&object.head().resource_version);
        self.reached(told);
        if self.graves.holds(&object.head().uid) {
            return None;
        }
        if let Some(has) = self.objects.get(&place) {
            if is_same(&has.object, &object) {
                // Nothing new, but perhaps more of it: nobody could ask for that part before.
                if depth > has.depth {
                    self.store(place, object, depth);
                }
                return None;
            }
            let same = has.object.head().uid == object.head().uid;
            let known = revision(&has.object.head().resource_version);
            let older = matches!((told, known), (Some(told), Some(known)) if told <= known);
            if older || (same && depth < has.depth) {
                return None;
            }
            if !same {
                let dead = has.object.head().uid.clone();
                self.graves.bury(&dead);
            }
        }
        Some(self.store(place, object, depth))
    }

    /// The object with this UID is gone. Returns what changed, if it was the one in the cache.
    pub(crate) fn remove(&mut self, place: &Place, uid: &str) -> Option<Change> {
        self.graves.bury(uid);
        let is_it = |entry: &Entry| uid.is_empty() || *entry.object.head().uid == *uid;
        if self.objects.get(place).is_some_and(is_it) { self.vanish(place) } else { None }
    }

    /// Begins a list of this part: everything newer than now may come in between.
    pub(crate) fn relist(&self, scope: &Scope, depth: Depth) -> Relist {
        let scope = scope.clone();
        Relist { scope, depth, known: self.newest, seen: BTreeSet::new(), starts_over: false }
    }

    /// A page of a list, taken at this revision.
    pub(crate) fn page(
        &mut self,
        relist: &mut Relist,
        at: Option<u64>,
        objects: Vec<Arc<CachedObject>>,
    ) -> Vec<Change> {
        if at.is_some_and(|at| at < relist.known) && !relist.starts_over {
            relist.starts_over = true;
            self.graves = Graves::default();
            self.newest = 0;
        }
        let mut changes = Vec::new();
        for object in objects {
            let place = Place::of_head(&object);
            relist.seen.insert(place.clone());
            if relist.starts_over {
                self.reached(revision(&object.head().resource_version));
                if !self.peek(&place).is_some_and(|old| is_same(old, &object)) {
                    changes.push(self.store(place, object, relist.depth));
                }
            } else {
                changes.extend(self.put(object, relist.depth));
            }
        }
        changes
    }

    /// The list is complete, taken at this revision: what it did not show is gone, unless it is newer.
    pub(crate) fn listed(&mut self, relist: Relist, at: Option<u64>) -> Vec<Change> {
        let Relist { scope, depth, known: _, seen, starts_over } = relist;
        let newer = |entry: &Entry| match (revision(&entry.object.head().resource_version), at) {
            (Some(has), Some(at)) => has > at,
            (None, _) | (_, None) => false,
        };
        let gone: Vec<Place> = self
            .objects
            .iter()
            .filter(|(place, entry)| {
                scope.contains(place) && !seen.contains(place) && (starts_over || !newer(entry))
            })
            .map(|(place, _)| place.clone())
            .collect();
        let changes = gone.iter().filter_map(|place| self.vanish(place)).collect();
        if let Some(synced) = self.coverage.get_mut(&(scope, depth)) {
            *synced = true;
        }
        self.reached(at);
        changes
    }

    // ---- storing -------------------------------------------------------------------------------------------------

    fn store(&mut self, place: Place, new: Arc<CachedObject>, depth: Depth) -> Change {
        for (on, index) in &mut self.indexes {
            index.put(&place, on.value(&new));
        }
        self.bytes += weight(&new);
        let entry = Entry { object: new.clone(), depth };
        let object = place.reference(&self.gvk);
        let old = self.objects.insert(place, entry).map(|entry| entry.object);
        self.bytes = self.bytes.saturating_sub(old.as_deref().map_or(0, weight));
        Change { gvk: self.gvk.clone(), object, old, new: Some(new) }
    }

    /// Takes an object out and buries it.
    fn vanish(&mut self, place: &Place) -> Option<Change> {
        let gone = self.lose(place)?;
        self.graves.bury(gone.old.as_ref().map_or("", |old| &*old.head().uid));
        Some(gone)
    }

    /// Takes an object out, of which nobody said that it is dead.
    fn lose(&mut self, place: &Place) -> Option<Change> {
        let old = self.take(place)?;
        Some(Change { gvk: self.gvk.clone(), object: place.reference(&self.gvk), old: Some(old), new: None })
    }

    fn take(&mut self, place: &Place) -> Option<Arc<CachedObject>> {
        let entry = self.objects.remove(place)?;
        for index in self.indexes.values_mut() {
            index.put(place, None);
        }
        self.bytes = self.bytes.saturating_sub(weight(&entry.object));
        Some(entry.object)
    }
}

/// Whether both are one object at one revision.
fn is_same(a: &CachedObject, b: &CachedObject) -> bool {
    a.head().uid == b.head().uid && a.head().resource_version == b.head().resource_version
}

/// The most selective index that a query can use, and the value it asks for.
fn wanted_index(query: &ListQuery) -> Option<(IndexOn, Arc<str>)> {
    if let Some(uid) = &query.controlled_by {
        return Some((IndexOn::Controller, uid.as_str().into()));
    }
    let FieldMatch { pointer, value } = query.fields.first()?;
    Some((IndexOn::Field(Pointer::parse(pointer).ok()?), canonical_text(value)?.into()))
}

/// Bytes that an object takes in the cache, about: its text and the parsed head.
fn weight(object: &CachedObject) -> usize {
    const ENTRY: usize = size_of::<Place>() + size_of::<Entry>();
    object.bytes() + ENTRY
}

#[cfg(test)]
mod tests;
