//! Whether an action goes to the API server, and as what; if not, why not. Does nothing itself.

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::canonical::{canonical, same};
use crate::contract::{Action, Apply, Event, Failure, FailureKind, Json, ObjectRef, Propagation};
use crate::fingerprint::Fingerprint;
use crate::limits::REMEMBERED_APPLIES_MAX;
use crate::noop::{is_noop, is_noop_with, owned_values};
use crate::object::CachedObject;
use crate::target::ActionTarget;
use crate::tree::Tree;

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create; one that exists is a conflict.
    Create {
        /// The object.
        object: ObjectRef,
        /// Its text.
        body: Json,
        /// The field manager.
        manager: String,
    },
    /// Server-side apply.
    Apply {
        /// The object.
        object: ObjectRef,
        /// The fields to own.
        body: Json,
        /// The field manager.
        manager: String,
        /// Take over fields of others.
        force: bool,
        /// As in `status`; none for the object itself.
        subresource: Option<&'static str>,
    },
    /// Delete, with preconditions.
    Delete {
        /// The object.
        object: ObjectRef,
        /// The UID that it must have.
        uid: Option<String>,
        /// The resourceVersion that it must have.
        resource_version: Option<String>,
        /// What becomes of its dependents.
        propagation: Propagation,
    },
    /// A JSON merge patch; its guards (`metadata.uid`, `metadata.resourceVersion`) are part of it.
    Patch {
        /// The object.
        object: ObjectRef,
        /// The patch.
        body: Json,
        /// The field manager.
        manager: String,
        /// As in `status`; none for the object itself.
        subresource: Option<&'static str>,
    },
    /// An Event.
    Publish(Event),
}

/// Why an action is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// It is so already.
    AlreadySo,
    /// The object is gone already.
    AlreadyGone,
    /// The object is being deleted already.
    BeingDeleted,
    /// There were too many Events about the object lately.
    TooManyEvents,
}

/// What becomes of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to the API server.
    Send(Write),
    /// It would change nothing.
    Skip(SkipReason),
    /// It cannot succeed as things stand.
    Fail(Failure),
    /// It does not concern the API server: the queue or a provider takes it.
    Elsewhere,
}

/// What an action is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The controller's field manager.
    pub manager: &'a str,
    /// The primary of the pass; none once it is gone.
    pub primary: Option<&'a CachedObject>,
    /// The object that the action is about, as the cache has it; none where there is none.
    pub seen: Option<&'a CachedObject>,
    /// What the API server made of earlier applies.
    pub answered: &'a Answered,
}

/// Judges an action.
pub fn admit(target: &ActionTarget<'_>, circumstances: &Circumstances<'_>) -> Verdict {
    let Some(object) = target.object() else { return Verdict::Elsewhere };
    let manager = circumstances.manager.to_owned();
    let seen = circumstances.seen;
    match target.action() {
        Action::Create(apply) => match metadata(target, apply, circumstances, None) {
            Ok(metadata) => {
                let body = text(with_metadata(target, metadata));
                Verdict::Send(Write::Create { object: object.clone(), body, manager })
            }
            Err(failure) => Verdict::Fail(failure),
        },
        Action::Apply(apply) => applying(target, object, apply, None, circumstances),
        Action::ApplyStatus(apply) => match seen {
            None => missing(object),
            Some(_) => applying(target, object, apply, Some("status"), circumstances),
        },
        Action::Delete(deletion) => match seen {
            None => Verdict::Skip(SkipReason::AlreadyGone),
            // The one that is meant is gone; its successor is another object.
            Some(seen) if deletion.uid.as_ref().is_some_and(|uid| *uid != seen.head().uid) => {
                Verdict::Skip(SkipReason::AlreadyGone)
            }
            Some(seen) if seen.head().deleting => Verdict::Skip(SkipReason::BeingDeleted),
            Some(seen) => Verdict::Send(Write::Delete {
                object: object.clone(),
                uid: Some(seen.head().uid.clone()),
                resource_version: Some(seen.head().resource_version.clone()),
                propagation: deletion.propagation,
            }),
        },
        Action::AddFinalizer(finalizer) => match seen {
            None => missing(object),
            Some(seen) if has_finalizer(seen, &finalizer.name) => Verdict::Skip(SkipReason::AlreadySo),
            Some(seen) if seen.head().deleting => {
                let message = format!("{object} is being deleted: it takes no finalizer any more");
                Verdict::Fail(Failure::new(FailureKind::Conflict, message))
            }
            Some(seen) => finalizers(object, seen, manager, |names| names.push(finalizer.name.clone())),
        },
        Action::RemoveFinalizer(finalizer) => match seen {
            None => Verdict::Skip(SkipReason::AlreadyGone),
            Some(seen) if !has_finalizer(seen, &finalizer.name) => Verdict::Skip(SkipReason::AlreadySo),
            Some(seen) => {
                finalizers(object, seen, manager, |names| names.retain(|name| *name != finalizer.name))
            }
        },
        Action::Patch(_) => match seen {
            None => missing(object),
            Some(seen) => patching(target, object, seen, manager),
        },
        Action::Publish(event) => Verdict::Send(Write::Publish(event.clone())),
        Action::Enqueue(_) | Action::External(_) => Verdict::Elsewhere,
    }
}

fn missing(object: &ObjectRef) -> Verdict {
    Verdict::Fail(Failure::new(FailureKind::NotFound, format!("there is no {object}")))
}

fn text(body: Map<String, Value>) -> Json {
    Value::Object(body).to_string().into()
}

// ---- apply -------------------------------------------------------------------------------------------------------

fn applying(
    target: &ActionTarget<'_>,
    object: &ObjectRef,
    apply: &Apply,
    subresource: Option<&'static str>,
    circumstances: &Circumstances<'_>,
) -> Verdict {
    let metadata = match metadata(target, apply, circumstances, circumstances.seen) {
        Ok(metadata) => metadata,
        Err(failure) => return Verdict::Fail(failure),
    };
    if let Some(seen) = circumstances.seen
        && is_so(object, (target, &metadata), seen, subresource, circumstances)
    {
        return Verdict::Skip(SkipReason::AlreadySo);
    }
    let manager = circumstances.manager.to_owned();
    Verdict::Send(Write::Apply {
        object: object.clone(),
        body: text(with_metadata(target, metadata)),
        manager,
        force: apply.force,
        subresource,
    })
}

/// The object to create or apply.
fn with_metadata(target: &ActionTarget<'_>, metadata: Value) -> Map<String, Value> {
    let mut body = target.body().clone();
    body.insert("metadata".into(), metadata);
    body
}

/// The metadata of an object to create or apply, with its owner and the UID of what it means.
fn metadata(
    target: &ActionTarget<'_>,
    apply: &Apply,
    circumstances: &Circumstances<'_>,
    seen: Option<&CachedObject>,
) -> Result<Value, Failure> {
    let mut metadata = match target.body().get("metadata") {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(_) => {
            let message = "the metadata of an object to apply is no object";
            return Err(Failure::new(FailureKind::Invalid, message));
        }
    };
    if let Some(seen) = seen {
        metadata.insert("uid".into(), seen.head().uid.clone().into());
    }
    if apply.controlled {
        let owner = circumstances.primary.ok_or_else(|| {
            Failure::new(FailureKind::Invalid, "a primary that is gone cannot own an object")
        })?;
        let controller = seen.and_then(|seen| seen.head().controller_uid.as_deref());
        if controller.is_some_and(|uid| uid != owner.head().uid) {
            let message = format!("{} is controlled by another owner", seen_as(target));
            return Err(Failure::new(FailureKind::Conflict, message));
        }
        own(&mut metadata, owner);
    }
    Ok(Value::Object(metadata))
}

fn seen_as(target: &ActionTarget<'_>) -> String {
    target.object().map_or_else(String::new, ToString::to_string)
}

/// Adds the owner to the owner references; whatever was said there of it before is replaced.
fn own(metadata: &mut Map<String, Value>, owner: &CachedObject) {
    let references = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
    if let Some(references) = references.as_array_mut() {
        references
            .retain(|reference| reference.get("uid").and_then(Value::as_str) != Some(&owner.head().uid));
        references.push(owner_reference(owner));
    }
}

fn owner_reference(owner: &CachedObject) -> Value {
    json!({
        "apiVersion": owner.gvk().api_version(), "kind": &*owner.gvk().kind, "name": &*owner.head().name,
        "uid": owner.head().uid, "controller": true, "blockOwnerDeletion": true,
    })
}

fn is_so(
    object: &ObjectRef,
    (target, metadata): (&ActionTarget<'_>, &Value),
    seen: &CachedObject,
    subresource: Option<&'static str>,
    circumstances: &Circumstances<'_>,
) -> bool {
    let fields = managed(seen, circumstances.manager, subresource);
    let trees = (Tree::parse(seen.json()), Tree::parse(fields));
    let (Some(current), Some(owned)) = trees else { return false };
    // Most are told by this, and nothing is copied for it.
    is_noop_with(target.body(), Some(metadata), &current, &owned)
        || circumstances.answered.was_so(
            &Slot::new(object, circumstances.manager, subresource),
            || with_metadata(target, metadata.clone()),
            seen.json(),
            fields,
        )
}

fn is_noop_text(body: &Map<String, Value>, current: &str, fields: &str) -> bool {
    let (Some(current), Some(fields)) = (Tree::parse(current), Tree::parse(fields)) else { return false };
    is_noop(body, &current, &fields)
}

/// What a manager owns; a manager that owns nothing has no entry.
fn managed<'o>(object: &'o CachedObject, manager: &str, subresource: Option<&str>) -> &'o str {
    object.managed(manager, subresource).unwrap_or("{}")
}

// ---- metadata and patches ----------------------------------------------------------------------------------------

fn has_finalizer(seen: &CachedObject, name: &str) -> bool {
    seen.head().finalizers.iter().any(|there| &**there == name)
}

/// The whole current list with a change, guarded: nobody's finalizer is lost.
fn finalizers(
    object: &ObjectRef,
    seen: &CachedObject,
    manager: String,
    change: impl FnOnce(&mut Vec<String>),
) -> Verdict {
    let mut names: Vec<String> = seen.head().finalizers.iter().map(ToString::to_string).collect();
    change(&mut names);
    let mut body = Map::new();
    body.insert("metadata".into(), json!({"finalizers": names}));
    guarded(&mut body, seen);
    Verdict::Send(Write::Patch { object: object.clone(), body: text(body), manager, subresource: None })
}

fn patching(target: &ActionTarget<'_>, object: &ObjectRef, seen: &CachedObject, manager: String) -> Verdict {
    let mut body = target.body().clone();
    let current: Option<Value> = serde_json::from_str(seen.json()).ok();
    if current.is_some_and(|current| merges_to_the_same(&Value::Object(body.clone()), Some(&current))) {
        return Verdict::Skip(SkipReason::AlreadySo);
    }
    // The object's own path drops a status without a word.
    let subresource = target.patches_status().then_some("status");
    guarded(&mut body, seen);
    Verdict::Send(Write::Patch { object: object.clone(), body: text(body), manager, subresource })
}

/// Whether a merge patch leaves a value as it is.
fn merges_to_the_same(patch: &Value, current: Option<&Value>) -> bool {
    match (patch, current) {
        (Value::Null, current) => current.is_none(),
        (Value::Object(fields), Some(current @ Value::Object(_))) => {
            fields.iter().all(|(key, value)| merges_to_the_same(value, current.get(key)))
        }
        (patch, Some(current)) => same(patch, current),
        (_, None) => false,
    }
}

fn guarded(body: &mut Map<String, Value>, seen: &CachedObject) {
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("uid".into(), seen.head().uid.clone().into());
        metadata.insert("resourceVersion".into(), seen.head().resource_version.clone().into());
    }
}

// ---- what the server made of an apply ----------------------------------------------------------------------------

/// What the API server made of the applies that it normalised (`1000m` of a quantity becomes `1`), so that the same apply
/// is known to change nothing. Bounded: the oldest go first.
#[derive(Debug, Default)]
pub struct Answered {
    known: HashMap<Slot, (Fingerprint, Fingerprint)>,
    order: VecDeque<Slot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot(ObjectRef, Box<str>, Option<&'static str>);

impl Slot {
    fn new(object: &ObjectRef, manager: &str, subresource: Option<&'static str>) -> Self {
        Self(object.clone(), manager.into(), subresource)
    }
}

impl Answered {
    /// Notes what came of a write. Only applies whose values the server changed take a place.
    pub fn note(&mut self, write: &Write, answer: &CachedObject) {
        let Write::Apply { object, body, manager, subresource, .. } = write else { return };
        let slot = Slot::new(object, manager, *subresource);
        let (Ok(Value::Object(body)), fields) =
            (serde_json::from_str(body), managed(answer, manager, *subresource))
        else {
            return;
        };
        // What was noted of an earlier apply stays true, and does no harm.
        if is_noop_text(&body, answer.json(), fields) {
            return;
        }
        let Some(made) = owned(answer.json(), fields) else { return };
        let wanted = fingerprint(body);
        if self.known.insert(slot.clone(), (wanted, made)).is_none() {
            self.order.push_back(slot);
        }
        while self.order.len() > REMEMBERED_APPLIES_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn was_so(
        &self,
        slot: &Slot,
        body: impl FnOnce() -> Map<String, Value>,
        current: &str,
        fields: &str,
    ) -> bool {
        self.known.get(slot).is_some_and(|(wanted, made)| {
            *wanted == fingerprint(body()) && Some(*made) == owned(current, fields)
        })
    }
}

/// Of what was applied, without the guard, which a first apply did not have.
fn fingerprint(mut body: Map<String, Value>) -> Fingerprint {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
    }
    Fingerprint::of(&canonical(&Value::Object(body)))
}

/// Of the values that a manager owns, and of which these are; none where the texts are no JSON.
fn owned(current: &str, fields: &str) -> Option<Fingerprint> {
    let (current, fields): (Value, Value) =
        (serde_json::from_str(current).ok()?, serde_json::from_str(fields).ok()?);
    Some(Fingerprint::of(&canonical(&json!([owned_values(&current, &fields), fields]))))
}

#[cfg(test)]
mod tests;
