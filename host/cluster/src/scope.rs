//! What a watch covers.

use std::sync::Arc;

use evenkeel_core::contract::{Gvk, ListQuery, ObjectRef, Query};
use evenkeel_core::object::CachedObject;

/// The objects of a kind that a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every object of the kind.
    All,
    /// Those of one namespace.
    Namespace(Arc<str>),
    /// One object: all that a permission with `get` but not `list` may have.
    Object(ObjectRef),
}

impl Scope {
    /// Whether everything in `other` is in this scope too.
    pub fn covers(&self, other: &Scope) -> bool {
        match (self, other) {
            (Scope::All, _) => true,
            (Scope::Namespace(ours), Scope::Namespace(theirs)) => ours == theirs,
            (Scope::Namespace(ours), Scope::Object(object)) => object.namespace.as_ref() == Some(ours),
            (Scope::Object(ours), Scope::Object(theirs)) => ours == theirs,
            (Scope::Namespace(_) | Scope::Object(_), Scope::All)
            | (Scope::Object(_), Scope::Namespace(_)) => false,
        }
    }

    /// Every scope that covers this one, the widest first.
    pub(crate) fn covering(&self) -> Vec<Scope> {
        match self {
            Scope::All => vec![Scope::All],
            Scope::Namespace(_) => vec![Scope::All, self.clone()],
            Scope::Object(object) => {
                let namespace = object.namespace.clone().map(Scope::Namespace);
                [Some(Scope::All), namespace, Some(self.clone())].into_iter().flatten().collect()
            }
        }
    }

    /// Whether the object at this place is in the scope.
    pub(crate) fn contains(&self, place: &Place) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(namespace) => place.namespace.as_ref() == Some(namespace),
            Scope::Object(object) => object.namespace == place.namespace && object.name == place.name,
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scope::All => write!(f, "all namespaces"),
            Scope::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Scope::Object(object) => write!(f, "{object}"),
        }
    }
}

/// How much of each object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// `apiVersion`, `kind` and `metadata`.
    Metadata,
    /// All of it.
    Whole,
}

impl Depth {
    /// The least that answers a question with this view.
    pub fn of_view<'a>(view: impl IntoIterator<Item = &'a String>) -> Self {
        let mut pointers = view.into_iter().peekable();
        let metadata = pointers.peek().is_some() && pointers.all(|pointer| is_metadata(pointer));
        if metadata { Depth::Metadata } else { Depth::Whole }
    }
}

fn is_metadata(pointer: &str) -> bool {
    let first = pointer.strip_prefix('/').map(|rest| rest.split('/').next().unwrap_or_default());
    matches!(first, Some("metadata" | "apiVersion" | "kind"))
}

/// The watch that a question needs; none for one that the API server is not asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// The kind.
    pub gvk: Gvk,
    /// The narrowest scope that answers it.
    pub scope: Scope,
    /// The least of each object that answers it.
    pub depth: Depth,
}

impl Need {
    /// What a query needs to be answered from the cache.
    pub fn of(query: &Query) -> Option<Self> {
        match query {
            Query::Get(get) => Some(Need {
                gvk: get.object.gvk.clone(),
                scope: Scope::Object(get.object.clone()),
                depth: Depth::of_view(&get.view),
            }),
            Query::List(list) => Some(Need::of_list(list)),
            Query::Clock | Query::External(_) => None,
        }
    }

    pub(crate) fn of_list(list: &ListQuery) -> Self {
        let scope = list.namespace.clone().map_or(Scope::All, Scope::Namespace);
        let fields = list.fields.iter().all(|field| is_metadata(&field.pointer));
        let depth = if fields { Depth::of_view(&list.view) } else { Depth::Whole };
        Need { gvk: list.gvk.clone(), scope, depth }
    }
}

/// Where an object lives within its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// None for a cluster-scoped kind.
    pub(crate) namespace: Option<Arc<str>>,
    /// Its name.
    pub(crate) name: Arc<str>,
}

impl Place {
    /// Of a reference.
    pub(crate) fn of(object: &ObjectRef) -> Self {
        Place { namespace: object.namespace.clone(), name: object.name.clone() }
    }

    /// Of an object.
    pub(crate) fn of_head(object: &CachedObject) -> Self {
        Place { namespace: object.head().namespace.clone(), name: object.head().name.clone() }
    }

    /// As a reference.
    pub(crate) fn reference(&self, gvk: &Gvk) -> ObjectRef {
        ObjectRef { gvk: gvk.clone(), namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        match text.split_once('/') {
            None if text == "*" => Scope::All,
            None => Scope::Namespace(text.into()),
            Some((namespace, name)) => {
                Scope::Object(ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(namespace), name))
            }
        }
    }

    #[test]
    fn a_scope_covers_itself_and_what_lies_in_it() {
        for (ours, theirs, covers) in [
            ("*", "*", true),
            ("*", "a", true),
            ("*", "a/x", true),
            ("a", "*", false),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a/x", true),
            ("a", "b/x", false),
            ("a/x", "*", false),
            ("a/x", "a", false),
            ("a/x", "a/x", true),
            ("a/x", "a/y", false),
        ] {
            assert_eq!(scope(ours).covers(&scope(theirs)), covers, "{ours} covers {theirs}");
        }
    }

    #[test]
    fn only_a_view_of_metadata_alone_is_answered_by_metadata() {
        for (view, depth) in [
            (vec![], Depth::Whole),
            (vec!["/metadata"], Depth::Metadata),
            (vec!["/metadata/labels/a~1b", "/kind"], Depth::Metadata),
            (vec!["/metadata", "/spec"], Depth::Whole),
            (vec!["/metadataX"], Depth::Whole),
            (vec![""], Depth::Whole),
        ] {
            let view: Vec<String> = view.into_iter().map(String::from).collect();
            assert_eq!(Depth::of_view(&view), depth, "{view:?}");
        }
    }
}
