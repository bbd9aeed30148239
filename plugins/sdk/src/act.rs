//! Actions, each by a builder: `act::apply(&quota).force()`, `act::delete(reference).uid(uid)`.
//!
//! What is written with `force` takes over fields of other managers; without it such a conflict fails the pass.

use serde::Serialize;
use serde_json::json;

use crate::{
    Action, Apply, Conclusion, Deletion, Enqueue, Event, EventType, Finalizer, Kind, ObjectRef, Operation,
    Patch, Place, Propagation, reference,
};

/// An apply under way; see [`apply`], [`create`] and [`apply_status`].
#[must_use = "an action does nothing until a conclusion carries it"]
#[derive(Clone, Debug)]
pub struct Applying {
    apply: Apply,
    into: fn(Apply) -> Action,
}

/// Server-side apply of an object with just the fields that this controller wants to own.
pub fn apply(object: &impl Serialize) -> Applying {
    Applying::new(json(object), Action::Apply)
}

/// Create an object; one that exists already is a conflict and never taken over.
pub fn create(object: &impl Serialize) -> Applying {
    Applying::new(json(object), Action::Create)
}

/// Server-side apply of a status: all of the status fields that this controller owns, each time.
pub fn apply_status<K: Kind>(place: impl Into<Place>, status: &impl Serialize) -> Applying {
    let ObjectRef { gvk, namespace, name } = reference::<K>(place);
    let api_version =
        if gvk.group.is_empty() { gvk.version } else { format!("{}/{}", gvk.group, gvk.version) };
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    let object =
        json!({ "apiVersion": api_version, "kind": gvk.kind, "metadata": metadata, "status": status });
    Applying::new(json(&object), Action::ApplyStatus)
}

impl Applying {
    fn new(object: String, into: fn(Apply) -> Action) -> Self {
        Self { apply: Apply { object, force: false, controlled: false }, into }
    }

    /// Take over fields that another manager owns.
    pub fn force(mut self) -> Self {
        self.apply.force = true;
        self
    }

    /// Make the pass's primary object its controller owner.
    pub fn controlled(mut self) -> Self {
        self.apply.controlled = true;
        self
    }
}

impl From<Applying> for Action {
    fn from(applying: Applying) -> Self {
        (applying.into)(applying.apply)
    }
}

/// A deletion under way; see [`delete`].
#[must_use = "an action does nothing until a conclusion carries it"]
#[derive(Clone, Debug)]
pub struct Deleting(Deletion);

/// Delete an object, with background propagation; one that is gone already is a success.
pub fn delete(object: ObjectRef) -> Deleting {
    Deleting(Deletion { object, uid: None, propagation: Propagation::Background })
}

impl Deleting {
    /// Only the object of this UID, not a successor of the same name.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.0.uid = Some(uid.into());
        self
    }

    /// What becomes of its dependents.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.0.propagation = propagation;
        self
    }
}

impl From<Deleting> for Action {
    fn from(deleting: Deleting) -> Self {
        Action::Delete(deleting.0)
    }
}

/// Add a finalizer, if it is not there.
pub fn add_finalizer(object: ObjectRef, name: &str) -> Action {
    Action::AddFinalizer(Finalizer { object, name: name.to_owned() })
}

/// Remove a finalizer, and no other one.
pub fn remove_finalizer(object: ObjectRef, name: &str) -> Action {
    Action::RemoveFinalizer(Finalizer { object, name: name.to_owned() })
}

/// A JSON merge patch, guarded by the state that the pass saw: for what apply cannot say.
pub fn patch(object: ObjectRef, merge: &impl Serialize) -> Action {
    Action::Patch(Patch { object, merge: json(merge) })
}

/// A Warning event: something is wrong.
pub fn warning(about: ObjectRef, reason: &str, message: impl Into<String>) -> Action {
    publish(about, EventType::Warning, reason, message.into())
}

/// A Normal event: something happened.
pub fn normal(about: ObjectRef, reason: &str, message: impl Into<String>) -> Action {
    publish(about, EventType::Normal, reason, message.into())
}

/// Ask for a pass of another object, by one of this plugin's controllers.
pub fn enqueue(controller: &str, object: ObjectRef) -> Action {
    Action::Enqueue(Enqueue { controller: controller.to_owned(), object })
}

/// Have a provider do something. The same `key` within one object's life means the same operation.
pub fn external(provider: &str, operation: &str, key: &str, arguments: &impl Serialize) -> Action {
    Action::External(Operation {
        key: key.to_owned(),
        provider: provider.to_owned(),
        operation: operation.to_owned(),
        arguments: json(arguments),
    })
}

/// JSON text of a value of ours.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Fails only for maps whose keys are no strings, which no Kubernetes type has: a bug of the plugin's author.
    serde_json::to_string(value).expect("what a plugin writes serializes to JSON")
}

fn publish(about: ObjectRef, severity: EventType, reason: &str, message: String) -> Action {
    Action::Publish(Event {
        about,
        severity,
        reason: reason.to_owned(),
        message: crate::clean_message(&message),
    })
}

impl From<Action> for Conclusion {
    fn from(action: Action) -> Self {
        Conclusion::new().with(action)
    }
}
