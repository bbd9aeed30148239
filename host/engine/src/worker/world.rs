//! The objects as this pass knows them: what it was shown, and what it wrote since.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cluster::{Cluster, Depth, Lookup};
use evenkeel_core::contract::{ObjectRef, Query};
use evenkeel_core::memo::AnswerHash;
use evenkeel_core::object::CachedObject;
use evenkeel_core::view::View;

use crate::answers::{Answered, Seen};

/// Objects that this pass wrote: their changes are its own.
#[derive(Default)]
pub(super) struct Written(BTreeSet<ObjectRef>);

/// How an object stands that an action is about.
pub(super) enum Standing {
    /// It is served, and its watch is in step.
    Known(Sight),
    /// The API server does not serve its kind.
    Unserved,
    /// No watch knows yet.
    Unknown,
}

/// An object now, against what the pass was shown of it.
pub(super) struct Sight {
    pub(super) current: Option<Arc<CachedObject>>,
    /// It came, went, or was replaced since.
    pub(super) other: bool,
    /// What the pass looked at has changed since.
    pub(super) changed: bool,
}

impl Written {
    pub(super) fn note(&mut self, object: &ObjectRef) {
        self.0.insert(object.clone());
    }

    /// How the object stands. `primary` is the pass's own: its place, what it was shown of it, and its view.
    pub(super) fn standing(
        &self,
        cluster: &Cluster,
        (object, depth): (&ObjectRef, Depth),
        primary: (&ObjectRef, Option<&CachedObject>, &View),
        answered: &[Answered],
    ) -> Standing {
        let current = match cluster.get_at(object, depth) {
            Lookup::Found(current) => Some(current),
            Lookup::Absent => None,
            Lookup::Unserved => return Standing::Unserved,
            Lookup::NotSynced => return Standing::Unknown,
        };
        let mut sight = Sight { current, other: false, changed: false };
        if self.0.contains(object) {
            return Standing::Known(sight);
        }
        let (key, saw, view) = primary;
        if key == object {
            sight.compare(saw, Some(view));
        }
        for answered in answered {
            match (answered.query.query(), &answered.seen) {
                (Query::Get(get), Seen::Object(saw)) if get.object == *object => {
                    sight.compare(saw.as_deref(), answered.query.view());
                }
                (Query::List(list), Seen::Objects(objects)) if list.gvk == object.gvk => {
                    if let Some(saw) = objects.iter().find(|saw| is(saw, object)) {
                        sight.compare(Some(saw), answered.query.view());
                    }
                }
                (Query::Get(_) | Query::List(_) | Query::Clock | Query::External(_), _) => {}
            }
        }
        Standing::Known(sight)
    }
}

impl Sight {
    fn compare(&mut self, saw: Option<&CachedObject>, view: Option<&View>) {
        let uid = |object: &CachedObject| object.head().uid.clone();
        self.other |= saw.map(uid) != self.current.as_deref().map(uid);
        if let Some(view) = view {
            self.changed |=
                AnswerHash::object(saw, view) != AnswerHash::object(self.current.as_deref(), view);
        }
    }
}

/// Whether the cached object is of this name, its kind being the same.
fn is(cached: &CachedObject, object: &ObjectRef) -> bool {
    cached.head().name == object.name && cached.head().namespace == object.namespace
}
