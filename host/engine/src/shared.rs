//! What every task of the host holds, and the two loops that drive it: one takes events and timers in, the workers
//! take keys.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use evenkeel_cluster::{CacheEvent, Cluster, Fence};
use evenkeel_core::admit::{Answered, Write};
use evenkeel_core::breaker::Turn;
use evenkeel_core::contract::ObjectRef;
use evenkeel_core::limits::Limits;
use evenkeel_core::object::CachedObject;
use evenkeel_core::queue::{Priority, Queue};
use evenkeel_core::record::Trigger;
use evenkeel_core::view::{View, Views};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::dispatch::dispatch;
use crate::faults::Faults;
use crate::journal::Journal;
use crate::keys::Key;
use crate::limits::UNSEEN_KEYS_MAX;
use crate::observe::Observer;
use crate::provider::Providers;
use crate::state::{Start, State, Taken};
use crate::turns::Turns;
use crate::watches::Sweep;
use crate::worker;

/// What is attached to a host from outside.
#[derive(Clone, Default)]
pub(crate) struct Attached {
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) fence: Option<Arc<Fence>>,
}

/// What came of asking for an object by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// It is looked at when its turn comes.
    InLine,
    /// The plugin has no such controller.
    NoController,
    /// So many names wait of which nobody has seen an object.
    TooMany,
}

/// The host without its tasks.
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) providers: Providers,
    pub(crate) faults: Option<Arc<dyn Faults>>,
    pub(crate) journal: Journal,
    pub(crate) seed: u64,
    pub(crate) limits: Limits,
    pub(crate) install_crds: bool,
    pub(crate) attached: Attached,
    start: Instant,
    normalised: RwLock<Answered>,
    /// Of what was applied.
    views: Mutex<Views>,
    /// Who writes which object.
    pub(crate) turns: Turns,
    pub(crate) sweep: Sweep,
    state: Mutex<State>,
    /// A key may be ready.
    ready: Notify,
    /// The next timer may have moved.
    timer: Notify,
    /// A worker came to rest.
    pub(crate) rested: Notify,
    /// An event is being taken from the feed, or its keys are not queued yet.
    taking: AtomicBool,
    /// How often something moved on from the feed or the queue.
    moves: AtomicU64,
}

impl Shared {
    #[allow(clippy::too_many_arguments)] // The host's parts, each named once.
    pub(crate) fn new(
        cluster: Cluster,
        clock: Arc<dyn Clock>,
        providers: Providers,
        faults: Option<Arc<dyn Faults>>,
        journal: Journal,
        seed: u64,
        limits: Limits,
        install_crds: bool,
        attached: Attached,
    ) -> Self {
        let start = Instant::now();
        Self {
            cluster,
            clock,
            providers,
            faults,
            journal,
            seed,
            limits,
            install_crds,
            attached,
            start,
            normalised: RwLock::default(),
            views: Mutex::default(),
            turns: Turns::default(),
            sweep: Sweep::default(),
            state: Mutex::new(State {
                queue: Queue::with_lanes(lane),
                start: Start(start),
                ..State::default()
            }),
            ready: Notify::new(),
            timer: Notify::new(),
            rested: Notify::new(),
            taking: AtomicBool::new(false),
            moves: AtomicU64::new(0),
        }
    }

    /// The state, for a short while.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug of ours in one key's pass; the other keys go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the host has been up: the queue's time.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Has a worker look at the queue where a key is in line, and the timer where one is due before it would ring. A
    /// task that wakes for nothing costs more than all that most looks do.
    pub(crate) fn wake(&self) {
        self.release(self.state());
    }

    /// Lets go of the state, and does what [`Shared::wake`] does: for those who hold it anyway.
    pub(crate) fn release(&self, state: MutexGuard<'_, State>) {
        let (ready, sooner) = (state.queue.is_ready(self.now()), state.is_due_before_the_timer());
        drop(state);
        if ready {
            self.ready.notify_one();
        }
        if sooner {
            self.timer.notify_one();
        }
    }

    /// Whether there is nothing to do right now, and nothing that happened is still to be looked at.
    pub(crate) fn idle(&self) -> bool {
        // An event moves from the feed to `taking`, then to the queue, then to `running`, whose pass may put another
        // into the feed. Each place is looked at in turn; that nothing moved meanwhile is told by `moves`.
        let moves = self.moves.load(Ordering::SeqCst);
        let still = |shared: &Self| {
            let unread = shared.cluster.unread() > 0 || shared.taking.load(Ordering::SeqCst);
            !unread && shared.providers.idle()
        };
        if !still(self) {
            return false;
        }
        let at_rest = {
            let state = self.state();
            state.running == 0 && (state.standby || !state.queue.is_ready(self.now()))
        };
        at_rest && still(self) && self.moves.load(Ordering::SeqCst) == moves
    }

    /// The next event. Says that one is being taken from before it leaves the feed.
    async fn next_event(&self, events: &mut mpsc::Receiver<CacheEvent>) -> Option<CacheEvent> {
        poll_fn(|context| {
            self.taking.store(true, Ordering::SeqCst);
            let event = events.poll_recv(context);
            if event.is_pending() {
                self.taking.store(false, Ordering::SeqCst);
            }
            event
        })
        .await
    }

    /// A view as all keys hold it that have the same.
    pub(crate) fn share(&self, view: View) -> View {
        self.views.lock().unwrap_or_else(PoisonError::into_inner).shared(view)
    }

    /// What the API server made of earlier applies.
    pub(crate) fn normalised(&self) -> RwLockReadGuard<'_, Answered> {
        self.normalised.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the API server made of a write.
    pub(crate) fn note_answer(&self, write: &Write, answer: &CachedObject) {
        self.normalised.write().unwrap_or_else(PoisonError::into_inner).note(write, answer);
    }

    /// Returns once no pass runs.
    pub(crate) async fn at_rest(&self) {
        loop {
            let rested = self.rested.notified();
            tokio::pin!(rested);
            // Heard from before the look, so that none is missed.
            rested.as_mut().enable();
            if self.state().running == 0 {
                return;
            }
            rested.await;
        }
    }

    /// Whether a key may call its plugin now, or wakes too often.
    pub(crate) fn may_run(&self, taken: &Taken) -> bool {
        if matches!(taken.trigger, Trigger::Retry) {
            // It is slowed down by its back-off.
            return true;
        }
        let now = self.now();
        let mut state = self.state();
        let Some(entry) = state.keys.get_mut(taken.key) else { return true };
        if entry.breaker.is_at_rest(now) {
            entry.wakers.clear();
        }
        match entry.breaker.turn(now) {
            Turn::Run => {
                entry.slowed_until = None;
                true
            }
            Turn::SlowedUntil(until) => {
                if entry.slowed_until.is_none() {
                    let woken_by = entry.wakers.most().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(object = %taken.object, woken_by, "key slowed down, as it wakes too often");
                }
                entry.slowed_until = Some(until);
                false
            }
        }
    }

    /// Has an object of a controller looked at.
    pub(crate) fn enqueue(
        &self,
        plugin: &str,
        controller: &str,
        object: &ObjectRef,
        trigger: Trigger,
    ) -> Enqueued {
        let seen = self.cluster.peek(object).is_some();
        let mut state = self.state();
        let Some(id) = state.controller_named(plugin, controller) else { return Enqueued::NoController };
        let known = seen || state.keys.find(id, object).is_some();
        if !known && state.keys.unseen(id) >= UNSEEN_KEYS_MAX {
            return Enqueued::TooMany;
        }
        let (key, _) = state.keys.intern(id, object);
        if !known {
            state.keys.note_unseen(key);
        }
        state.enqueue(key, trigger, Priority::Change);
        self.release(state);
        Enqueued::InLine
    }

    /// Takes events in, and wakes the workers when a timer is due, for ever.
    pub(crate) async fn take_events(self: Arc<Self>, mut events: mpsc::Receiver<CacheEvent>) {
        loop {
            let due = self.state().set_timer().map(|next| self.start + next);
            tokio::select! {
                biased;
                event = self.next_event(&mut events) => {
                    if let Some(event) = &event {
                        dispatch(&self, event);
                        self.moves.fetch_add(1, Ordering::SeqCst);
                    }
                    self.taking.store(false, Ordering::SeqCst);
                    if event.is_none() {
                        return;
                    }
                },
                () = sleep_until(due) => {
                    // Into line at once: while all workers are at work the timer would ring without end.
                    self.state().queue.ripen(self.now());
                    self.ready.notify_one();
                }
                () = self.timer.notified() => {}
            }
        }
    }

    /// One worker: takes keys, for ever.
    pub(crate) async fn work(self: Arc<Self>) {
        loop {
            let (taken, more, sooner) = {
                let mut state = self.state();
                let now = self.now();
                let taken = state.take(now);
                if let Some(taken) = &taken {
                    state.works(taken);
                    self.moves.fetch_add(1, Ordering::SeqCst);
                }
                (taken, state.queue.is_ready(now), state.is_due_before_the_timer())
            };
            if sooner {
                // Some were put off.
                self.timer.notify_one();
            }
            let Some(taken) = taken else {
                self.ready.notified().await;
                continue;
            };
            // One permit is all that a burst leaves behind: each worker wakes the next.
            if more {
                self.ready.notify_one();
            }
            let mut rest = Rest { shared: &self, plugin: Some(taken.plugin.clone()) };
            if worker::run(&self, taken).await {
                rest.is_known();
            }
            drop(rest);
            self.sweep_single_watches();
            // A look may wait for nothing at all. Many of them in a row would keep this thread from the probes and from
            // whoever wants the host to end.
            tokio::task::consume_budget().await;
        }
    }
}

/// Controllers take turns.
fn lane(key: &Key) -> u64 {
    key.controller.lane()
}

/// Counts a worker as at rest when its pass ends, however it ends.
struct Rest<'a> {
    shared: &'a Shared,
    /// Of the pass; none once the state knows.
    plugin: Option<Arc<str>>,
}

impl Rest<'_> {
    fn is_known(&mut self) {
        self.plugin = None;
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        if let Some(plugin) = &self.plugin {
            self.shared.state().rests(plugin);
        }
        self.shared.rested.notify_waiters();
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
