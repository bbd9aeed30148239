//! Answers to queries from the caches, and whether they are there to be given.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cluster::{Cluster, Depth, ListLookup, Lookup, Names, Need, Scope};
use evenkeel_core::contract::{Action, Answer, Controller, Failure, Gvk, Json, ObjectRef, Permission, Query};
use evenkeel_core::grant::Grant;
use evenkeel_core::memo::AnswerHash;
use evenkeel_core::object::CachedObject;
use evenkeel_core::query::Prepared;
use evenkeel_core::view::View;

/// What was seen when a query was answered.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Object(Option<Arc<CachedObject>>),
    Objects(Vec<Arc<CachedObject>>),
    Unserved,
    Time(String),
    External(Result<Json, Failure>),
}

/// A query with what was seen, and with its view parsed.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) query: Arc<Prepared>,
    pub(crate) seen: Seen,
    pub(crate) hash: AnswerHash,
}

impl Answered {
    pub(crate) fn new(query: Arc<Prepared>, seen: Seen) -> Self {
        let hash = seen.hash(query.view());
        Self { query, seen, hash }
    }
}

impl Seen {
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::Object(object) => Answer::Object(object.as_ref().map(|object| Arc::clone(object.json()))),
            Self::Objects(objects) => {
                Answer::Objects(objects.iter().map(|object| Arc::clone(object.json())).collect())
            }
            Self::Unserved => Answer::Unserved,
            Self::Time(time) => Answer::Time(time.clone()),
            Self::External(answer) => Answer::External(answer.clone()),
        }
    }

    /// Of what the view shows of it.
    fn hash(&self, view: Option<&View>) -> AnswerHash {
        let whole = View::whole();
        let view = view.unwrap_or(&whole);
        match self {
            Self::Object(object) => AnswerHash::object(object.as_deref(), view),
            Self::Objects(objects) => AnswerHash::objects(objects, view),
            Self::Unserved => AnswerHash::unserved(),
            // The digest leaves the time out; any hash will do.
            Self::Time(_) => AnswerHash::unserved(),
            Self::External(answer) => AnswerHash::external(answer),
        }
    }
}

/// Has what a query needs watched, no wider than the grant: a permission to get without one to list watches single
/// objects, and a grant of some namespaces is looked into namespace by namespace.
pub(crate) fn want(cluster: &Cluster, grant: &Grant, query: &Query) {
    if let Some(need) = Need::of(query) {
        want_need(cluster, grant, &need);
    }
}

/// Has watched what there is need of, no wider than the grant.
fn want_need(cluster: &Cluster, grant: &Grant, need: &Need) {
    let Need { gvk, scope, depth } = widened(grant, need);
    cluster.want(&gvk, scope, depth);
}

/// The watch that a need leads to under a grant. Of a kind that the plugin puts in place it is a watch of whole objects at once:
/// they are needed as soon as it has put one, and a watch of their metadata would end then. Of Secrets it is never more
/// than somebody looks at.
pub(crate) fn widened(grant: &Grant, need: &Need) -> Need {
    let whole = !is_secret(&need.gvk) && grant.may_put(&need.gvk);
    let depth = if whole { Depth::Whole } else { need.depth };
    Need { gvk: need.gvk.clone(), scope: widest(grant, &need.gvk, &need.scope), depth }
}

/// Has an object watched that is written, whether or not it may be asked for.
pub(crate) fn want_object(cluster: &Cluster, grant: &Grant, object: &ObjectRef, depth: Depth) {
    want_need(cluster, grant, &need_of(object, depth));
}

/// The least that has to be watched to know of an object.
pub(crate) fn need_of(object: &ObjectRef, depth: Depth) -> Need {
    Need { gvk: object.gvk.clone(), scope: Scope::Object(object.clone()), depth }
}

/// How much of a controller's primaries is watched. Of Secrets it is no more than its view shows, so that what nobody
/// looks at is not in memory.
pub(crate) fn primary_depth(controller: &Controller) -> Depth {
    if is_secret(&controller.primary) { Depth::of_view(&controller.view) } else { Depth::Whole }
}

/// How much of an object has to be known for an action on it.
pub(crate) fn action_depth(action: &Action) -> Depth {
    match action {
        Action::AddFinalizer(it) | Action::RemoveFinalizer(it) if is_secret(&it.object.gvk) => {
            Depth::Metadata
        }
        _ => Depth::Whole,
    }
}

/// Whether an object of this kind holds secrets of somebody.
pub(crate) fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

/// The scope to watch for what needs at least `need`: one watch a kind, or a namespace, where the grant lets us list,
/// and one of some names where it lets us list those.
fn widest(grant: &Grant, gvk: &Gvk, need: &Scope) -> Scope {
    if !grant.may_list(gvk) {
        return of_names(grant, need).unwrap_or_else(|| need.clone());
    }
    let by_name = names(grant).is_some();
    match need {
        Scope::Object(ObjectRef { namespace: Some(namespace), .. }) if by_name => {
            Scope::Namespace(Arc::clone(namespace))
        }
        _ if by_name => need.clone(),
        _ => Scope::All,
    }
}

/// One watch of all objects that have such a name, as far as the grant lets us look.
fn of_names(grant: &Grant, need: &Scope) -> Option<Scope> {
    let Scope::Object(object) = need else { return None };
    let globs = grant.listed_names(object)?.into();
    let namespace = match (grant.namespaces(), names(grant)) {
        (None, _) => None,
        (Some(_), Some(_)) => Some(object.namespace.clone()?),
        // Which namespaces there are is not known.
        (Some(_), None) => return None,
    };
    Some(Scope::Named(Names { namespace, globs }))
}

/// What of a controller's primaries is watched.
pub(crate) fn primary_scopes(grant: &Grant) -> Vec<Scope> {
    match names(grant) {
        Some(names) => names.into_iter().map(|name| Scope::Namespace(name.into())).collect(),
        None => vec![Scope::All],
    }
}

/// What of a permission's objects can be watched before any of them is asked for.
pub(crate) fn standing_scopes(grant: &Grant, permission: &Permission) -> Vec<Scope> {
    let gvk = &permission.gvk;
    if grant.may_list(gvk) {
        return primary_scopes(grant);
    }
    // A pattern fits itself.
    let object = |name: &String| Scope::Object(ObjectRef::new(gvk.clone(), None, name));
    let scopes: BTreeSet<Scope> =
        permission.names.iter().filter_map(|name| of_names(grant, &object(name))).collect();
    scopes.into_iter().collect()
}

/// The namespaces of a grant, where it gives their very names.
fn names(grant: &Grant) -> Option<Vec<&str>> {
    let globs = grant.namespaces()?;
    let names: Vec<_> = globs.iter().map(|glob| glob.as_str()).collect();
    names.iter().all(|name| !name.contains(['*', '?', '['])).then_some(names)
}

/// What the caches say to a `get` or a `list`, or which watch has yet to be in step; none for a query that is not
/// for them.
pub(crate) fn look(cluster: &Cluster, query: &Query) -> Option<Result<Seen, Box<Need>>> {
    let seen = match query {
        Query::Get(get) => match cluster.get_at(&get.object, Depth::of_view(&get.view)) {
            Lookup::Found(object) => Seen::Object(Some(object)),
            Lookup::Absent => Seen::Object(None),
            Lookup::Unserved => Seen::Unserved,
            Lookup::NotSynced => return Some(Err(Box::new(Need::of(query)?))),
        },
        Query::List(list) => match cluster.list(list) {
            ListLookup::Found(objects) => Seen::Objects(objects),
            ListLookup::Unserved => Seen::Unserved,
            ListLookup::NotSynced => return Some(Err(Box::new(Need::of(query)?))),
        },
        Query::Clock | Query::External(_) => return None,
    };
    Some(Ok(seen))
}
