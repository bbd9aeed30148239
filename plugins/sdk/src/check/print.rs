//! Actions as text: a line each, and what is written as one line of JSON below it.

use serde_json::Value;

use super::answer::reference;
use crate::failure::object_text;
use crate::{Action, Apply, EventType, Failure, FailureKind, Propagation};

/// An action; `bodies` says whether what is written is shown too.
pub(super) fn action(action: &Action, bodies: bool) -> String {
    match action {
        Action::Create(apply) => written("create", apply, bodies),
        Action::Apply(apply) => written("apply", apply, bodies),
        Action::ApplyStatus(apply) => written("apply-status", apply, bodies),
        Action::Delete(deletion) => {
            let uid = deletion.uid.as_ref().map(|uid| format!(" uid {uid}")).unwrap_or_default();
            let how = match deletion.propagation {
                Propagation::Background => "",
                Propagation::Foreground => " foreground",
                Propagation::Orphan => " orphan",
            };
            format!("delete {}{uid}{how}\n", object_text(&deletion.object))
        }
        Action::AddFinalizer(it) => format!("add-finalizer {} {}\n", object_text(&it.object), it.name),
        Action::RemoveFinalizer(it) => format!("remove-finalizer {} {}\n", object_text(&it.object), it.name),
        Action::Patch(patch) => {
            let merge = if bodies { format!("  {}\n", patch.merge) } else { String::new() };
            format!("patch {}\n{merge}", object_text(&patch.object))
        }
        Action::Publish(event) => {
            let severity = match event.severity {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            };
            let about = object_text(&event.about);
            format!("event {severity} {} about {about}: {}\n", event.reason, event.message)
        }
        Action::Enqueue(it) => format!("enqueue {} {}\n", it.controller, object_text(&it.object)),
        Action::External(it) => {
            let arguments = if bodies { format!("  {}\n", it.arguments) } else { String::new() };
            format!("external {} of {} as {}\n{arguments}", it.operation, it.provider, it.key)
        }
    }
}

/// How a pass failed.
pub(super) fn failure(failure: &Failure) -> String {
    let kind = match failure.kind {
        FailureKind::Transient => "transient",
        FailureKind::Invalid => "invalid",
        FailureKind::Denied => "denied",
        FailureKind::Conflict => "conflict",
        FailureKind::NotFound => "not found",
    };
    format!("failed, {kind}: {}\n", failure.message)
}

/// Milliseconds, in seconds where they are whole ones.
pub(super) fn wait(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1000) {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    }
}

fn written(verb: &str, apply: &Apply, bodies: bool) -> String {
    let Apply { object, force, controlled } = apply;
    let mut object: Value = serde_json::from_str(object).expect("the SDK writes JSON");
    let mut line = format!("{verb} {}", object_text(&reference(&object)));
    if *force {
        line += " force";
    }
    if *controlled {
        line += " controlled";
    }
    line.push('\n');
    if bodies {
        // The first line has said these.
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
        if object.get("metadata") == Some(&Value::Object(serde_json::Map::new())) {
            object.as_object_mut().map(|fields| fields.remove("metadata"));
        }
        line += &format!("  {object}\n");
    }
    line
}
