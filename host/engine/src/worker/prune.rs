//! Objects of the kinds that a conclusion prunes, which the primary controls and the conclusion left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cluster::{ListLookup, Need};
use evenkeel_core::contract::{Action, Deletion, Gvk, ListQuery, ObjectRef, Propagation, Query};
use evenkeel_core::object::CachedObject;

use super::look::{Look, Stop};
use crate::answers::want;

/// The question after what a primary controls of a kind.
pub(crate) fn controlled(primary: &CachedObject, gvk: &Gvk) -> Query {
    Query::List(ListQuery {
        gvk: gvk.clone(),
        // What a namespaced object controls lives beside it.
        namespace: primary.head().namespace.clone(),
        labels: String::new(),
        fields: vec![],
        controlled_by: Some(primary.head().uid.clone()),
        view: vec!["/metadata".into()],
    })
}

impl Look<'_> {
    /// The questions whose answers are pruned.
    pub(super) fn prune_queries(&self, kinds: &[Gvk]) -> Vec<Query> {
        let Some(primary) = &self.primary else { return vec![] };
        kinds.iter().map(|gvk| controlled(primary, gvk)).collect()
    }

    /// What is to be deleted, less what the conclusion applied.
    pub(super) fn victims(
        &self,
        kinds: &[Gvk],
        applied: &BTreeSet<ObjectRef>,
    ) -> Result<Vec<Arc<CachedObject>>, Stop> {
        let mut victims = Vec::new();
        for query in self.prune_queries(kinds) {
            let grant = &self.taken.loaded.grant;
            grant.allows_query(&query).map_err(|denial| self.denied(&denial))?;
            want(&self.shared.cluster, grant, &query);
            let Query::List(list) = &query else { continue };
            match self.shared.cluster.list(list) {
                ListLookup::Found(found) => {
                    let doomed = |object: &Arc<CachedObject>| {
                        !object.head().deleting && !applied.contains(&object.reference())
                    };
                    victims.extend(found.into_iter().filter(doomed));
                }
                // There is nothing of a kind that is not served.
                ListLookup::Unserved => {}
                ListLookup::NotSynced => match Need::of(&query) {
                    Some(need) => return Err(Stop::Wait(Box::new(need))),
                    None => continue,
                },
            }
        }
        Ok(victims)
    }
}

/// The deletion of an object that was left out.
pub(super) fn deletion(victim: &CachedObject) -> Action {
    Action::Delete(Deletion {
        object: victim.reference(),
        uid: Some(victim.head().uid.clone()),
        propagation: Propagation::Background,
    })
}
