//! How the watches fare and what the caches hold: for `/readyz`, metrics and `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::contract::{Failure, Gvk};
use tokio::time::Instant;

use crate::cache::KindStats;
use crate::rest::lock;
use crate::scope::{Depth, Scope};
use crate::shared::{Shared, read};
use crate::watch::WatchState;

/// One watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchHealth {
    /// Its kind.
    pub gvk: Gvk,
    /// What it covers.
    pub scope: Scope,
    /// How much of each object it keeps.
    pub depth: Depth,
    /// What it does now.
    pub state: WatchState,
    /// Its first list is in.
    pub synced: bool,
    /// How long ago anything came from the API server, a bookmark included; none if nothing did yet.
    pub last_event_age: Option<Duration>,
    /// It stands still: it is silent, or it has been failing, for longer than a watch may be.
    pub stalled: bool,
    /// Why it waits, where it does.
    pub trouble: Option<Failure>,
    /// The host goes on without it: it does not count for readiness.
    pub optional: bool,
    /// Lists so far; each after the first is a relist.
    pub lists: u64,
    /// Connections so far.
    pub connections: u64,
    /// Objects and lines that could not be read.
    pub undecodable: u64,
}

/// All watches.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterHealth {
    /// By kind, then scope.
    pub watches: Vec<WatchHealth>,
}

impl ClusterHealth {
    pub(crate) fn of(shared: &Shared) -> Self {
        let now = Instant::now();
        let patience = shared.options.stall_after;
        let watches = shared.each_watch(|gvk, scope, depth, handle| {
            let report = lock(&handle.report).clone();
            let failing =
                report.failing_since.is_some_and(|since| now.saturating_duration_since(since) > patience);
            WatchHealth {
                gvk: gvk.clone(),
                scope: scope.clone(),
                depth,
                state: report.state,
                synced: shared.known_kind(gvk).is_some_and(|kind| read(&kind).is_synced(scope, depth)),
                last_event_age: report.heard.map(|heard| now.saturating_duration_since(heard)),
                stalled: report.stalled || failing,
                trouble: report.trouble,
                optional: handle.optional,
                lists: report.lists,
                connections: report.connections,
                undecodable: report.undecodable,
            }
        });
        ClusterHealth { watches }
    }

    /// The watches that keep the host from being ready, each with a sentence why.
    pub fn complaints(&self) -> Vec<String> {
        self.watches.iter().filter(|watch| !watch.optional).filter_map(WatchHealth::complaint).collect()
    }
}

impl WatchHealth {
    fn complaint(&self) -> Option<String> {
        let WatchHealth { gvk, scope, .. } = self;
        match (&self.trouble, self.state) {
            (_, WatchState::Unserved) => None,
            (Some(trouble), _) if self.stalled || !self.synced => {
                Some(format!("watch of {gvk} in {scope}: {}", trouble.message))
            }
            (None | Some(_), _) if self.stalled => Some(format!("watch of {gvk} in {scope} stands still")),
            (None | Some(_), _) if !self.synced => Some(format!("watch of {gvk} in {scope} has no list yet")),
            (None | Some(_), _) => None,
        }
    }
}

/// What the caches hold and how many requests there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStats {
    /// A line a kind, in order.
    pub kinds: Vec<KindStats>,
    /// Requests by verb and status code; code 0 where no answer came.
    pub requests: BTreeMap<(&'static str, u16), u64>,
    /// Events dropped because one object had too many.
    pub events_dropped: u64,
}

impl ClusterStats {
    pub(crate) fn of(shared: &Shared) -> Self {
        ClusterStats {
            kinds: shared.all_kinds().iter().map(|kind| read(kind).stats()).collect(),
            requests: shared.rest.counts(),
            events_dropped: shared.recorder.dropped(),
        }
    }
}
