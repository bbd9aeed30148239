//! From what happened to the caches to the keys that must look again.

use std::sync::Arc;

use evenkeel_cluster::{CacheEvent, ListLookup, Scope};
use evenkeel_core::contract::{Gvk, ListQuery, ObjectRef};
use evenkeel_core::deps::Change;
use evenkeel_core::object::CachedObject;
use evenkeel_core::queue::Priority;
use evenkeel_core::record::Trigger;

use crate::answers::primary_scopes;
use crate::keys::{ControllerId, Wait};
use crate::paused::is_paused;
use crate::shared::Shared;
use crate::state::State;

/// Takes one event in.
pub(crate) fn dispatch(shared: &Shared, event: &CacheEvent) {
    if let CacheEvent::Synced { gvk, scope } = event {
        synced(shared, gvk, scope);
        return shared.wake();
    }
    let mut state = shared.state();
    match event {
        CacheEvent::Changed(change) => changed(&mut state, change),
        CacheEvent::Serving { gvk, served } => serving(&mut state, gvk, *served),
        CacheEvent::Forbidden { gvk } => forbidden(&mut state, gvk),
        CacheEvent::Synced { .. } => {}
    }
    shared.release(state);
}

fn changed(state: &mut State, change: &Change) {
    primary_changed(state, change);
    let trigger = Trigger::Changed { object: change.object.clone() };
    for key in state.deps.affected(change) {
        state.enqueue_changed(key, trigger.clone(), &change.object);
    }
}

/// What a change of an object means to the controllers that look after its kind. A change within the view of one
/// that knows the object already comes by the dependencies; the rest comes here.
fn primary_changed(state: &mut State, change: &Change) {
    let Some(controllers) = state.primaries.get(&change.gvk).cloned() else { return };
    for controller in controllers {
        match &change.new {
            Some(new) => primary_is(state, controller, change, new),
            None => primary_gone(state, controller, change),
        }
    }
}

fn primary_is(state: &mut State, controller: ControllerId, change: &Change, new: &CachedObject) {
    let Some((loaded, plan)) = state.plan(controller) else { return };
    if !loaded.looks_after(plan, new) {
        // It may have matched before: then it is somebody else's now. While a pass of it is under way the key stays, lest a
        // second one begins beside it should the object match again; its next look lets go of it.
        match state.keys.find(controller, &change.object) {
            Some(key) if state.at_work.contains_key(&key) => {
                state.enqueue(key, Trigger::Changed { object: change.object.clone() }, Priority::Change);
            }
            Some(key) => state.forget(key),
            None => {}
        }
        return;
    }
    let (key, is_new) = state.keys.intern(controller, &change.object);
    state.keys.note_seen(key);
    let Some(entry) = state.keys.get_mut(key) else { return };
    let came_back = std::mem::take(&mut entry.gone);
    let replaced = change.old.as_ref().is_none_or(|old| old.head().uid != new.head().uid);
    let released = entry.wait == Some(Wait::Paused) && !is_paused(new);
    if is_new || came_back || replaced || released {
        let trigger = Trigger::Changed { object: change.object.clone() };
        state.enqueue(key, trigger, Priority::Change);
    }
}

fn primary_gone(state: &mut State, controller: ControllerId, change: &Change) {
    let Some(key) = state.keys.find(controller, &change.object) else { return };
    let Some(entry) = state.keys.get_mut(key) else { return };
    entry.last_seen = change.old.clone();
    state.enqueue(key, Trigger::Changed { object: change.object.clone() }, Priority::Change);
}

/// A list came in whole: whoever waited for it runs, and every primary of the kind is considered once.
fn synced(shared: &Shared, gvk: &Gvk, scope: &Scope) {
    let mut state = shared.state();
    state.in_step(gvk, scope);
    let controllers = state.primaries.get(gvk).cloned().unwrap_or_default();
    drop(state);
    shared.note_idle(&controllers);
    for controller in controllers {
        shared.consider_all(controller, &Trigger::Synced { gvk: gvk.clone() }, |object| {
            in_scope(scope, object)
        });
    }
}

fn in_scope(scope: &Scope, object: &ObjectRef) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespace(namespace) => object.namespace.as_ref() == Some(namespace),
        Scope::Named(names) => names.contains(object.namespace.as_deref(), &object.name),
        Scope::Object(one) => one == object,
    }
}

/// Who waits for a watch of more than it needs asks for less now.
fn forbidden(state: &mut State, gvk: &Gvk) {
    for key in state.waiting_for(gvk) {
        state.unpark(key);
        state.enqueue(key, Trigger::Synced { gvk: gvk.clone() }, Priority::Change);
    }
}

fn serving(state: &mut State, gvk: &Gvk, served: bool) {
    state.await_no_more(gvk, |_| true);
    let trigger = Trigger::Serving { gvk: gvk.clone(), served };
    let mut keys = state.deps.affected_by_serving(gvk);
    keys.extend(state.waiting_for(gvk));
    for key in keys {
        state.unpark(key);
        state.enqueue(key, trigger.clone(), Priority::Change);
    }
}

impl Shared {
    /// Has every primary of a controller looked at once, after all that is more urgent.
    pub(crate) fn consider_all(
        &self,
        controller: ControllerId,
        trigger: &Trigger,
        which: impl Fn(&ObjectRef) -> bool,
    ) {
        let Some(primaries) = self.primaries_of(controller) else { return };
        let mut state = self.state();
        let known = state.keys.of(controller);
        for primary in &primaries {
            let object = primary.reference();
            if which(&object) {
                let (key, _) = state.keys.intern(controller, &object);
                state.enqueue(key, trigger.clone(), Priority::Resync);
            }
        }
        // Those whose primary is gone are asked too.
        for key in known {
            if state.keys.get(key).is_some_and(|entry| which(&entry.object)) {
                state.enqueue(key, trigger.clone(), Priority::Resync);
            }
        }
    }

    /// The primaries of a controller in the caches; none where it is gone.
    fn primaries_of(&self, controller: ControllerId) -> Option<Vec<Arc<CachedObject>>> {
        let (loaded, index) = {
            let state = self.state();
            let index = state.controllers.get(&controller)?.index;
            (Arc::clone(state.plan(controller)?.0), index)
        };
        let plan = loaded.controllers.get(index)?;
        let mut found = Vec::new();
        for scope in primary_scopes(&loaded.grant) {
            let namespace = match scope {
                Scope::Namespace(namespace) => Some(namespace),
                Scope::All | Scope::Named(_) | Scope::Object(_) => None,
            };
            let query = ListQuery {
                gvk: plan.spec.primary.clone(),
                namespace,
                labels: plan.spec.labels.clone(),
                fields: vec![],
                controlled_by: None,
                // No more than is watched of them.
                view: plan.spec.view.clone(),
            };
            if let ListLookup::Found(objects) = self.cluster.list(&query) {
                found.extend(objects.into_iter().filter(|object| loaded.looks_after(plan, object)));
            }
        }
        Some(found)
    }
}
