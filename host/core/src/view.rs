//! The part of an object that a question is about: a change outside it wakes nobody.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::fingerprint::{Fingerprint, Hasher};
use crate::limits::{VIEW_POINTERS_MAX, VIEWS_SHARED_MAX};
use crate::pointer::{Pointer, PointerError};

/// Why pointers make no view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// One of them is none.
    #[error("{text:?} is no JSON pointer")]
    Pointer {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        cause: PointerError,
    },
    /// They are too many.
    #[error("a view has at most {VIEW_POINTERS_MAX} pointers, this one has {given}")]
    TooMany {
        /// So many were given.
        given: usize,
    },
}

/// A set of JSON pointers; the empty one is the whole object. The host's own views may be about what a field manager owns, too:
/// no plugin sees that, and no pointer leads there.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View(Arc<Parts>);

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Parts {
    pointers: Box<[Pointer]>,
    owner: Option<Owner>,
    id: u64,
}

/// Whose fields a view is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The field manager.
    pub manager: Box<str>,
    /// The subresource that it applies to; none for the object itself.
    pub subresource: Option<&'static str>,
}

impl View {
    /// From the pointers of a query or a controller; their order and repetitions do not matter.
    pub fn parse<S: AsRef<str>>(pointers: &[S]) -> Result<Self, ViewError> {
        if pointers.len() > VIEW_POINTERS_MAX {
            return Err(ViewError::TooMany { given: pointers.len() });
        }
        let parse = |text: &S| {
            let text = text.as_ref();
            Pointer::parse(text).map_err(|cause| ViewError::Pointer { text: text.to_owned(), cause })
        };
        let mut pointers = pointers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        pointers.sort();
        pointers.dedup();
        // The pointer to the whole makes all others idle.
        if pointers.first().is_some_and(|pointer| pointer.as_str().is_empty()) {
            pointers.clear();
        }
        Ok(Self::of(pointers.into(), None))
    }

    fn of(pointers: Box<[Pointer]>, owner: Option<Owner>) -> Self {
        let mut hasher = Hasher::new("view");
        pointers.iter().for_each(|pointer| hasher.text(pointer.as_str()));
        if let Some(Owner { manager, subresource }) = &owner {
            hasher.maybe(*subresource);
            hasher.text(manager);
        }
        let Fingerprint(id) = hasher.finish();
        Self(Arc::new(Parts { pointers, owner, id }))
    }

    /// The same, and which fields a manager owns by apply.
    pub fn with_owner(self, owner: Owner) -> Self {
        Self::of(self.0.pointers.clone(), Some(owner))
    }

    /// The whole object.
    pub fn whole() -> Self {
        static WHOLE: LazyLock<View> = LazyLock::new(|| {
            let none: [&str; 0] = [];
            View::parse(&none).expect("no pointer is no wrong pointer")
        });
        WHOLE.clone()
    }

    /// Whether it is the whole object, and nothing besides.
    pub fn is_whole(&self) -> bool {
        self.0.pointers.is_empty() && self.0.owner.is_none()
    }

    /// Whose fields it is about, besides its parts.
    pub fn owner(&self) -> Option<&Owner> {
        self.0.owner.as_ref()
    }

    /// Its parts, sorted; none for all.
    pub fn pointers(&self) -> &[Pointer] {
        &self.0.pointers
    }

    /// Names the view: equal views have equal ids.
    pub fn id(&self) -> u64 {
        self.0.id
    }
}

/// Views that are held by many, each in memory once: what thousands of objects are applied by is a handful of views.
#[derive(Debug, Default)]
pub struct Views(HashMap<u64, View>);

impl Views {
    /// The view, as all others hold it that asked for the same.
    pub fn shared(&mut self, view: View) -> View {
        if self.0.len() >= VIEWS_SHARED_MAX {
            // Whoever holds one keeps it. It is rare: plugins that put names or numbers into keys of what they apply.
            self.0.clear();
        }
        let known = self.0.entry(view.id()).or_insert_with(|| view.clone());
        if *known == view { known.clone() } else { view }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pointers().iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_make_no_other_view() {
        let a = View::parse(&["/spec", "/metadata/labels"]).expect("a view");
        let b = View::parse(&["/metadata/labels", "/spec", "/spec"]).expect("a view");
        assert_eq!((&a, a.id()), (&b, b.id()));
        assert_ne!(a.id(), View::parse(&["/spec"]).expect("a view").id());
    }

    #[test]
    fn equal_views_are_held_once_and_the_table_of_them_is_bounded() {
        let view = |name: usize| View::parse(&[format!("/spec/{name}")]).expect("a view");
        let mut views = Views::default();
        let first = views.shared(view(0));
        assert!(Arc::ptr_eq(&first.0, &views.shared(view(0)).0));
        for name in 0..2 * VIEWS_SHARED_MAX {
            assert_eq!(views.shared(view(name)), view(name));
            assert!(views.0.len() <= VIEWS_SHARED_MAX);
        }
    }

    #[test]
    fn a_pointer_to_the_whole_is_the_whole() {
        let view = View::parse(&["/spec", ""]).expect("a view");
        assert!(view.is_whole());
        assert_eq!(view, View::whole());
    }

    #[test]
    fn a_view_of_what_a_manager_owns_is_another_one_for_each_manager_and_subresource() {
        let owner = |manager: &str, subresource| Owner { manager: manager.into(), subresource };
        let view = |owner| View::parse(&["/spec"]).expect("a view").with_owner(owner);
        let views = [view(owner("a", None)), view(owner("b", None)), view(owner("a", Some("status")))];
        let ids: std::collections::BTreeSet<_> = views.iter().map(View::id).collect();
        assert_eq!(ids.len(), 3);
        assert!(!ids.contains(&View::parse(&["/spec"]).expect("a view").id()));
        assert!(!View::whole().with_owner(owner("a", None)).is_whole());
    }

    #[test]
    fn a_wrong_pointer_is_named() {
        let error = View::parse(&["/spec", "status"]).expect_err("no pointer");
        assert_eq!(error.to_string(), "\"status\" is no JSON pointer");
        let error = View::parse(&vec!["/a"; 33]).expect_err("too many");
        assert_eq!(error, ViewError::TooMany { given: 33 });
    }
}
