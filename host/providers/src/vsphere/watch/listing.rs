//! Which objects the collector's list view holds, and which it should: decided here, called for elsewhere.

use std::collections::BTreeSet;

use crate::vsphere::data::MoRef;

/// A list view and what is wanted of it.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The view in use; none while there is no collector.
    view: Option<MoRef>,
    /// Wanted and held: changes are told.
    held: BTreeSet<MoRef>,
    /// Wanted, not held yet.
    bare: BTreeSet<MoRef>,
    /// Held, and wanted no more.
    idle: BTreeSet<MoRef>,
}

/// One change of a list view, under way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) add: BTreeSet<MoRef>,
    pub(super) remove: BTreeSet<MoRef>,
}

impl Listing {
    /// An object is wanted.
    pub(super) fn want(&mut self, object: &MoRef) {
        if self.idle.remove(object) {
            self.held.insert(object.clone());
        } else if !self.held.contains(object) {
            self.bare.insert(object.clone());
        }
    }

    /// An object is wanted no more.
    pub(super) fn release(&mut self, object: &MoRef) {
        self.bare.remove(object);
        if self.held.remove(object) {
            self.idle.insert(object.clone());
        }
    }

    /// Whether changes of an object are told.
    pub(super) fn holds(&self, object: &MoRef) -> bool {
        self.held.contains(object)
    }

    /// Whether everything that is wanted is held.
    pub(super) fn is_full(&self) -> bool {
        self.bare.is_empty()
    }

    /// How many objects are held for nobody.
    pub(super) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Begins anew with a view that holds nothing, or with none.
    pub(super) fn renew(&mut self, view: Option<MoRef>) {
        self.bare.append(&mut self.held);
        self.idle.clear();
        self.view = view;
    }

    /// What to change next, at most so many objects each way. What leaves is not held from now on: whoever wants it
    /// meanwhile asks for another change.
    pub(super) fn change(&mut self, max: usize) -> Option<Change> {
        let add: BTreeSet<MoRef> = self.bare.iter().take(max).cloned().collect();
        let remove: BTreeSet<MoRef> = self.idle.iter().take(max).cloned().collect();
        self.idle.retain(|object| !remove.contains(object));
        (!add.is_empty() || !remove.is_empty()).then_some(Change { add, remove })
    }

    /// A view was changed so. One that is in use no more changes nothing.
    pub(super) fn changed(&mut self, view: &MoRef, change: Change) {
        if self.view.as_ref() != Some(view) {
            return;
        }
        for object in change.add {
            if self.bare.remove(&object) {
                self.held.insert(object);
            } else {
                self.idle.insert(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(number: u8) -> MoRef {
        MoRef::new("VirtualMachine", &format!("vm-{number}"))
    }

    fn set(numbers: &[u8]) -> BTreeSet<MoRef> {
        numbers.iter().map(|number| vm(*number)).collect()
    }

    fn view(number: u8) -> MoRef {
        MoRef::new("ListView", &number.to_string())
    }

    fn listing(wanted: &[u8]) -> Listing {
        let mut listing = Listing::default();
        listing.renew(Some(view(1)));
        wanted.iter().for_each(|number| listing.want(&vm(*number)));
        listing
    }

    #[test]
    fn what_is_wanted_by_many_at_once_is_one_change() {
        let mut listing = listing(&[1, 2, 3]);
        let change = listing.change(2).expect("a change");
        assert_eq!(change, Change { add: set(&[1, 2]), remove: set(&[]) });
        listing.changed(&view(1), change);
        assert!(listing.holds(&vm(2)) && !listing.holds(&vm(3)));
        assert_eq!(listing.change(2), Some(Change { add: set(&[3]), remove: set(&[]) }));
    }

    #[test]
    fn what_is_wanted_again_before_it_left_never_leaves() {
        let mut listing = listing(&[1]);
        let change = listing.change(9).expect("a change");
        listing.changed(&view(1), change);
        listing.release(&vm(1));
        listing.want(&vm(1));
        assert!(listing.holds(&vm(1)));
        assert_eq!(listing.change(9), None);
    }

    #[test]
    fn what_is_wanted_again_while_it_leaves_is_added_again() {
        let mut listing = listing(&[1]);
        let change = listing.change(9).expect("a change");
        listing.changed(&view(1), change);
        listing.release(&vm(1));
        let leaving = listing.change(9).expect("a change");
        assert_eq!(leaving, Change { add: set(&[]), remove: set(&[1]) });
        listing.want(&vm(1));
        listing.changed(&view(1), leaving);
        assert!(!listing.holds(&vm(1)));
        assert_eq!(listing.change(9), Some(Change { add: set(&[1]), remove: set(&[]) }));
    }

    #[test]
    fn what_is_released_while_it_is_added_leaves_with_the_next_change() {
        let mut listing = listing(&[1]);
        let change = listing.change(9).expect("a change");
        listing.release(&vm(1));
        listing.changed(&view(1), change);
        assert_eq!((listing.holds(&vm(1)), listing.idle()), (false, 1));
        assert_eq!(listing.change(9), Some(Change { add: set(&[]), remove: set(&[1]) }));
    }

    #[test]
    fn a_change_of_a_view_that_was_given_up_counts_for_nothing() {
        let mut listing = listing(&[1]);
        let change = listing.change(9).expect("a change");
        listing.renew(Some(view(2)));
        listing.changed(&view(1), change);
        assert!(!listing.holds(&vm(1)) && !listing.is_full());
    }
}
