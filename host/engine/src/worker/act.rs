//! Actions: grant, standing, no-op, fault, write, in the order given; the first that fails ends the pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cluster::{Depth, Need};
use evenkeel_core::admit::{SkipReason, Verdict, Write};
use evenkeel_core::contract::{Action, Event, Failure, FailureKind, Gvk, Json, ObjectRef, Performed};
use evenkeel_core::footprint;
use evenkeel_core::object::CachedObject;
use evenkeel_core::query::Prepared;
use evenkeel_core::record::Trigger;
use evenkeel_core::target::ActionTarget;

use super::look::{Look, Stop};
use super::prune::deletion;
use super::world::{Sight, Standing};
use crate::answers::{action_depth, is_secret, need_of, want, want_object};
use crate::faults::{Deed, Fate};
use crate::keys::Kept;
use crate::limits::UNSEEN_KEYS_MAX;
use crate::shared::Enqueued;

/// What is to become of an action, and the object that this was judged by.
type Judged = (Option<Verdict>, Option<Arc<CachedObject>>);

/// What came of an action, or why it failed.
type Outcome = Result<Done, Failure>;

/// What came of an action.
#[derive(Default)]
struct Done {
    /// The object or answer, for the plugin.
    answer: Option<Json>,
    /// The revision at which the object is as the action wants it.
    revision: Option<String>,
}

impl Done {
    fn with(action: &Action, object: &CachedObject) -> Self {
        Self { answer: shown(action, object), revision: Some(object.head().resource_version.clone()) }
    }
}

impl Look<'_> {
    /// Carries out the actions of a round, and says what came of each.
    pub(super) async fn perform(&mut self, actions: &[Action]) -> Result<Vec<Performed>, Stop> {
        let targets = self.targets(actions)?;
        self.make_sure(&targets, &[]).await?;
        let mut performed = Vec::with_capacity(actions.len());
        for target in &targets {
            let outcome = self.act(target).await?;
            performed.push(Performed { action: target.action().clone(), outcome: Ok(outcome) });
        }
        Ok(performed)
    }

    /// Carries out the actions of a conclusion, and deletes what it prunes.
    pub(super) async fn carry_out(&mut self, actions: &[Action], prune: &[Gvk]) -> Result<(), Stop> {
        let targets = self.targets(actions)?;
        self.make_sure(&targets, prune).await?;
        for target in &targets {
            self.act(target).await?;
        }
        self.prune(prune).await
    }

    /// Deletes what the conclusion left out of the kinds that it prunes.
    pub(super) async fn prune(&mut self, kinds: &[Gvk]) -> Result<(), Stop> {
        if kinds.is_empty() {
            return Ok(());
        }
        let doomed: Vec<_> = self.victims(kinds, &self.made)?.iter().map(|victim| deletion(victim)).collect();
        for target in &self.targets(&doomed)? {
            self.act(target).await?;
        }
        Ok(())
    }

    fn targets<'t>(&mut self, actions: &'t [Action]) -> Result<Vec<ActionTarget<'t>>, Stop> {
        let mut targets = Vec::with_capacity(actions.len());
        for action in actions {
            match ActionTarget::of(action) {
                Ok(target) => targets.push(target),
                Err(fault) => {
                    let failure = fault.failure();
                    self.notes.refused(action, &failure);
                    return Err(self.stop_at(action, failure));
                }
            }
        }
        Ok(targets)
    }

    /// Before anything is done: every object that is to be written is watched, and where something cannot be undone,
    /// the evidence is fresh.
    async fn make_sure(&mut self, targets: &[ActionTarget<'_>], prune: &[Gvk]) -> Result<(), Stop> {
        self.watch_over(targets, prune);
        self.want_all(targets, prune);
        let mut irreversible = false;
        for target in targets {
            // What is not granted is refused when its turn comes; until then nobody looks at it.
            if self.taken.loaded.grant.allows_action(target, &self.taken.object).is_err() {
                continue;
            }
            let Some(object) = target.object() else {
                irreversible |= target.is_irreversible(None);
                continue;
            };
            if !is_watched(target.action()) {
                continue;
            }
            let depth = action_depth(target.action());
            match self.standing(object, depth) {
                Standing::Known(sight) => irreversible |= is_irreversible(target, sight.current.as_deref()),
                Standing::Unserved => {}
                Standing::Unknown => return Err(Stop::Wait(need(object, depth))),
            }
        }
        let named: BTreeSet<ObjectRef> =
            targets.iter().filter_map(|target| target.object().cloned()).collect();
        irreversible |= !self.victims(prune, &named)?.is_empty();
        if irreversible { self.check_evidence(self.prune_queries(prune)).await } else { Ok(()) }
    }

    /// Has everything watched that has to be known of before any of this is done: the pass may wait for all of it at once, and
    /// not for one kind after the other.
    fn want_all(&self, targets: &[ActionTarget<'_>], prune: &[Gvk]) {
        let (cluster, grant) = (&self.shared.cluster, &self.taken.loaded.grant);
        for target in targets {
            if let Some(object) = target.object().filter(|_| is_watched(target.action()))
                && grant.allows_action(target, &self.taken.object).is_ok()
            {
                want_object(cluster, grant, object, action_depth(target.action()));
            }
        }
        for query in self.prune_queries(prune) {
            if grant.allows_query(&query).is_ok() {
                want(cluster, grant, &query);
            }
        }
    }

    /// Has what these actions leave behind wake the key when it drifts, before any of them is done.
    fn watch_over(&mut self, targets: &[ActionTarget<'_>], prune: &[Gvk]) {
        let left = targets.iter().filter(|target| {
            matches!(
                target.action(),
                Action::Apply(_) | Action::ApplyStatus(_) | Action::AddFinalizer(_) | Action::Delete(_)
            )
        });
        // Others write into the rest of these objects all the time, and that is no drift.
        let manager = &self.taken.plan().manager;
        let drifts = left.filter_map(|target| {
            let view = self.shared.share(footprint::of(target, manager));
            Some(Prepared::watching(target.object()?.clone(), view))
        });
        let prunes = self.prune_queries(prune).into_iter().map(Prepared::new);
        // What cannot be prepared is refused where it is acted upon.
        let prepared: Vec<_> = drifts.chain(prunes).filter_map(Result::ok).map(Arc::new).collect();
        self.extras.extend(prepared);
        self.note_dependencies(&[]);
    }

    fn standing(&self, object: &ObjectRef, depth: Depth) -> Standing {
        let primary = (&self.taken.object, self.primary.as_deref(), &self.taken.plan().view);
        self.written.standing(&self.shared.cluster, (object, depth), primary, &self.answered)
    }

    /// Carries out one action.
    pub(super) async fn act(&mut self, target: &ActionTarget<'_>) -> Result<Option<Json>, Stop> {
        if self.shared.is_fenced() {
            // Another host may act: nothing of this is done here, and what it rests on may not be so any more.
            return Err(Stop::Stale);
        }
        let action = target.action();
        if let Err(denial) = self.taken.loaded.grant.allows_action(target, &self.taken.object) {
            self.notes.did(target, None, Err(&denial.failure()));
            return Err(self.denied_at(action, &denial));
        }
        let fate = self.strike(action);
        let (verdict, done) = match &fate {
            Fate::FailBefore(failure) => (None, Err(failure.clone())),
            Fate::Proceed | Fate::FailAfter(_) => self.carry(target).await?,
        };
        let done = match fate {
            Fate::FailAfter(failure) => Err(failure),
            Fate::Proceed | Fate::FailBefore(_) => done,
        };
        self.notes.did(target, verdict.as_ref(), done.as_ref().map(|done| done.answer.as_ref()));
        let Done { answer, revision } = done.map_err(|failure| self.stop_at(action, failure))?;
        self.cured |=
            self.taken.failure.as_ref().is_some_and(|failure| failure.action.as_ref() == Some(action));
        self.keep(target, revision);
        Ok(answer)
    }

    /// Gives an action to whoever is to do it.
    async fn carry(&mut self, target: &ActionTarget<'_>) -> Result<(Option<Verdict>, Outcome), Stop> {
        match target.action() {
            Action::Enqueue(enqueue) => {
                let trigger = Trigger::Enqueued { by: self.taken.object.clone() };
                let (plugin, controller) = (self.taken.loaded.name(), &enqueue.controller);
                let done = match self.shared.enqueue(plugin, controller, &enqueue.object, trigger) {
                    Enqueued::TooMany => Err(too_many_names(controller)),
                    // A controller that is gone by now was taken out with its plugin.
                    Enqueued::InLine | Enqueued::NoController => Ok(Done::default()),
                };
                Ok((None, done))
            }
            Action::External(operation) => {
                let caller = self.caller();
                let performed = self.shared.escort(self.shared.providers.perform(&caller, operation)).await;
                let answer = performed.unwrap_or_else(|| Err(given_up())).map_err(Failure::cut);
                Ok((None, answer.map(|answer| Done { answer, revision: None })))
            }
            Action::Create(_)
            | Action::Apply(_)
            | Action::ApplyStatus(_)
            | Action::Delete(_)
            | Action::AddFinalizer(_)
            | Action::RemoveFinalizer(_)
            | Action::Patch(_)
            | Action::Publish(_) => self.write(target).await,
        }
    }

    /// Sends a write, unless it would change nothing or cannot succeed.
    async fn write(&mut self, target: &ActionTarget<'_>) -> Result<(Option<Verdict>, Outcome), Stop> {
        let action = target.action();
        let Some(object) = target.object() else { return Ok((None, Ok(Done::default()))) };
        let (mut verdict, mut current) = self.judge(target, object)?;
        let shared = self.shared;
        let mut _turn = None;
        if matches!(verdict, Some(Verdict::Send(_))) && is_watched(action) {
            _turn = Some(shared.turns.of(object).await);
            // Another key may have written it just now, and have said the same. That shows in the object, or in what is known
            // of how the API server put it, which comes later than the object: this judgement holds, not the first.
            (verdict, current) = self.judge(target, object)?;
        }
        let Some(verdict) = verdict else {
            let message = format!("{} is not served by the API server", object.gvk);
            return Ok((None, Err(Failure::new(FailureKind::NotFound, message))));
        };
        let outcome = match &verdict {
            Verdict::Skip(_) => {
                self.counted.skipped += 1;
                Ok(current.map(|object| Done::with(action, &object)).unwrap_or_default())
            }
            Verdict::Fail(failure) => Err(failure.clone()),
            // What is not for the API server never comes here.
            Verdict::Elsewhere => Ok(Done::default()),
            Verdict::Send(Write::Publish(event)) => {
                let (verdict, outcome) = self.publish(event).await;
                return Ok((Some(verdict), outcome));
            }
            Verdict::Send(write) => self.send(action, object, write).await,
        };
        Ok((Some(verdict), outcome))
    }

    /// Publishes an Event, unless there were too many about its object.
    async fn publish(&mut self, event: &Event) -> (Verdict, Outcome) {
        let user = self.taken.loaded.user.as_deref();
        let sent = self.shared.cluster.publish_as(event, user).await;
        if matches!(sent, Ok(false)) {
            self.counted.skipped += 1;
            return (Verdict::Skip(SkipReason::TooManyEvents), Ok(Done::default()));
        }
        self.counted.sent += 1;
        let outcome = sent.map(|_| Done::default()).map_err(|error| error.failure);
        (Verdict::Send(Write::Publish(event.clone())), outcome)
    }

    /// What is to become of an action as things stand, and the object as it was judged by; no verdict where its kind is
    /// not served.
    fn judge(&self, target: &ActionTarget<'_>, object: &ObjectRef) -> Result<Judged, Stop> {
        let (action, depth) = (target.action(), action_depth(target.action()));
        let current = if is_watched(action) {
            match self.standing(object, depth) {
                Standing::Known(sight) if must_run_again(action, &sight) => return Err(Stop::Stale),
                Standing::Known(sight) => sight.current,
                Standing::Unknown => return Err(Stop::Wait(need(object, depth))),
                Standing::Unserved => return Ok((None, None)),
            }
        } else {
            self.shared.cluster.peek(object)
        };
        Ok((Some(self.admit(target, current.as_deref())), current))
    }

    async fn send(&mut self, action: &Action, object: &ObjectRef, write: &Write) -> Outcome {
        self.counted.sent += 1;
        let user = self.taken.loaded.user.as_deref();
        let new = self.shared.cluster.write_as(write, user).await.map_err(|error| error.failure)?;
        self.written.note(object);
        if let Some(new) = &new {
            self.shared.note_answer(write, new);
        }
        if matches!(write, Write::Apply { .. }) {
            self.shared.state().note_applier(self.taken.key, object, action);
        }
        Ok(new.map(|object| Done::with(action, &object)).unwrap_or_default())
    }

    fn strike(&self, action: &Action) -> Fate {
        let Some(faults) = &self.shared.faults else { return Fate::Proceed };
        faults.strike(Deed {
            plugin: self.taken.loaded.name(),
            controller: &self.taken.plan().spec.name,
            key: &self.taken.object,
            action,
        })
    }

    /// Remembers what has to stay as it was applied; a later apply of the same object replaces an earlier one.
    fn keep(&mut self, target: &ActionTarget<'_>, revision: Option<String>) {
        let (action, Some(object)) = (target.action(), target.object()) else { return };
        if matches!(action, Action::Create(_) | Action::Apply(_)) {
            self.made.insert(object.clone());
        }
        let kind = |action: &Action| std::mem::discriminant(action);
        match action {
            Action::Apply(_) | Action::ApplyStatus(_) => {
                self.kept.retain(|kept| kept.object != *object || kind(&kept.action) != kind(action));
            }
            Action::AddFinalizer(_) => {}
            Action::RemoveFinalizer(removed) => {
                self.kept
                    .retain(|kept| !matches!(&kept.action, Action::AddFinalizer(added) if added == removed));
                return;
            }
            Action::Create(_)
            | Action::Delete(_)
            | Action::Patch(_)
            | Action::Publish(_)
            | Action::Enqueue(_)
            | Action::External(_) => return,
        }
        self.kept.push(Kept::new(action.clone(), object.clone(), revision));
    }
}

/// What the plugin gets to see of an object that it wrote. A Secret whose finalizers it may change is not one that it may read.
fn shown(action: &Action, object: &CachedObject) -> Option<Json> {
    match action {
        Action::AddFinalizer(it) | Action::RemoveFinalizer(it) if is_secret(&it.object.gvk) => None,
        _ => Some(Arc::clone(object.json())),
    }
}

fn too_many_names(controller: &str) -> Failure {
    let message = format!(
        "{UNSEEN_KEYS_MAX} objects wait for {controller} that were asked for by name and that nobody has seen yet"
    );
    Failure::new(FailureKind::Transient, message)
}

/// Why an operation outside Kubernetes is not known to have been done.
fn given_up() -> Failure {
    Failure::new(FailureKind::Transient, "it was given up on its way, as another host may act by now")
}

/// The watch that knows of an object.
pub(super) fn need(object: &ObjectRef, depth: Depth) -> Box<Need> {
    Box::new(need_of(object, depth))
}

/// Whether the host watches what the action is about, so that it knows how it stands before it acts.
fn is_watched(action: &Action) -> bool {
    match action {
        Action::Create(_)
        | Action::Apply(_)
        | Action::ApplyStatus(_)
        | Action::Delete(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Patch(_) => true,
        Action::Publish(_) | Action::Enqueue(_) | Action::External(_) => false,
    }
}

/// Whether the object has become another one since the pass saw it, or is not as the pass computed from.
fn must_run_again(action: &Action, sight: &Sight) -> bool {
    match action {
        // The API server says whether it exists.
        Action::Create(_) | Action::Publish(_) | Action::Enqueue(_) | Action::External(_) => false,
        // What was changed in it meanwhile is for the API server to merge.
        Action::Apply(_) | Action::ApplyStatus(_) => sight.other,
        // One that is gone is what was wanted.
        Action::Delete(_) => sight.other && sight.current.is_some(),
        Action::AddFinalizer(_) | Action::Patch(_) => sight.other || sight.changed,
        Action::RemoveFinalizer(_) => sight.current.is_some() && (sight.other || sight.changed),
    }
}

/// Whether the action would do something that cannot be undone.
fn is_irreversible(target: &ActionTarget<'_>, current: Option<&CachedObject>) -> bool {
    let would_act = match (target.action(), current) {
        (Action::Delete(_), Some(current)) => !current.head().deleting,
        (Action::RemoveFinalizer(removed), Some(current)) => {
            current.head().finalizers.iter().any(|name| **name == *removed.name)
        }
        (Action::Delete(_) | Action::RemoveFinalizer(_), None) => false,
        _ => true,
    };
    would_act && target.is_irreversible(current)
}
