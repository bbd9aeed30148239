//! Kubernetes IO of the Evenkeel host: watches, cache, writes, events.
//!
//! A [`Cluster`] keeps one watch for each (kind, scope) that somebody wants, whoever wants it, and one compact cache that
//! they fill. The engine asks the cache ([`Cluster::get`], [`Cluster::list`]), is told what changed
//! ([`Cluster::events`], always after the cache shows it), and sends its writes through [`Cluster::write`], whose
//! answers go into the cache too: nobody reads a state older than what the host itself did.
//!
//! All waiting is on tokio's clock, so a paused runtime runs it on virtual time.

mod access;
mod cache;
mod discovery;
pub mod election;
mod failure;
mod fence;
mod health;
mod kinds;
pub mod limits;
mod live;
mod object;
mod recorder;
mod rest;
mod scope;
mod shared;
mod turns;
mod watch;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_core::contract::{Failure, Gvk, ListQuery, ObjectRef, Query};
use evenkeel_core::object::CachedObject;
use evenkeel_core::selector::Selector;
use tokio::sync::mpsc;

pub use self::cache::{KindStats, ListLookup, Lookup};
pub use self::discovery::Served;
pub use self::failure::WriteError;
pub use self::fence::Fence;
pub use self::health::{ClusterHealth, ClusterStats, WatchHealth};
pub use self::rest::{RequestObserver, RequestReport, RestError, Status, StatusCause, StatusDetails};
pub use self::scope::{Depth, Names, Need, Scope};
pub use self::shared::CacheEvent;
pub use self::watch::WatchState;

use self::scope::Place;
use self::shared::{Shared, read, write};

/// The time of day: for Events. Intervals are measured by tokio's clock.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// How a cluster behaves.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The time of day.
    pub clock: Clock,
    /// Who reports Events, as `kubectl describe` shows it.
    pub reporter: String,
    /// Which of several reporters, as in a Pod's name; "" for none.
    pub reporter_instance: String,
    /// The field manager of writes that name none.
    pub manager: String,
    /// Spreads pauses and the ends of watches, so that not all come at once.
    pub seed: u64,
    /// The longest that a request may take; a watch, until it begins.
    pub request_timeout: Duration,
    /// How long a watch is asked to last.
    pub watch_timeout: Duration,
    /// A watch whose server tells of its progress stands still after this long a silence. Servers do so every minute.
    pub stall_after: Duration,
    /// Ask for what there is as the beginning of a watch (`sendInitialEvents`) and not by lists, where the API server offers
    /// that: it need not hold whole lists in its memory then, and a kind takes one request less.
    pub streaming_lists: bool,
    /// Ask a start's kinds of the document of all groups (aggregated discovery), where the API server has it, and not
    /// group by group: one request, however many groups there are.
    pub aggregated_discovery: bool,
    /// Changes that may wait for the reader of the feed.
    pub feed_changes_max: usize,
    /// Told of every request.
    pub on_request: Option<RequestObserver>,
    /// Lets writes through; none where this host is the only one that acts.
    pub fence: Option<Arc<Fence>>,
    /// What writes are sent by, where that is not the client of all other requests: see [`Fence::client`].
    pub writer: Option<kube::Client>,
}

impl ClusterOptions {
    /// The usual ones.
    pub fn new(clock: Clock) -> Self {
        ClusterOptions {
            clock,
            reporter: "evenkeel".into(),
            reporter_instance: String::new(),
            manager: "evenkeel".into(),
            seed: 0,
            request_timeout: Duration::from_secs(30),
            watch_timeout: Duration::from_secs(480),
            stall_after: Duration::from_secs(150),
            streaming_lists: false,
            aggregated_discovery: false,
            feed_changes_max: limits::FEED_CHANGES_MAX,
            on_request: None,
            fence: None,
            writer: None,
        }
    }
}

impl std::fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("reporter", &self.reporter)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A Kubernetes cluster as the host sees it. Clones are the same one; when the last is dropped, its watches end.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    _ends: Arc<Ends>,
}

/// Ends the tasks with the last handle: they hold what is shared, but not this.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Cluster {
    /// Talks through this client. Nothing is asked before somebody wants something.
    pub fn new(client: kube::Client, options: ClusterOptions) -> Self {
        let shared = Arc::new(Shared::new(client, options));
        Cluster { _ends: Arc::new(Ends(shared.clone())), shared }
    }

    /// The feed of what happens to the caches. Handed out once, and best before anything is wanted: what happens
    /// before is not told. It is bounded: while nobody reads, watches and writes wait.
    pub fn events(&self) -> Option<mpsc::Receiver<CacheEvent>> {
        self.shared.open_feed()
    }

    /// Events that are in the feed and not received yet; 0 where nobody opened it.
    pub fn unread(&self) -> usize {
        self.shared.unread()
    }

    /// Whether the API server answers. What it is asked for that is of use to the start that follows.
    ///
    /// # Errors
    /// If it does not answer, does not know who asks, or asks to wait.
    pub async fn reach(&self) -> Result<(), RestError> {
        self.shared.discovery.reach(&self.shared.rest).await
    }

    /// Whether the API server serves a kind. Asks once; after that the coming and going of the kind is told on the feed.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Served, Failure> {
        let served = self.shared.discovery.resolve(&self.shared.rest, gvk).await;
        let served = served.map_err(|error| failure::failure(gvk, &format!("find {gvk}"), None, &error))?;
        if !served.is_yes() {
            self.shared.look_for_kinds();
            self.shared.gone_unserved(gvk).await;
        }
        Ok(served)
    }

    /// What is known of a kind, without asking; none where nobody has asked yet.
    pub fn known(&self, gvk: &Gvk) -> Option<Served> {
        self.shared.discovery.known(gvk)
    }

    /// Has a part of a kind watched, unless it is already. Returns whether a watch began; [`CacheEvent::Synced`] tells
    /// when its first list is in. Must be called within a tokio runtime.
    pub fn want(&self, gvk: &Gvk, scope: Scope, depth: Depth) -> bool {
        self.shared.want(gvk, scope, depth, false)
    }

    /// Has what a query needs watched.
    pub fn want_for(&self, query: &Query) -> bool {
        Need::of(query).is_some_and(|need| self.want(&need.gvk, need.scope, need.depth))
    }

    /// Ends every watch that is not kept, and drops the objects that only it covered. Tells no changes.
    pub fn retain(&self, keep: impl Fn(&Gvk, &Scope, Depth) -> bool) {
        self.shared.end_watches(|gvk, (scope, depth)| !kinds::is_crd(gvk) && !keep(gvk, scope, *depth));
    }

    /// Watches of single objects that were ever begun.
    pub fn singles_opened(&self) -> u64 {
        self.shared.singles_opened.load(Ordering::Relaxed)
    }

    /// Whether a part is watched and its first list is in, or its kind is not served.
    pub fn is_settled(&self, gvk: &Gvk, scope: &Scope, depth: Depth) -> bool {
        let Some(kind) = self.shared.known_kind(gvk) else { return false };
        let kind = read(&kind);
        !kind.is_served() || kind.is_synced(scope, depth)
    }

    /// Whether a part of a kind that is served is watched and its first list is in.
    pub fn is_in_step(&self, gvk: &Gvk, scope: &Scope, depth: Depth) -> bool {
        let Some(kind) = self.shared.known_kind(gvk) else { return false };
        let kind = read(&kind);
        kind.is_served() && kind.is_synced(scope, depth)
    }

    /// Waits until [`Cluster::is_settled`].
    pub async fn settled(&self, gvk: &Gvk, scope: &Scope, depth: Depth) {
        let mut progress = self.shared.progress();
        while !self.is_settled(gvk, scope, depth) {
            if progress.changed().await.is_err() {
                return;
            }
        }
    }

    /// Why a part that is wanted is not in sync, where the API server said so: what to tell instead of `NotSynced`.
    pub fn trouble(&self, gvk: &Gvk, scope: &Scope, depth: Depth) -> Option<Failure> {
        self.shared.trouble(gvk, scope, depth)
    }

    /// An object, whole.
    pub fn get(&self, object: &ObjectRef) -> Lookup {
        self.get_at(object, Depth::Whole)
    }

    /// An object's metadata at least: all that a view of metadata alone needs.
    pub fn get_at(&self, object: &ObjectRef, depth: Depth) -> Lookup {
        match self.shared.known_kind(&object.gvk) {
            Some(kind) => read(&kind).get(&Place::of(object), depth),
            None => Lookup::NotSynced,
        }
    }

    /// Every object that matches, by namespace, then name. A selector that cannot be read matches nothing.
    pub fn list(&self, query: &ListQuery) -> ListLookup {
        let Some(kind) = self.shared.known_kind(&query.gvk) else { return ListLookup::NotSynced };
        let Ok(selector) = Selector::parse(&query.labels) else { return ListLookup::Found(vec![]) };
        let depth = Need::of_list(query).depth;
        loop {
            if let Some(found) = read(&kind).list(query, &selector, depth) {
                return found;
            }
            write(&kind).index_for(query);
        }
    }

    /// How the watches fare.
    pub fn health(&self) -> ClusterHealth {
        ClusterHealth::of(&self.shared)
    }

    /// What the caches hold and how many requests there were.
    pub fn stats(&self) -> ClusterStats {
        ClusterStats::of(&self.shared)
    }

    /// The newest revision that anything told of this kind; 0 for none.
    pub fn revision(&self, gvk: &Gvk) -> u64 {
        self.shared.known_kind(gvk).map_or(0, |kind| read(&kind).newest())
    }

    /// What is cached of an object, in sync or not.
    pub fn peek(&self, object: &ObjectRef) -> Option<Arc<CachedObject>> {
        self.shared.peek(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>(_: T) {}

    #[tokio::test]
    async fn what_it_promises_can_be_awaited_on_any_thread() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let client = kube::Client::new(service, "default");
        let cluster = Cluster::new(client, ClusterOptions::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH)));
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let object = ObjectRef::new(gvk.clone(), Some("a"), "b");
        let write = evenkeel_core::admit::Write::Delete {
            object,
            uid: None,
            resource_version: None,
            propagation: evenkeel_core::contract::Propagation::Background,
        };
        is_send(cluster.fresh(&[]));
        is_send(cluster.write(&write));
        is_send(cluster.resolve(&gvk));
        is_send(cluster.settled(&gvk, &Scope::All, Depth::Whole));
    }
}
