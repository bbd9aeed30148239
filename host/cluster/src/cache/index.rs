//! Which objects have a value in a field.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel_core::object::CachedObject;
use evenkeel_core::pointer::Pointer;
use evenkeel_core::query::value_at;

use crate::scope::Place;

/// What an index is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IndexOn {
    /// The UID of the controller owner.
    Controller,
    /// The field at a JSON pointer.
    Field(Pointer),
}

impl IndexOn {
    /// What an object has there.
    pub(crate) fn value(&self, object: &CachedObject) -> Option<Arc<str>> {
        match self {
            IndexOn::Controller => object.head().controller_uid.as_deref().map(Into::into),
            IndexOn::Field(pointer) => Some(value_at(object, pointer)),
        }
    }
}

/// An index. It remembers each object's value, so that an old object need not be read again to leave it.
#[derive(Default)]
pub(crate) struct Index {
    places: HashMap<Arc<str>, BTreeSet<Place>>,
    values: BTreeMap<Place, Arc<str>>,
}

impl Index {
    /// Notes what the object at this place has; none where it has nothing or is gone.
    pub(crate) fn put(&mut self, place: &Place, value: Option<Arc<str>>) {
        if self.values.get(place) == value.as_ref() {
            return;
        }
        if let Some(old) = self.values.remove(place)
            && let Some(places) = self.places.get_mut(&old)
        {
            places.remove(place);
            if places.is_empty() {
                self.places.remove(&old);
            }
        }
        if let Some(value) = value {
            // One text a value, however many objects have it.
            let value = self.places.get_key_value(&value).map_or(value.clone(), |(same, _)| same.clone());
            self.places.entry(value.clone()).or_default().insert(place.clone());
            self.values.insert(place.clone(), value);
        }
    }

    /// The places of objects that have this value, in order.
    pub(crate) fn places(&self, value: Arc<str>) -> impl Iterator<Item = &Place> {
        self.places.get(&value).into_iter().flatten()
    }

    /// Bytes it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.places.keys().map(|value| value.len()).sum();
        texts + self.values.len() * (2 * size_of::<Place>() + size_of::<Arc<str>>())
    }
}
