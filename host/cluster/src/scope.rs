//! What a watch covers.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::contract::{Gvk, ListQuery, ObjectRef, Query};
use evenkeel_core::names::Glob;
use evenkeel_core::object::CachedObject;

/// The objects of a kind that a watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every object of the kind.
    All,
    /// Those of one namespace.
    Namespace(Arc<str>),
    /// Those of some names: what a permission to list some names may have.
    Named(Names),
    /// One object: all that a permission with `get` but not `list` may have.
    Object(ObjectRef),
}

/// Names of objects, in one namespace or wherever they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    /// The namespace; none for all.
    pub namespace: Option<Arc<str>>,
    /// What the names look like: one of these fits.
    pub globs: Arc<[Glob]>,
}

impl Names {
    /// Whether an object there is among them.
    pub fn contains(&self, namespace: Option<&str>, name: &str) -> bool {
        self.is_in(namespace) && self.globs.iter().any(|glob| glob.matches(name))
    }

    /// The only name, where an API server can select by it. It knows no patterns.
    pub(crate) fn only(&self) -> Option<&str> {
        let [glob] = &*self.globs else { return None };
        glob.is_literal().then_some(glob.as_str())
    }

    fn is_in(&self, namespace: Option<&str>) -> bool {
        self.namespace.as_deref().is_none_or(|ours| namespace == Some(ours))
    }

    fn covers(&self, other: &Names) -> bool {
        self.is_in(other.namespace.as_deref()) && other.globs.iter().all(|glob| self.globs.contains(glob))
    }
}

impl Scope {
    /// Whether everything in `other` is in this scope too.
    pub fn covers(&self, other: &Scope) -> bool {
        match (self, other) {
            (Scope::All, _) => true,
            (Scope::Namespace(ours), Scope::Namespace(theirs)) => ours == theirs,
            (Scope::Namespace(ours), Scope::Named(names)) => names.namespace.as_ref() == Some(ours),
            (Scope::Namespace(ours), Scope::Object(object)) => object.namespace.as_ref() == Some(ours),
            (Scope::Named(ours), Scope::Named(theirs)) => ours.covers(theirs),
            (Scope::Named(ours), Scope::Object(object)) => {
                ours.contains(object.namespace.as_deref(), &object.name)
            }
            (Scope::Object(ours), Scope::Object(theirs)) => ours == theirs,
            (Scope::Namespace(_) | Scope::Named(_) | Scope::Object(_), Scope::All)
            | (Scope::Named(_) | Scope::Object(_), Scope::Namespace(_))
            | (Scope::Object(_), Scope::Named(_)) => false,
        }
    }

    /// What a map knows of the scopes that cover this one, the widest first. There may be thousands of single objects,
    /// so only the few that can are looked for.
    pub(crate) fn covering<'m, V>(
        &self,
        parts: &'m BTreeMap<(Scope, Depth), V>,
    ) -> impl Iterator<Item = (Depth, &'m V)> {
        let (namespace, itself) = match self {
            Scope::All => (None, None),
            Scope::Namespace(namespace) => (Some(namespace.clone()), None),
            Scope::Named(names) => (names.namespace.clone(), None),
            Scope::Object(object) => (object.namespace.clone(), Some(self)),
        };
        let exact = move |scope: Scope| {
            let depths = [Depth::Metadata, Depth::Whole];
            depths.into_iter().filter_map(move |depth| Some((depth, parts.get(&(scope.clone(), depth))?)))
        };
        let named = parts
            .range((Scope::Named(Names::default()), Depth::Metadata)..)
            .take_while(|((has, _), _)| matches!(has, Scope::Named(_)))
            .filter(|((has, _), _)| has.covers(self))
            .map(|((_, depth), value)| (*depth, value));
        exact(Scope::All)
            .chain(namespace.map(Scope::Namespace).into_iter().flat_map(exact))
            .chain(named)
            .chain(itself.cloned().into_iter().flat_map(exact))
    }

    /// The namespace that all of it lies in; none where it lies in all of them, or in none.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace),
            Scope::Named(names) => names.namespace.as_deref(),
            Scope::Object(object) => object.namespace.as_deref(),
        }
    }

    /// Whether the object at this place is in the scope.
    pub(crate) fn contains(&self, place: &Place) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(namespace) => place.namespace.as_ref() == Some(namespace),
            Scope::Named(names) => names.contains(place.namespace.as_deref(), &place.name),
            Scope::Object(object) => object.namespace == place.namespace && object.name == place.name,
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scope::All => write!(f, "all namespaces"),
            Scope::Namespace(namespace) => write!(f, "namespace {namespace}"),
            Scope::Named(Names { namespace, globs }) => {
                match namespace {
                    Some(namespace) => write!(f, "namespace {namespace}")?,
                    None => write!(f, "all namespaces")?,
                }
                let names: Vec<_> = globs.iter().map(Glob::as_str).collect();
                write!(f, ", named {}", names.join(" or "))
            }
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
            Some((namespace, names)) if names.starts_with('=') => {
                let globs = names.split('=').skip(1).map(Glob::new).collect();
                let namespace = (namespace != "*").then(|| namespace.into());
                Scope::Named(Names { namespace, globs })
            }
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
            ("*", "*/=x", true),
            ("a", "a/=x", true),
            ("a", "*/=x", false),
            ("*/=x", "*", false),
            ("*/=x", "a", false),
            ("*/=x", "b/x", true),
            ("*/=x", "b/y", false),
            ("a/=x", "b/x", false),
            ("*/=x-*=y", "b/x-1", true),
            ("*/=x-*=y", "a/=y", true),
            ("a/=x-*=y", "*/=y", false),
            ("*/=y", "*/=x-*=y", false),
            ("a/x", "a/=x", false),
        ] {
            assert_eq!(scope(ours).covers(&scope(theirs)), covers, "{ours} covers {theirs}");
        }
    }

    #[test]
    fn what_covers_a_part_is_found_among_all_that_there_is() {
        let all = ["*", "a", "b", "*/=x", "a/=x=y", "b/=x", "a/x", "a/y"];
        let parts: BTreeMap<_, _> = all.iter().map(|text| ((scope(text), Depth::Whole), *text)).collect();
        for (asked, covering) in [
            ("*", vec!["*"]),
            ("a", vec!["*", "a"]),
            ("a/x", vec!["*", "a", "*/=x", "a/=x=y", "a/x"]),
            ("b/y", vec!["*", "b"]),
            ("a/=y", vec!["*", "a", "a/=x=y"]),
        ] {
            let found: Vec<_> = scope(asked).covering(&parts).map(|(_, text)| *text).collect();
            assert_eq!(found, covering, "{asked}");
        }
    }

    #[test]
    fn only_one_plain_name_is_selected_by_the_server() {
        for (names, only) in [("*/=x", Some("x")), ("*/=x-*", None), ("*/=x=y", None)] {
            let Scope::Named(names) = scope(names) else { panic!("names") };
            assert_eq!(names.only(), only);
        }
        assert_eq!(scope("*/=x=y-*").to_string(), "all namespaces, named x or y-*");
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
