//! What the dispatcher and the workers share: one lock over queue, dependencies and keys.
//!
//! Nothing under the lock waits for anything, and no lock of the cluster's caches is taken while it is held by a
//! writer of them: the caches are read before or after.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Need, Scope};
use evenkeel_core::breaker::Breaker;
use evenkeel_core::contract::{Action, FailedPass, GetQuery, Gvk, ObjectRef, Query};
use evenkeel_core::deps::DependencyIndex;
use evenkeel_core::grant::Grant;
use evenkeel_core::memo::Digest;
use evenkeel_core::object::CachedObject;
use evenkeel_core::query::Prepared;
use evenkeel_core::queue::{Priority, Queue};
use evenkeel_core::record::Trigger;
use tokio::time::Instant;

use crate::doubt::Doubt;
use crate::external::ExternalIndex;
use crate::health::Health;
use crate::keys::{Basis, ControllerId, Entry, Key, Keys, Memo, Wait};
use crate::limits::{APPLIERS_KEPT, DENIALS_MAX, WORKERS_SHARE};
use crate::plugin::{ControllerPlan, Loaded};
use crate::scouts::Awaited;
use crate::status::Refusal;

/// Everything that changes while the host runs.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) queue: Queue<Key, Queued>,
    /// The queue's time begins here.
    pub(crate) start: Start,
    pub(crate) deps: DependencyIndex<Key>,
    /// What was asked of providers.
    pub(crate) externals: ExternalIndex,
    pub(crate) keys: Keys,
    pub(crate) plugins: BTreeMap<String, Slot>,
    pub(crate) controllers: HashMap<ControllerId, ControllerSlot>,
    /// Who looks after a kind.
    pub(crate) primaries: HashMap<Gvk, Vec<ControllerId>>,
    /// Who waits for a kind's watch to be in step.
    pub(crate) parked: HashMap<Gvk, BTreeSet<Key>>,
    /// Who applied an object last under a controller's field manager; the flag tells its status apart.
    pub(crate) appliers: HashMap<(ControllerId, ObjectRef, bool), Key>,
    /// How many of these there were after they were swept.
    pub(crate) appliers_swept: usize,
    pub(crate) given_ids: u32,
    /// Keys at work.
    pub(crate) running: usize,
    /// Keys at work, a plugin.
    pub(crate) running_of: HashMap<Arc<str>, usize>,
    /// Passes that may run at once.
    pub(crate) workers: usize,
    /// Since when each key is at work.
    pub(crate) at_work: HashMap<Key, Duration>,
    /// No pass is begun any more.
    pub(crate) stopping: bool,
    /// No pass is begun until this host leads.
    pub(crate) standby: bool,
    /// When the timer rings; none where it does not.
    pub(crate) timer: Option<Duration>,
}

/// What put a key in line, and when.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) trigger: Trigger,
    /// When it was put in line, or became due.
    pub(crate) since: Duration,
}

/// When the host began.
pub(crate) struct Start(pub(crate) Instant);

impl Default for Start {
    fn default() -> Self {
        Self(Instant::now())
    }
}

/// A plugin's place: what runs there changes, the place stays.
pub(crate) struct Slot {
    pub(crate) loaded: Arc<Loaded>,
    /// What ran before, to roll back to.
    pub(crate) before: Option<Arc<Loaded>>,
    pub(crate) health: Health,
    /// Why its passes do not run, if they do not.
    pub(crate) held: Option<String>,
    pub(crate) refused: Option<Refusal>,
    /// What its grant denied it; each sentence once.
    pub(crate) denied: BTreeSet<String>,
    /// Its controllers that have nothing to look after, and why.
    pub(crate) idle: BTreeMap<ControllerId, String>,
    /// Its controllers, in the order of the manifest.
    pub(crate) controllers: Vec<ControllerId>,
}

/// A controller's place.
pub(crate) struct ControllerSlot {
    pub(crate) plugin: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Where it stands in its plugin's manifest.
    pub(crate) index: usize,
    pub(crate) primary: Gvk,
    pub(crate) counts: Counts,
    /// Watches that passes of it wait for.
    pub(crate) awaited: BTreeMap<Need, Awaited>,
}

/// What a controller did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passes: u64,
    pub(crate) calls: u64,
    pub(crate) elided: u64,
    pub(crate) sent: u64,
    pub(crate) skipped: u64,
    pub(crate) failures: u64,
    pub(crate) faults: u64,
}

/// A key that a worker took, with all that its pass needs to begin.
pub(crate) struct Taken {
    pub(crate) key: Key,
    pub(crate) trigger: Trigger,
    /// How long it was in line.
    pub(crate) queued: Duration,
    /// When it was taken.
    pub(crate) since: Duration,
    pub(crate) object: ObjectRef,
    /// The plugin's name.
    pub(crate) plugin: Arc<str>,
    pub(crate) loaded: Arc<Loaded>,
    /// Where the controller stands in the manifest.
    pub(crate) index: usize,
    pub(crate) learned: Arc<[Arc<Prepared>]>,
    pub(crate) padded_for: Option<u32>,
    pub(crate) memo: Option<Arc<Memo>>,
    pub(crate) failure: Option<Arc<FailedPass>>,
    pub(crate) last_seen: Option<Arc<CachedObject>>,
    pub(crate) stale_runs: u32,
    pub(crate) rejected: Option<Basis>,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// It was found paused before.
    pub(crate) was_paused: bool,
    /// Its conclusion wanted it run again by now.
    pub(crate) requeue_due: bool,
    /// Its controller wanted it run again by now.
    pub(crate) resync_due: bool,
    /// Something else than an object woke it, so that answers from outside Kubernetes may have changed.
    pub(crate) look_outside: bool,
    /// What has changed since it was looked at before.
    pub(crate) doubt: Doubt,
}

impl Taken {
    pub(crate) fn plan(&self) -> &ControllerPlan {
        &self.loaded.controllers[self.index]
    }

    /// The memo, unless time or a failure has made it of no use.
    pub(crate) fn memo_in_force(&self) -> Option<&Memo> {
        let memo = self.memo.as_deref()?;
        let outdated = (self.requeue_due && (memo.timely || memo.told)) || (self.resync_due && memo.told);
        (self.failure.is_none() && !outdated).then_some(memo)
    }

    /// Whether the remembered conclusion stands for this input.
    pub(crate) fn remembers(&self, basis: &Basis) -> bool {
        self.memo_in_force().is_some_and(|memo| memo.basis == *basis)
    }

    /// What was concluded or rejected before, where it would stand as far as the host can tell by itself.
    pub(crate) fn standing(&self, near: &Digest) -> Option<Basis> {
        let before = self.memo_in_force().map(|memo| memo.basis).into_iter().chain(self.rejected);
        before.into_iter().find(|basis| basis.near == *near)
    }

    /// Whether somebody asked for this very key, be its object there or not.
    pub(crate) fn asked_for(&self) -> bool {
        matches!(self.trigger, Trigger::Enqueued { .. }) || self.memo.is_some() || self.failure.is_some()
    }
}

/// Whether it tells of objects alone: whatever happened to them says nothing of what is outside Kubernetes.
fn is_of_an_object(trigger: &Trigger) -> bool {
    match trigger {
        Trigger::Changed { .. } | Trigger::Synced { .. } | Trigger::Serving { .. } => true,
        Trigger::Enqueued { .. }
        | Trigger::Told { .. }
        | Trigger::Retry
        | Trigger::Requeue
        | Trigger::Resync
        | Trigger::Loaded => false,
    }
}

impl State {
    // ---- controllers ---------------------------------------------------------------------------------------------

    /// Puts a version in its plugin's place: keys of controllers that it has too stay. Tells what ran there before.
    pub(crate) fn install(&mut self, loaded: Arc<Loaded>) -> Option<Arc<Loaded>> {
        let name = loaded.name().to_owned();
        let old = self.plugins.remove(&name);
        let mut left: Vec<ControllerId> =
            old.as_ref().map(|slot| slot.controllers.clone()).unwrap_or_default();
        let mut controllers = Vec::new();
        for (index, plan) in loaded.controllers.iter().enumerate() {
            let kept = left.iter().position(|id| {
                self.controllers
                    .get(id)
                    .is_some_and(|slot| *slot.name == *plan.spec.name && slot.primary == plan.spec.primary)
            });
            let id = match kept {
                Some(position) => left.remove(position),
                None => self.add_controller(&name, plan),
            };
            if let Some(slot) = self.controllers.get_mut(&id) {
                slot.index = index;
            }
            controllers.push(id);
            self.forget_refused_queries(id, &loaded.grant);
        }
        left.into_iter().for_each(|id| self.remove_controller(id));
        let before = old.as_ref().map(|slot| Arc::clone(&slot.loaded));
        let slot = Slot {
            loaded,
            before: before.clone(),
            health: Health::default(),
            held: None,
            refused: None,
            denied: BTreeSet::new(),
            idle: BTreeMap::new(),
            controllers,
        };
        self.plugins.insert(name, slot);
        before
    }

    /// What keys asked under an earlier grant and may ask no more is not answered in advance, nor watched for that.
    fn forget_refused_queries(&mut self, id: ControllerId, grant: &Grant) {
        for key in self.keys.of(id) {
            let Some(entry) = self.keys.get_mut(key) else { continue };
            let allowed = |query: &&Arc<Prepared>| grant.allows_query(query.query()).is_ok();
            if !entry.learned.iter().all(|query| allowed(&query)) {
                entry.learned = entry.learned.iter().filter(allowed).cloned().collect();
            }
        }
    }

    /// The versions that are in their places.
    pub(crate) fn loaded(&self) -> Vec<Arc<Loaded>> {
        self.plugins.values().map(|slot| Arc::clone(&slot.loaded)).collect()
    }

    /// No pass of a plugin runs until another version is loaded.
    pub(crate) fn hold(&mut self, plugin: &str, reason: &str) {
        if let Some(slot) = self.plugins.get_mut(plugin) {
            slot.held = Some(reason.to_owned());
        }
    }

    /// Whether this very version is held, by a host that acts.
    pub(crate) fn holds_back(&self, loaded: &Arc<Loaded>) -> bool {
        let slot = self.plugins.get(loaded.name());
        !self.stopping
            && !self.standby
            && slot.is_some_and(|slot| slot.held.is_some() && Arc::ptr_eq(&slot.loaded, loaded))
    }

    /// This version goes on being held, for this reason.
    pub(crate) fn hold_on(&mut self, loaded: &Arc<Loaded>, reason: &str) {
        if self.holds_back(loaded) {
            self.hold(loaded.name(), reason);
        }
    }

    /// What held a plugin has passed: all its keys are looked at.
    pub(crate) fn release_held(&mut self, plugin: &str) {
        if let Some(slot) = self.plugins.get_mut(plugin) {
            slot.held = None;
        }
        self.consider_known(plugin);
    }

    /// Takes a plugin out with all its keys.
    pub(crate) fn uninstall(&mut self, name: &str) -> bool {
        let Some(slot) = self.plugins.remove(name) else { return false };
        slot.controllers.into_iter().for_each(|id| self.remove_controller(id));
        true
    }

    fn add_controller(&mut self, plugin: &str, plan: &ControllerPlan) -> ControllerId {
        self.given_ids += 1;
        let id = ControllerId(self.given_ids);
        let primary = plan.spec.primary.clone();
        self.primaries.entry(primary.clone()).or_default().push(id);
        let slot = ControllerSlot {
            plugin: plugin.into(),
            name: plan.spec.name.as_str().into(),
            index: 0,
            primary,
            counts: Counts::default(),
            awaited: BTreeMap::new(),
        };
        self.controllers.insert(id, slot);
        id
    }

    fn remove_controller(&mut self, id: ControllerId) {
        for key in self.keys.of(id) {
            self.forget(key);
        }
        self.queue.forget_lane(id.lane());
        if let Some(slot) = self.controllers.remove(&id)
            && let Some(of_kind) = self.primaries.get_mut(&slot.primary)
        {
            of_kind.retain(|other| *other != id);
        }
    }

    /// The plan of a controller as its plugin stands now.
    pub(crate) fn plan(&self, id: ControllerId) -> Option<(&Arc<Loaded>, &ControllerPlan)> {
        let controller = self.controllers.get(&id)?;
        let slot = self.plugins.get(&*controller.plugin)?;
        Some((&slot.loaded, slot.loaded.controllers.get(controller.index)?))
    }

    pub(crate) fn controller_named(&self, plugin: &str, name: &str) -> Option<ControllerId> {
        let slot = self.plugins.get(plugin)?;
        slot.controllers
            .iter()
            .copied()
            .find(|id| self.controllers.get(id).is_some_and(|one| *one.name == *name))
    }

    pub(crate) fn counts(&mut self, key: Key) -> Option<&mut Counts> {
        self.controllers.get_mut(&key.controller).map(|slot| &mut slot.counts)
    }

    pub(crate) fn slot_of(&mut self, key: Key) -> Option<&mut Slot> {
        let controller = self.controllers.get(&key.controller)?;
        self.plugins.get_mut(&*controller.plugin)
    }

    // ---- keys ----------------------------------------------------------------------------------------------------

    /// Lets go of a key and of all that is kept for it. A pass of it under way finds that nobody asks for its end.
    pub(crate) fn forget(&mut self, key: Key) {
        self.unpark(key);
        self.deps.forget(&key);
        self.externals.forget(key);
        self.queue.remove(&key);
        if let Some(slot) = self.slot_of(key) {
            slot.health.forget(key);
        }
        let memo = self.keys.remove(key).and_then(|entry| entry.memo);
        for kept in memo.iter().flat_map(|memo| &memo.kept) {
            let place = applied_place(key, &kept.object, &kept.action);
            if self.appliers.get(&place) == Some(&key) {
                self.appliers.remove(&place);
            }
        }
    }

    /// Notes that a pass of this key applied an object.
    pub(crate) fn note_applier(&mut self, key: Key, object: &ObjectRef, action: &Action) {
        self.appliers.insert(applied_place(key, object, action), key);
        // What forgotten keys applied is told by nobody; it is swept out each time the table has doubled.
        if self.appliers.len() > self.appliers_swept * 2 + APPLIERS_KEPT {
            let keys = &self.keys;
            self.appliers.retain(|_, key| keys.get(*key).is_some());
            self.appliers_swept = self.appliers.len();
        }
    }

    /// Whether another object of the same controller applied this one since: under one field manager the last one
    /// wins, and looks after it.
    pub(crate) fn applied_by_another(&self, key: Key, object: &ObjectRef, action: &Action) -> bool {
        let last = self.appliers.get(&applied_place(key, object, action));
        last.is_some_and(|last| *last != key && self.keys.get(*last).is_some())
    }

    /// Has a key run as soon as its turn comes.
    pub(crate) fn enqueue(&mut self, key: Key, trigger: Trigger, priority: Priority) {
        let Some(entry) = self.keys.get_mut(key).filter(|_| !self.stopping) else { return };
        // Of several triggers the queue keeps one.
        entry.look_outside |= !is_of_an_object(&trigger);
        entry.doubt = Doubt::Everything;
        self.line_up(key, trigger, priority);
    }

    /// Has a key run because of one object, of which an answer or what it applied has changed.
    pub(crate) fn enqueue_changed(&mut self, key: Key, trigger: Trigger, object: &ObjectRef) {
        let Some(entry) = self.keys.get_mut(key).filter(|_| !self.stopping) else { return };
        entry.wakers.note(object);
        entry.doubt.note(object);
        self.line_up(key, trigger, Priority::Change);
    }

    fn line_up(&mut self, key: Key, trigger: Trigger, priority: Priority) {
        let since = self.start.0.elapsed();
        self.queue.add(key, Queued { trigger, since }, priority);
    }

    /// Has a key run at a time, unless something else runs it before.
    pub(crate) fn enqueue_at(&mut self, key: Key, trigger: Trigger, priority: Priority, at: Duration) {
        if self.stopping || self.keys.get(key).is_none() {
            return;
        }
        self.queue.add_at(key, Queued { trigger, since: at }, priority, at);
    }

    /// Says when the timer is to ring next, and remembers that.
    pub(crate) fn set_timer(&mut self) -> Option<Duration> {
        self.timer = self.queue.next_wake();
        self.timer
    }

    /// Whether a key is due before the timer rings, as it was set last.
    pub(crate) fn is_due_before_the_timer(&self) -> bool {
        let next = self.queue.next_wake();
        next.is_some_and(|next| self.timer.is_none_or(|timer| next < timer))
    }

    /// Has the key wait for a kind's watch.
    pub(crate) fn park(&mut self, key: Key, need: Box<Need>) {
        self.unpark(key);
        if let Some(entry) = self.keys.get_mut(key) {
            self.parked.entry(need.gvk.clone()).or_default().insert(key);
            entry.wait = Some(Wait::Sync(need));
        }
    }

    /// The key waits no more.
    pub(crate) fn unpark(&mut self, key: Key) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        if let Some(Wait::Sync(need)) = entry.wait.take()
            && let Some(waiting) = self.parked.get_mut(&need.gvk)
        {
            waiting.remove(&key);
        }
    }

    /// Those who wait for a watch of a kind.
    pub(crate) fn waiting_for(&self, gvk: &Gvk) -> Vec<Key> {
        self.parked.get(gvk).map(|keys| keys.iter().copied().collect()).unwrap_or_default()
    }

    /// Those who wait for a part of a kind that lies in this scope.
    pub(crate) fn waiting_in(&self, gvk: &Gvk, scope: &Scope) -> Vec<Key> {
        let inside = |key: &Key| match self.keys.get(*key).map(|entry| &entry.wait) {
            Some(Some(Wait::Sync(need))) => scope.covers(&need.scope),
            Some(_) | None => false,
        };
        self.waiting_for(gvk).into_iter().filter(inside).collect()
    }

    /// The next key whose turn it is.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Taken> {
        if self.stopping || self.standby {
            return None;
        }
        let full = self.controllers_at_their_share();
        loop {
            let (key, queued) = self.queue.pop_unless(now, |lane| full.contains(&lane))?;
            if self.is_held_up(key, &queued, now) {
                continue;
            }
            match self.begin(key, &queued, now) {
                Some(taken) => return Some(taken),
                None => self.queue.done(&key, now),
            }
        }
    }

    /// A key is at work until [`State::rests`].
    pub(crate) fn works(&mut self, taken: &Taken) {
        self.running += 1;
        self.at_work.insert(taken.key, taken.since);
        *self.running_of.entry(taken.plugin.clone()).or_default() += 1;
    }

    /// The pass of a key of that plugin is over.
    pub(crate) fn rests(&mut self, plugin: &str) {
        self.running -= 1;
        if let Some(running) = self.running_of.get_mut(plugin) {
            *running -= 1;
            if *running == 0 {
                self.running_of.remove(plugin);
            }
        }
    }

    /// The lanes of which no more keys may be at work: where there are others, one plugin leaves some workers to them,
    /// however slow its passes are.
    fn controllers_at_their_share(&self) -> BTreeSet<u64> {
        let share = (self.workers * WORKERS_SHARE.0 / WORKERS_SHARE.1).max(1);
        let full: Vec<_> = self.running_of.iter().filter(|(_, running)| **running >= share).collect();
        if full.is_empty() || self.plugins.len() < 2 {
            return BTreeSet::new();
        }
        let of_full = |slot: &ControllerSlot| full.iter().any(|(plugin, _)| **plugin == slot.plugin);
        self.controllers.iter().filter(|(_, slot)| of_full(slot)).map(|(id, _)| id.lane()).collect()
    }

    fn begin(&mut self, key: Key, queued: &Queued, now: Duration) -> Option<Taken> {
        let controller = self.controllers.get(&key.controller)?;
        let slot = self.plugins.get(&*controller.plugin)?;
        if slot.held.is_some() {
            return None;
        }
        let (loaded, index, plugin) = (Arc::clone(&slot.loaded), controller.index, controller.plugin.clone());
        let was_paused = self.keys.get(key)?.wait == Some(Wait::Paused);
        self.unpark(key);
        let entry = self.keys.get_mut(key)?;
        entry.wait = None;
        let requeue_due = entry.requeue_at.is_some_and(|at| at <= now);
        let resync_due = entry.resync_at.is_some_and(|at| at <= now);
        let look_outside = std::mem::take(&mut entry.look_outside)
            || requeue_due
            || resync_due
            || !is_of_an_object(&queued.trigger);
        let mut doubt = std::mem::replace(&mut entry.doubt, Doubt::none());
        if requeue_due || resync_due || !matches!(queued.trigger, Trigger::Changed { .. }) {
            doubt = Doubt::Everything;
        }
        let Entry {
            object,
            learned,
            padded_for,
            memo,
            failure,
            last_seen,
            stale_runs,
            rejected,
            failures,
            ..
        } = &*entry;
        Some(Taken {
            key,
            trigger: queued.trigger.clone(),
            queued: now.saturating_sub(queued.since),
            since: now,
            object: object.clone(),
            plugin,
            loaded,
            index,
            learned: Arc::clone(learned),
            padded_for: *padded_for,
            memo: memo.clone(),
            failure: failure.clone(),
            last_seen: last_seen.clone(),
            stale_runs: *stale_runs,
            rejected: *rejected,
            failures: *failures,
            was_paused,
            requeue_due,
            resync_due,
            look_outside,
            doubt,
        })
    }

    /// Has a change of any of these answers wake the key, and one of its primary.
    pub(crate) fn depend(
        &mut self,
        taken: &Taken,
        mut queries: Vec<Arc<Prepared>>,
        extras: Vec<Arc<Prepared>>,
    ) {
        if self.keys.get(taken.key).is_none() {
            return;
        }
        let view = taken.plan().view.pointers().iter().map(|pointer| pointer.as_str().to_owned()).collect();
        let primary = Query::Get(GetQuery { object: taken.object.clone(), view });
        queries.extend(Prepared::new(primary).ok().map(Arc::new));
        queries.extend(extras);
        self.externals.record(taken.key, &queries);
        self.deps.record(taken.key, &queries);
    }

    /// Takes a bad version out: what ran before it runs again, or the plugin is held.
    pub(crate) fn condemn(&mut self, plugin: &str, reason: &str) {
        let Some(slot) = self.plugins.get_mut(plugin) else { return };
        let manifest = slot.loaded.guest.manifest();
        let refusal = Refusal {
            digest: slot.loaded.guest.digest().to_owned(),
            version: manifest.version.clone(),
            reason: reason.to_owned(),
        };
        tracing::error!(
            plugin,
            version = refusal.version,
            digest = refusal.digest,
            reason,
            "plugin condemned"
        );
        match slot.before.take() {
            Some(before) => {
                self.install(before);
                if let Some(slot) = self.plugins.get_mut(plugin) {
                    slot.before = None;
                    slot.refused = Some(refusal);
                }
                self.consider_known(plugin);
            }
            None => slot.held = Some(reason.to_owned()),
        }
    }

    /// Has every key of a plugin looked at, whatever it was waiting for, and as if it never thrashed: what another version
    /// did is not held against this one, which may be the cure.
    pub(crate) fn consider_known(&mut self, plugin: &str) {
        let controllers = self.plugins.get(plugin).map(|slot| slot.controllers.clone()).unwrap_or_default();
        for key in controllers.into_iter().flat_map(|id| self.keys.of(id)).collect::<Vec<_>>() {
            if let Some(entry) = self.keys.get_mut(key) {
                entry.rejected = None;
                entry.memo = None;
                entry.breaker = Breaker::default();
                entry.slowed_until = None;
                entry.wakers.clear();
            }
            self.unpark(key);
            self.enqueue(key, Trigger::Loaded, Priority::Resync);
        }
    }

    // ---- denials -------------------------------------------------------------------------------------------------

    pub(crate) fn note_denied(&mut self, key: Key, sentence: String) {
        if let Some(slot) = self.slot_of(key)
            && slot.denied.len() < DENIALS_MAX
        {
            slot.denied.insert(sentence);
        }
    }
}

fn applied_place(key: Key, object: &ObjectRef, action: &Action) -> (ControllerId, ObjectRef, bool) {
    (key.controller, object.clone(), matches!(action, Action::ApplyStatus(_)))
}
