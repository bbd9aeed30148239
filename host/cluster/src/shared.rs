//! What all parts of a cluster share: the caches, the watches under way, the feed of changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use evenkeel_core::contract::{Failure, Gvk};
use evenkeel_core::deps::Change;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::ClusterOptions;
use crate::cache::KindCache;
use crate::discovery::{Discovery, Served};
use crate::kinds::Arrivals;
use crate::live::Collection;
use crate::recorder::Recorder;
use crate::rest::{Rest, RestError, lock};
use crate::scope::{Depth, Scope};
use crate::turns::Turns;
use crate::watch::{Report, Watch};

/// Something that happened to the caches. It is told after the cache shows it.
#[derive(Clone, Debug)]
pub enum CacheEvent {
    /// An object appeared, changed or vanished.
    Changed(Change),
    /// A list came in whole: everything in this part is as the API server has it. Told again after each relist.
    Synced {
        /// The kind.
        gvk: Gvk,
        /// The part of it.
        scope: Scope,
    },
    /// The API server forbids a watch that was begun; told once, until it is allowed.
    Forbidden {
        /// The kind.
        gvk: Gvk,
    },
    /// The API server began or ceased to serve a kind; also told when it turns out not to serve one that is wanted.
    Serving {
        /// The kind.
        gvk: Gvk,
        /// Whether it does now.
        served: bool,
    },
}

/// A watch under way.
pub(crate) struct Handle {
    task: AbortHandle,
    pub(crate) report: Arc<Mutex<Report>>,
    /// The host goes on without it, so it does not count for readiness.
    pub(crate) optional: bool,
}

impl Handle {
    fn is_forbidden(&self) -> bool {
        lock(&self.report).is_forbidden()
    }
}

type Watches = BTreeMap<Gvk, BTreeMap<(Scope, Depth), Handle>>;

/// A watch that covers a part.
fn covering<'w>(
    of_kind: &'w BTreeMap<(Scope, Depth), Handle>,
    scope: &Scope,
    depth: Depth,
) -> Option<&'w Handle> {
    scope.covering(of_kind).find(|(has, _)| *has >= depth).map(|(_, handle)| handle)
}

pub(crate) struct Shared {
    pub(crate) rest: Rest,
    pub(crate) discovery: Discovery,
    pub(crate) options: ClusterOptions,
    pub(crate) arrivals: Arrivals,
    pub(crate) recorder: Recorder,
    /// Whether watches begin with what there is: as long as the API server has not refused it.
    pub(crate) streams: AtomicBool,
    /// Live lists under way, by kind, namespace and labels.
    pub(crate) turns: Turns<Collection>,
    kinds: RwLock<HashMap<Gvk, Arc<RwLock<KindCache>>>>,
    watches: Mutex<Watches>,
    /// Watches of single objects that were ever begun.
    pub(crate) singles_opened: AtomicU64,
    feed: Mutex<Option<mpsc::Sender<CacheEvent>>>,
    /// Raised whenever a part is in sync or a kind comes or goes.
    progress: watch::Sender<u64>,
    tasks: Mutex<Vec<AbortHandle>>,
}

pub(crate) fn read<T>(cell: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    cell.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(cell: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    cell.write().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(client: kube::Client, options: ClusterOptions) -> Self {
        Shared {
            rest: Rest::new(client, options.request_timeout, options.on_request.clone())
                .behind(options.fence.clone(), options.writer.clone()),
            discovery: Discovery::new(options.aggregated_discovery),
            streams: AtomicBool::new(options.streaming_lists),
            arrivals: Arrivals::default(),
            recorder: Recorder::default(),
            turns: Turns::default(),
            kinds: RwLock::default(),
            watches: Mutex::new(BTreeMap::new()),
            singles_opened: AtomicU64::new(0),
            feed: Mutex::new(None),
            progress: watch::Sender::new(0),
            tasks: Mutex::new(Vec::new()),
            options,
        }
    }

    // ---- kinds ---------------------------------------------------------------------------------------------------

    /// The cache of a kind, made when it is first asked for.
    pub(crate) fn kind(&self, gvk: &Gvk) -> Arc<RwLock<KindCache>> {
        if let Some(kind) = self.known_kind(gvk) {
            return kind;
        }
        let new = || Arc::new(RwLock::new(KindCache::new(gvk.clone())));
        write(&self.kinds).entry(gvk.clone()).or_insert_with(new).clone()
    }

    /// The cache of a kind, if anybody asked for it.
    pub(crate) fn known_kind(&self, gvk: &Gvk) -> Option<Arc<RwLock<KindCache>>> {
        read(&self.kinds).get(gvk).cloned()
    }

    /// All caches, in the order of their kinds.
    pub(crate) fn all_kinds(&self) -> Vec<Arc<RwLock<KindCache>>> {
        let kinds = read(&self.kinds);
        let mut all: Vec<_> = kinds.iter().collect();
        all.sort_unstable_by_key(|(gvk, _)| *gvk);
        all.into_iter().map(|(_, kind)| Arc::clone(kind)).collect()
    }

    /// The kind is not served: its objects are gone. Told once.
    pub(crate) async fn gone_unserved(&self, gvk: &Gvk) {
        let kind = self.kind(gvk);
        let Some(changes) = write(&kind).cease() else { return };
        self.tell(changes).await;
        self.send(CacheEvent::Serving { gvk: gvk.clone(), served: false }).await;
        self.progress.send_modify(|count| *count += 1);
    }

    /// The kind is served again, or at last. Told once.
    pub(crate) async fn come_served(&self, gvk: &Gvk) {
        let Some(kind) = self.known_kind(gvk) else { return };
        if write(&kind).serve() {
            self.send(CacheEvent::Serving { gvk: gvk.clone(), served: true }).await;
            self.progress.send_modify(|count| *count += 1);
        }
    }

    /// Asks anew which of these kinds are served.
    pub(crate) async fn recheck(&self, concerns: impl Fn(&Gvk, &Served) -> bool) -> Result<(), RestError> {
        for (gvk, served) in self.discovery.recheck(&self.rest, concerns).await? {
            if served {
                self.come_served(&gvk).await;
            } else if self.known_kind(&gvk).is_some() {
                self.gone_unserved(&gvk).await;
            }
        }
        Ok(())
    }

    // ---- watches -------------------------------------------------------------------------------------------------

    /// Starts a watch unless one covers this part. Returns whether it did.
    pub(crate) fn want(self: &Arc<Self>, gvk: &Gvk, scope: Scope, depth: Depth, optional: bool) -> bool {
        let mut watches = lock(&self.watches);
        let of_kind = watches.entry(gvk.clone()).or_default();
        // Whoever asks for less is not to wait for a watch of more that the API server forbids.
        let is_covered = scope.covering(of_kind).any(|(has, handle)| has >= depth && !handle.is_forbidden());
        if is_covered || of_kind.contains_key(&(scope.clone(), depth)) {
            return false;
        }
        if matches!(scope, Scope::Object(_)) {
            self.singles_opened.fetch_add(1, Ordering::Relaxed);
        }
        write(&self.kind(gvk)).cover(&scope, depth);
        let report = Arc::new(Mutex::new(Report::new()));
        let watch = Watch::new(self.clone(), gvk.clone(), scope.clone(), depth, report.clone());
        let task = tokio::spawn(watch.run()).abort_handle();
        of_kind.insert((scope, depth), Handle { task, report, optional });
        true
    }

    /// Ends the watches that a wider one has made needless.
    pub(crate) fn supersede(&self, gvk: &Gvk, scope: &Scope, depth: Depth) {
        if matches!(scope, Scope::Object(_)) {
            // Nothing is narrower than one object, and only less of it is less.
            if depth > Depth::Metadata {
                self.end_watch(gvk, (scope.clone(), Depth::Metadata));
            }
            return;
        }
        self.end_watches(|of, (has, has_depth)| {
            of == gvk && (has != scope || *has_depth != depth) && scope.covers(has) && depth >= *has_depth
        });
    }

    fn end_watch(&self, gvk: &Gvk, part: (Scope, Depth)) {
        let mut watches = lock(&self.watches);
        if let Some(handle) = watches.get_mut(gvk).and_then(|of_kind| of_kind.remove(&part)) {
            handle.task.abort();
            write(&self.kind(gvk)).uncover(&part.0, part.1);
        }
    }

    /// Ends watches and drops what only they covered.
    pub(crate) fn end_watches(&self, ends: impl Fn(&Gvk, &(Scope, Depth)) -> bool) {
        let mut watches = lock(&self.watches);
        for (gvk, of_kind) in watches.iter_mut() {
            of_kind.retain(|part, handle| {
                if !ends(gvk, part) {
                    return true;
                }
                handle.task.abort();
                write(&self.kind(gvk)).uncover(&part.0, part.1);
                false
            });
        }
        watches.retain(|_, of_kind| !of_kind.is_empty());
    }

    /// Runs a task until the cluster is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).push(tokio::spawn(task).abort_handle());
    }

    /// Ends everything that runs.
    pub(crate) fn end(&self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
        for handle in lock(&self.watches).values().flat_map(BTreeMap::values) {
            handle.task.abort();
        }
    }

    /// Looks at each watch.
    pub(crate) fn each_watch<T>(&self, mut look: impl FnMut(&Gvk, &Scope, Depth, &Handle) -> T) -> Vec<T> {
        let watches = lock(&self.watches);
        let all = watches.iter().flat_map(|(gvk, parts)| parts.iter().map(move |part| (gvk, part)));
        all.map(|(gvk, ((scope, depth), handle))| look(gvk, scope, *depth, handle)).collect()
    }

    /// Why a part that is watched is not in sync, if its watch knows.
    pub(crate) fn trouble(&self, gvk: &Gvk, scope: &Scope, depth: Depth) -> Option<Failure> {
        let watches = lock(&self.watches);
        let handle = covering(watches.get(gvk)?, scope, depth)?;
        lock(&handle.report).trouble.clone()
    }

    // ---- the feed ------------------------------------------------------------------------------------------------

    /// Opens the feed; only the first caller gets it.
    pub(crate) fn open_feed(&self) -> Option<mpsc::Receiver<CacheEvent>> {
        let mut feed = lock(&self.feed);
        if feed.is_some() {
            return None;
        }
        let (sender, receiver) = mpsc::channel(self.options.feed_changes_max);
        *feed = Some(sender);
        Some(receiver)
    }

    /// Events in the feed that were not received yet.
    pub(crate) fn unread(&self) -> usize {
        lock(&self.feed).as_ref().map_or(0, |feed| feed.max_capacity() - feed.capacity())
    }

    /// Tells of changes that the cache shows already. Waits while the reader is behind.
    pub(crate) async fn tell(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.arrivals.note(&change);
            self.send(CacheEvent::Changed(change)).await;
        }
    }

    /// A list came in.
    pub(crate) async fn synced(&self, gvk: &Gvk, scope: &Scope) {
        self.send(CacheEvent::Synced { gvk: gvk.clone(), scope: scope.clone() }).await;
        self.progress.send_modify(|count| *count += 1);
    }

    /// A watch turned out to be forbidden.
    pub(crate) async fn forbidden(&self, gvk: &Gvk) {
        self.send(CacheEvent::Forbidden { gvk: gvk.clone() }).await;
    }

    /// A receiver that is told whenever a part is in sync or a kind comes or goes.
    pub(crate) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    async fn send(&self, event: CacheEvent) {
        let feed = lock(&self.feed).clone();
        if let Some(feed) = feed {
            // A reader that is gone wants nothing more.
            let _ = feed.send(event).await;
        }
    }
}
