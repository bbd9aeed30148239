//! The objects of a kind by their place: one is found at once, and many are walked in order.

use std::collections::{BTreeSet, HashMap};

use super::Entry;
use crate::scope::Place;

/// Every look at a key asks for a dozen single objects, and few ask for many: a look-up that compares names on its way
/// down a tree costs more than all the rest of it.
#[derive(Default)]
pub(super) struct Objects {
    by_place: HashMap<Place, Entry>,
    /// The same places, in order.
    places: BTreeSet<Place>,
}

impl Objects {
    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(super) fn get(&self, place: &Place) -> Option<&Entry> {
        self.by_place.get(place)
    }

    pub(super) fn get_mut(&mut self, place: &Place) -> Option<&mut Entry> {
        self.by_place.get_mut(place)
    }

    /// Puts an entry in its place; returns what was there.
    pub(super) fn insert(&mut self, place: Place, entry: Entry) -> Option<Entry> {
        if let Some(has) = self.by_place.get_mut(&place) {
            return Some(std::mem::replace(has, entry));
        }
        self.places.insert(place.clone());
        self.by_place.insert(place, entry)
    }

    pub(super) fn remove(&mut self, place: &Place) -> Option<Entry> {
        let entry = self.by_place.remove(place)?;
        self.places.remove(place);
        Some(entry)
    }

    /// Every place, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// Every entry, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &Entry)> {
        self.with_entries(self.places.iter())
    }

    /// Every entry from a place on, in order.
    pub(super) fn from(&self, place: Place) -> impl Iterator<Item = (&Place, &Entry)> {
        self.with_entries(self.places.range(place..))
    }

    fn with_entries<'a>(
        &'a self,
        places: impl Iterator<Item = &'a Place>,
    ) -> impl Iterator<Item = (&'a Place, &'a Entry)> {
        places.filter_map(|place| Some((place, self.by_place.get(place)?)))
    }
}
