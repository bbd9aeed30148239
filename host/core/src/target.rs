//! An action with its object parsed once and found sound: what grant and admission judge.

use serde_json::{Map, Value};

use crate::canonical::canonical_text;
use crate::contract::{Action, Apply, Failure, FailureKind, Gvk, ObjectRef, Propagation};
use crate::limits::{ARGUMENTS_BYTES_MAX, EVENT_REASON_BYTES_MAX, OBJECT_BYTES_MAX};
use crate::names::{self, NameError};
use crate::object::CachedObject;

/// Why an action is none that could be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionFault {
    /// Its object or patch is no JSON object, or too large.
    #[error("{verb} of something that is no JSON object of at most {OBJECT_BYTES_MAX} bytes: {reason}")]
    Json {
        /// What was to be done.
        verb: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A part that must be there, or must not, or is of a wrong type.
    #[error("{verb} of an object with {field}: {reason}")]
    Field {
        /// What was to be done.
        verb: &'static str,
        /// The field.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A name that cannot be.
    #[error("{verb} with the {what} {text:?}: {cause}")]
    Name {
        /// What was to be done.
        verb: &'static str,
        /// What it names.
        what: &'static str,
        /// What was given.
        text: String,
        /// What is wrong with it.
        cause: NameError,
    },
}

impl ActionFault {
    /// The failure of the pass.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Invalid, self.to_string())
    }
}

/// An action that is sound, with what it is about.
#[derive(Clone, Debug)]
pub struct ActionTarget<'a> {
    action: &'a Action,
    object: Option<ObjectRef>,
    body: Map<String, Value>,
}

/// A word for an action, for messages, metrics and the journal.
pub fn verb(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "create",
        Action::Apply(_) => "apply",
        Action::ApplyStatus(_) => "apply-status",
        Action::Delete(_) => "delete",
        Action::AddFinalizer(_) => "add-finalizer",
        Action::RemoveFinalizer(_) => "remove-finalizer",
        Action::Patch(_) => "patch",
        Action::Publish(_) => "publish",
        Action::Enqueue(_) => "enqueue",
        Action::External(_) => "external",
    }
}

impl<'a> ActionTarget<'a> {
    /// Parses and checks an action.
    pub fn of(action: &'a Action) -> Result<Self, ActionFault> {
        let verb = verb(action);
        let (object, body) = match action {
            Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => {
                let (object, body) = applied(verb, apply)?;
                if matches!(action, Action::ApplyStatus(_)) {
                    status_alone(verb, &body)?;
                }
                (Some(object), body)
            }
            Action::Patch(patch) => {
                named(verb, &patch.object)?;
                (Some(patch.object.clone()), patched(verb, &patch.merge)?)
            }
            Action::Delete(deletion) => {
                named(verb, &deletion.object)?;
                (Some(deletion.object.clone()), Map::new())
            }
            Action::AddFinalizer(finalizer) | Action::RemoveFinalizer(finalizer) => {
                named(verb, &finalizer.object)?;
                check(verb, "finalizer", &finalizer.name, names::finalizer_name)?;
                (Some(finalizer.object.clone()), Map::new())
            }
            Action::Publish(event) => {
                named(verb, &event.about)?;
                check(verb, "reason", &event.reason, event_reason)?;
                (Some(event.about.clone()), Map::new())
            }
            Action::Enqueue(enqueue) => {
                named(verb, &enqueue.object)?;
                (Some(enqueue.object.clone()), Map::new())
            }
            Action::External(operation) => {
                let arguments = &operation.arguments;
                if arguments.len() > ARGUMENTS_BYTES_MAX || canonical_text(arguments).is_none() {
                    let reason = format!("its arguments are no JSON of at most {ARGUMENTS_BYTES_MAX} bytes");
                    return Err(ActionFault::Json { verb, reason });
                }
                (None, Map::new())
            }
        };
        Ok(Self { action, object, body })
    }

    /// The action as it was given.
    pub fn action(&self) -> &'a Action {
        self.action
    }

    /// The object that it is about; none for an operation outside Kubernetes.
    pub fn object(&self) -> Option<&ObjectRef> {
        self.object.as_ref()
    }

    /// The object to create or apply, or the patch; empty for other actions.
    pub fn body(&self) -> &Map<String, Value> {
        &self.body
    }

    /// A word for it.
    pub fn verb(&self) -> &'static str {
        verb(self.action)
    }

    /// Whether it writes finalizers other than by the actions that are for that.
    pub fn touches_finalizers(&self) -> bool {
        self.body.get("metadata").is_some_and(|metadata| metadata.get("finalizers").is_some())
    }

    /// Whether it is a patch of the status and of nothing else.
    pub fn patches_status(&self) -> bool {
        matches!(self.action, Action::Patch(_)) && self.body.len() == 1 && self.body.contains_key("status")
    }

    /// Whether it cannot be taken back, so that it needs evidence as new as the API server is now.
    pub fn is_irreversible(&self, seen: Option<&CachedObject>) -> bool {
        match self.action {
            Action::Delete(deletion) => deletion.propagation != Propagation::Orphan || seen.is_some(),
            Action::RemoveFinalizer(_) => seen.is_some_and(|object| object.head().deleting),
            Action::Patch(_) => {
                self.touches_finalizers() && seen.is_some_and(|object| object.head().deleting)
            }
            Action::External(_) => true,
            Action::Create(_)
            | Action::Apply(_)
            | Action::ApplyStatus(_)
            | Action::AddFinalizer(_)
            | Action::Publish(_)
            | Action::Enqueue(_) => false,
        }
    }
}

/// The body of an apply and the object that it names.
fn applied(verb: &'static str, apply: &Apply) -> Result<(ObjectRef, Map<String, Value>), ActionFault> {
    let body = json_object(verb, &apply.object)?;
    let text = |holder: &Map<String, Value>, path: &str, key: &str| match holder.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(field(verb, path, "it is no text or empty")),
        None => Err(field(verb, path, "it is missing")),
    };
    let gvk = Gvk::from_api_version(&text(&body, "apiVersion", "apiVersion")?, &text(&body, "kind", "kind")?);
    let Some(Value::Object(metadata)) = body.get("metadata") else {
        return Err(field(verb, "metadata", "it is missing or no object"));
    };
    let namespace = match metadata.get("namespace") {
        Some(Value::Null) | None => None,
        Some(_) => Some(text(metadata, "metadata.namespace", "namespace")?),
    };
    let name = text(metadata, "metadata.name", "name")?;
    hosts_business(verb, metadata, &["managedFields", "resourceVersion"])?;
    owners(verb, metadata, apply.controlled)?;
    let object = ObjectRef::new(gvk, namespace.as_deref(), &name);
    named(verb, &object)?;
    Ok((object, body))
}

/// A status is applied alone: the API server would drop the rest without a word.
fn status_alone(verb: &'static str, body: &Map<String, Value>) -> Result<(), ActionFault> {
    let known = |key: &&String| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status");
    if let Some(other) = body.keys().find(|key| !known(key)) {
        return Err(field(verb, other, "a status is applied alone"));
    }
    let metadata = body.get("metadata").and_then(Value::as_object);
    let other = metadata
        .into_iter()
        .flat_map(Map::keys)
        .find(|key| !matches!(key.as_str(), "name" | "namespace" | "uid"));
    match other {
        Some(other) => Err(field(verb, &format!("metadata.{other}"), "a status is applied alone")),
        None => Ok(()),
    }
}

/// The body of a merge patch: what names the object and what guards the patch is not the plugin's to write.
fn patched(verb: &'static str, merge: &str) -> Result<Map<String, Value>, ActionFault> {
    let body = json_object(verb, merge)?;
    for key in ["apiVersion", "kind"] {
        if body.contains_key(key) {
            return Err(field(verb, key, "a patch does not change what the object is"));
        }
    }
    match body.get("metadata") {
        None => Ok(body),
        Some(Value::Object(metadata)) => {
            let fixed = ["name", "namespace", "uid", "resourceVersion", "managedFields", "deletionTimestamp"];
            hosts_business(verb, metadata, &fixed)?;
            Ok(body)
        }
        Some(_) => Err(field(verb, "metadata", "it is no object")),
    }
}

fn hosts_business(
    verb: &'static str,
    metadata: &Map<String, Value>,
    keys: &[&str],
) -> Result<(), ActionFault> {
    match keys.iter().find(|key| metadata.contains_key(**key)) {
        Some(key) => Err(field(verb, &format!("metadata.{key}"), "that is the host's business")),
        None => Ok(()),
    }
}

/// The owner references given; with `controlled` the host adds the controller.
fn owners(verb: &'static str, metadata: &Map<String, Value>, controlled: bool) -> Result<(), ActionFault> {
    let references = match metadata.get("ownerReferences") {
        None => return Ok(()),
        Some(Value::Array(references)) => references,
        Some(_) => return Err(field(verb, "metadata.ownerReferences", "it is no list")),
    };
    let controls = |owner: &Value| owner.get("controller").is_some_and(|controller| controller == true);
    if controlled && references.iter().any(controls) {
        return Err(field(verb, "metadata.ownerReferences", "there is another controller than the primary"));
    }
    Ok(())
}

fn json_object(verb: &'static str, text: &str) -> Result<Map<String, Value>, ActionFault> {
    let fault = |reason: String| ActionFault::Json { verb, reason };
    if text.len() > OBJECT_BYTES_MAX {
        return Err(fault(format!("it has {} bytes", text.len())));
    }
    // The parser itself refuses what is nested too deeply.
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(fault("it is another value".to_owned())),
        Err(error) => Err(fault(error.to_string())),
    }
}

fn named(verb: &'static str, object: &ObjectRef) -> Result<(), ActionFault> {
    names::kind(&object.gvk).map_err(|cause| ActionFault::Name {
        verb,
        what: "kind",
        text: format!("{} {}", object.gvk.api_version(), object.gvk.kind),
        cause,
    })?;
    if let Some(namespace) = &object.namespace {
        check(verb, "namespace", namespace, names::dns_label)?;
    }
    check(verb, "name", &object.name, names::object_name)
}

fn event_reason(text: &str) -> Result<(), NameError> {
    if text.len() > EVENT_REASON_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len(), max: EVENT_REASON_BYTES_MAX });
    }
    match text.chars().find(|c| !c.is_ascii_alphanumeric()) {
        Some(found) => Err(NameError::Character { found }),
        None if text.is_empty() => Err(NameError::Empty),
        None => Ok(()),
    }
}

fn check(
    verb: &'static str,
    what: &'static str,
    text: &str,
    sound: impl Fn(&str) -> Result<(), NameError>,
) -> Result<(), ActionFault> {
    sound(text).map_err(|cause| ActionFault::Name { verb, what, text: text.to_owned(), cause })
}

fn field(verb: &'static str, field: &str, reason: &str) -> ActionFault {
    ActionFault::Field { verb, field: field.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::contract::{Deletion, Enqueue, Event, EventType, Finalizer, Operation, Patch};
    use crate::testing::reference;

    fn check(action: &Action, expect: Expect) {
        let text = match ActionTarget::of(action) {
            Ok(target) => {
                let object = target.object().map(ToString::to_string);
                format!("{} {}", target.verb(), object.unwrap_or_default())
            }
            Err(fault) => fault.to_string(),
        };
        expect.assert_eq(&text);
    }

    fn apply(object: &str) -> Apply {
        Apply { object: object.into(), force: false, controlled: true }
    }

    #[test]
    fn an_object_to_apply_names_itself() {
        let object =
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n"}}"#;
        check(&Action::Apply(apply(object)), expect!["apply Deployment n/a"]);
        check(&Action::Create(apply(object)), expect!["create Deployment n/a"]);
    }

    #[test]
    fn an_object_that_does_not_is_refused() {
        for (object, expect) in [
            (
                "[]",
                expect![
                    "apply of something that is no JSON object of at most 1572864 bytes: it is another value"
                ],
            ),
            (
                "{",
                expect![
                    "apply of something that is no JSON object of at most 1572864 bytes: EOF while parsing an object at line 1 column 1"
                ],
            ),
            (
                &"[".repeat(5000),
                expect![
                    "apply of something that is no JSON object of at most 1572864 bytes: recursion limit exceeded at line 1 column 128"
                ],
            ),
            ("{}", expect!["apply of an object with apiVersion: it is missing"]),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                expect!["apply of an object with metadata: it is missing or no object"],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#,
                expect!["apply of an object with metadata.name: it is missing"],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"../../secrets/x"}}"#,
                expect![[r#"apply with the name "../../secrets/x": '/' may not stand there"#]],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n/pods"}}"#,
                expect![[r#"apply with the namespace "n/pods": '/' may not stand there"#]],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":1}}"#,
                expect!["apply of an object with metadata.namespace: it is no text or empty"],
            ),
            (
                r#"{"apiVersion":"a/b/v1","kind":"Pod","metadata":{"name":"a"}}"#,
                expect![[r#"apply with the kind "a/b/v1 Pod": '/' may not stand there"#]],
            ),
            (
                r#"{"apiVersion":"v1","kind":"pods/exec","metadata":{"name":"a"}}"#,
                expect![[r#"apply with the kind "v1 pods/exec": '/' may not stand there"#]],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":[]}}"#,
                expect!["apply of an object with metadata.managedFields: that is the host's business"],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","ownerReferences":[{"controller":true}]}}"#,
                expect![
                    "apply of an object with metadata.ownerReferences: there is another controller than the primary"
                ],
            ),
        ] {
            check(&Action::Apply(apply(object)), expect);
        }
    }

    #[test]
    fn an_object_that_is_too_large_is_refused() {
        let large =
            Apply { object: format!("{{\"a\":\"{}\"}}", "x".repeat(OBJECT_BYTES_MAX)).into(), ..apply("") };
        check(
            &Action::Apply(large),
            expect![
                "apply of something that is no JSON object of at most 1572864 bytes: it has 1572872 bytes"
            ],
        );
    }

    #[test]
    fn a_status_is_applied_alone() {
        for (object, expect) in [
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{}}"#,
                expect!["apply-status Pod a"],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"status":{},"spec":{}}"#,
                expect!["apply-status of an object with spec: a status is applied alone"],
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{}},"status":{}}"#,
                expect!["apply-status of an object with metadata.labels: a status is applied alone"],
            ),
        ] {
            check(&Action::ApplyStatus(apply(object)), expect);
        }
    }

    #[test]
    fn a_patch_changes_neither_what_the_object_is_nor_its_guards() {
        for (merge, expect) in [
            (r#"{"spec":{"a":null}}"#, expect!["patch Pod n/a"]),
            (r#"{"metadata":{"labels":{"a":null}}}"#, expect!["patch Pod n/a"]),
            (
                r#"{"kind":"Secret"}"#,
                expect!["patch of an object with kind: a patch does not change what the object is"],
            ),
            (r#"{"metadata":null}"#, expect!["patch of an object with metadata: it is no object"]),
            (
                r#"{"metadata":{"resourceVersion":null}}"#,
                expect!["patch of an object with metadata.resourceVersion: that is the host's business"],
            ),
            (
                "null",
                expect![
                    "patch of something that is no JSON object of at most 1572864 bytes: it is another value"
                ],
            ),
        ] {
            check(&Action::Patch(Patch { object: reference("Pod n/a"), merge: merge.into() }), expect);
        }
    }

    #[test]
    fn names_in_other_actions_are_checked_too() {
        let place = |name: &str| ObjectRef::new(Gvk::new("", "v1", "Pod"), Some("n"), name);
        let deletion =
            |name: &str| Deletion { object: place(name), uid: None, propagation: Propagation::Background };
        check(&Action::Delete(deletion("a")), expect!["delete Pod n/a"]);
        check(
            &Action::Delete(deletion("a/status")),
            expect![[r#"delete with the name "a/status": '/' may not stand there"#]],
        );
        let finalizer = |name: &str| Finalizer { object: place("a"), name: name.into() };
        check(&Action::AddFinalizer(finalizer("example.org/x")), expect!["add-finalizer Pod n/a"]);
        check(
            &Action::RemoveFinalizer(finalizer("x y")),
            expect![[r#"remove-finalizer with the finalizer "x y": ' ' may not stand there"#]],
        );
        let event = |reason: &str| Event {
            about: place("a"),
            severity: EventType::Normal,
            reason: reason.into(),
            message: "m".into(),
        };
        check(&Action::Publish(event("Started")), expect!["publish Pod n/a"]);
        check(
            &Action::Publish(event("Has started")),
            expect![[r#"publish with the reason "Has started": ' ' may not stand there"#]],
        );
        check(
            &Action::Enqueue(Enqueue { controller: "x".into(), object: place(".") }),
            expect![[r#"enqueue with the name ".": it is a way through a path"#]],
        );
        let operation = |arguments: &str| Operation {
            key: "k".into(),
            provider: "p".into(),
            operation: "o".into(),
            arguments: arguments.into(),
        };
        check(&Action::External(operation("{}")), expect!["external "]);
        check(
            &Action::External(operation("{")),
            expect![
                "external of something that is no JSON object of at most 1572864 bytes: its arguments are no JSON of at most 262144 bytes"
            ],
        );
    }
}
