//! Which watches somebody still needs, once a plugin, or a version of one, has gone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_cluster::{Need, Scope};
use evenkeel_core::contract::Query;
use evenkeel_core::grant::Grant;

use crate::answers::{action_depth, need_of, primary_depth, primary_scopes, widened};
use crate::keys::{Entry, Wait};
use crate::limits::SINGLE_WATCHES_OPENED_MAX;
use crate::shared::Shared;
use crate::state::State;

impl Shared {
    /// Ends every watch that nobody loaded needs. One that is wider than the grants of those who are left is ended too,
    /// and narrower ones take its place: their keys wait until these are in step.
    pub(crate) fn keep_needed_watches(&self) {
        let needed = self.state().needed_watches();
        self.cluster.retain(|gvk, scope, depth| {
            needed.contains(&Need { gvk: gvk.clone(), scope: scope.clone(), depth })
        });
        for Need { gvk, scope, depth } in needed {
            self.cluster.want(&gvk, scope, depth);
        }
        self.wake();
    }
}

/// When it is next looked which watches of single objects are needed.
#[derive(Debug)]
pub(crate) struct Sweep(AtomicU64);

impl Default for Sweep {
    fn default() -> Self {
        Self(AtomicU64::new(SINGLE_WATCHES_OPENED_MAX))
    }
}

impl Shared {
    /// Ends watches of single objects that no key needs any more: objects come and go, and the last one to ask for one does not
    /// say so. Looks only each time that as many were opened as there were needed before, so that it costs next to nothing.
    pub(crate) fn sweep_single_watches(&self) {
        let opened = self.cluster.singles_opened();
        if opened < self.sweep.0.load(Ordering::Relaxed) {
            return;
        }
        let needed: BTreeSet<Need> = {
            let state = self.state();
            if state.standby {
                return;
            }
            state.needed_watches().into_iter().filter(|need| matches!(need.scope, Scope::Object(_))).collect()
        };
        let kept = u64::try_from(needed.len()).unwrap_or(u64::MAX);
        self.cluster.retain(|gvk, scope, depth| {
            !matches!(scope, Scope::Object(_))
                || needed.contains(&Need { gvk: gvk.clone(), scope: scope.clone(), depth })
        });
        for Need { gvk, scope, depth } in needed {
            self.cluster.want(&gvk, scope, depth);
        }
        let next =
            self.cluster.singles_opened().saturating_add(kept).saturating_add(SINGLE_WATCHES_OPENED_MAX);
        self.sweep.0.store(next, Ordering::Relaxed);
    }
}

impl State {
    /// What controllers look after, what the last passes of their keys rest on and left behind, and what keys wait for.
    fn needed_watches(&self) -> BTreeSet<Need> {
        let mut needed = BTreeSet::new();
        for id in self.controllers.keys() {
            let Some((loaded, plan)) = self.plan(*id) else { continue };
            let (gvk, depth) = (&plan.spec.primary, primary_depth(&plan.spec));
            let scopes = primary_scopes(&loaded.grant).into_iter();
            needed.extend(scopes.map(|scope| Need { gvk: gvk.clone(), scope, depth }));
        }
        for (key, entry) in self.keys.iter() {
            let Some((loaded, _)) = self.plan(key.controller) else { continue };
            needed.extend(needs(entry).map(|need| widened(&loaded.grant, &need)));
            // What it prunes is a list that nobody learned; what else it did not learn is among the needs.
            let queries =
                entry.learned.iter().chain(self.deps.queries(&key).filter(|query| is_list(query.query())));
            let asked = queries.filter_map(|query| of_query(&loaded.grant, query.query()));
            needed.extend(asked);
        }
        needed
    }
}

/// What a key needs besides the answers to its queries.
fn needs(entry: &Entry) -> impl Iterator<Item = Need> {
    let waits = match &entry.wait {
        Some(Wait::Sync(need)) => Some((**need).clone()),
        Some(Wait::Input | Wait::Grant | Wait::Paused) | None => None,
    };
    let kept = entry.memo.iter().flat_map(|memo| &memo.kept);
    kept.map(|kept| need_of(&kept.object, action_depth(&kept.action))).chain(waits)
}

/// What is watched for a query; nothing for one that is no longer granted.
fn of_query(grant: &Grant, query: &Query) -> Option<Need> {
    grant.allows_query(query).ok()?;
    Some(widened(grant, &Need::of(query)?))
}

fn is_list(query: &Query) -> bool {
    matches!(query, Query::List(_))
}
