//! The queries about one kind, each filed under its most selective condition.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Change;
use crate::contract::{Json, Query};
use crate::object::CachedObject;
use crate::pointer::Pointer;
use crate::query::{Prepared, value_at};

type Places = BTreeSet<usize>;

/// Where a query is filed.
enum Drawer<'q> {
    Object(&'q Option<Arc<str>>, &'q Arc<str>),
    Field(&'q Pointer, &'q Json),
    Owner(&'q str),
    Label(&'q str, &'q str),
    Namespace(&'q Arc<str>),
    Rest,
}

impl<'q> Drawer<'q> {
    /// The most selective one first: a field's value and an owner name few objects, a namespace many.
    fn of(query: &'q Prepared) -> Option<Self> {
        match query.query() {
            Query::Get(get) => Some(Self::Object(&get.object.namespace, &get.object.name)),
            Query::List(list) => {
                let field = query.fields().first().map(|(pointer, value)| Self::Field(pointer, value));
                let owner = || list.controlled_by.as_deref().map(Self::Owner);
                let label = || query.selector()?.pinned().map(|(key, value)| Self::Label(key, value));
                let namespace = || list.namespace.as_ref().map(Self::Namespace);
                Some(field.or_else(owner).or_else(label).or_else(namespace).unwrap_or(Self::Rest))
            }
            Query::Clock | Query::External(_) => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct KindIndex {
    len: usize,
    objects: HashMap<Option<Arc<str>>, HashMap<Arc<str>, Places>>,
    fields: HashMap<Pointer, HashMap<Json, Places>>,
    owners: HashMap<Box<str>, Places>,
    labels: HashMap<Box<str>, HashMap<Box<str>, Places>>,
    namespaces: HashMap<Arc<str>, Places>,
    rest: Places,
}

impl KindIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn insert(&mut self, query: &Prepared, at: usize) {
        let Some(drawer) = Drawer::of(query) else { return };
        self.len += 1;
        match drawer {
            Drawer::Object(namespace, name) => {
                self.objects.entry(namespace.clone()).or_default().entry(name.clone()).or_default()
            }
            Drawer::Field(pointer, value) => {
                self.fields.entry(pointer.clone()).or_default().entry(value.clone()).or_default()
            }
            Drawer::Owner(uid) => self.owners.entry(uid.into()).or_default(),
            Drawer::Label(key, value) => {
                self.labels.entry(key.into()).or_default().entry(value.into()).or_default()
            }
            Drawer::Namespace(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
            Drawer::Rest => &mut self.rest,
        }
        .insert(at);
    }

    pub(super) fn remove(&mut self, query: &Prepared, at: usize) {
        let Some(drawer) = Drawer::of(query) else { return };
        self.len -= 1;
        match drawer {
            Drawer::Object(namespace, name) => remove_nested(&mut self.objects, namespace, name, at),
            Drawer::Field(pointer, value) => remove_nested(&mut self.fields, pointer, value, at),
            Drawer::Owner(uid) => remove(&mut self.owners, uid, at),
            Drawer::Label(key, value) => remove_nested(&mut self.labels, key, value, at),
            Drawer::Namespace(namespace) => remove(&mut self.namespaces, &**namespace, at),
            Drawer::Rest => drop(self.rest.remove(&at)),
        }
    }

    /// The entries that a change may concern; none that it does concern is missing.
    pub(super) fn candidates(&self, change: &Change) -> Places {
        let mut found = Places::new();
        if let Some(places) =
            self.objects.get(&change.object.namespace).and_then(|names| names.get(&change.object.name))
        {
            found.extend(places);
        }
        for object in change.old.iter().chain(&change.new) {
            self.about(object, &mut found);
        }
        found
    }

    fn about(&self, object: &CachedObject, found: &mut Places) {
        let head = object.head();
        let mut take = |places: Option<&Places>| found.extend(places.into_iter().flatten());
        for (pointer, values) in &self.fields {
            take(values.get(&value_at(object, pointer)));
        }
        if let Some(uid) = &head.controller_uid {
            take(self.owners.get(uid));
        }
        if !self.labels.is_empty() {
            for (key, value) in head.labels.iter() {
                take(self.labels.get(key).and_then(|values| values.get(value)));
            }
        }
        if let Some(namespace) = &head.namespace {
            take(self.namespaces.get(namespace));
        }
        take(Some(&self.rest));
    }

    /// Every entry, each once.
    pub(super) fn entries(&self) -> impl Iterator<Item = usize> {
        let objects = self.objects.values().flat_map(HashMap::values);
        let fields = self.fields.values().flat_map(HashMap::values);
        let labels = self.labels.values().flat_map(HashMap::values);
        let rest = self.owners.values().chain(self.namespaces.values()).chain([&self.rest]);
        objects.chain(fields).chain(labels).chain(rest).flatten().copied()
    }
}

fn remove<A, Q>(map: &mut HashMap<A, Places>, key: &Q, at: usize)
where
    A: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    if let Some(places) = map.get_mut(key) {
        places.remove(&at);
        if places.is_empty() {
            map.remove(key);
        }
    }
}

fn remove_nested<A, B, Q, R>(map: &mut HashMap<A, HashMap<B, Places>>, outer: &Q, inner: &R, at: usize)
where
    A: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    B: std::borrow::Borrow<R> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
    R: std::hash::Hash + Eq + ?Sized,
{
    if let Some(values) = map.get_mut(outer) {
        remove(values, inner, at);
        if values.is_empty() {
            map.remove(outer);
        }
    }
}
