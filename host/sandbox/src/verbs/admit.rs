//! Admission that is always on: the life cycle of namespaces, and metadata that must fit the request.

use crate::error::ApiError;
use crate::lifecycle::PROTECTED_NAMESPACES;
use crate::resources::Resource;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};

/// Refuses objects in namespaces that are absent or on their way out.
pub(crate) fn create(turn: &Turn<'_>, target: &Target, name: &str) -> Result<(), ApiError> {
    if !target.resource.namespaced {
        return Ok(());
    }
    let namespace = &target.namespace;
    let namespaces = turn.state.registry.find("", "namespaces");
    let live = namespaces.and_then(|resource| turn.state.store.get(resource.table, namespace));
    let Some(live) = live else {
        return Err(ApiError::not_found(crate::error::Subject { group: "", kind: "namespaces" }, namespace));
    };
    if !live.head.deleting {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let error = ApiError::forbidden(target.resource.subject(), name, &why);
    Err(error.with_cause(
        "NamespaceTerminating",
        format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    ))
}

/// Refuses to delete the namespaces that a cluster cannot do without.
pub(crate) fn delete(target: &Target) -> Result<(), ApiError> {
    let protected =
        target.resource.is("", "namespaces") && PROTECTED_NAMESPACES.contains(&target.name.as_str());
    if !protected {
        return Ok(());
    }
    Err(ApiError::forbidden(target.resource.subject(), &target.name, "this namespace may not be deleted"))
}

/// Puts the namespace of the request into an object that names none; refuses another one.
pub(crate) fn fit_namespace(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if given == target.namespace {
        if target.namespace.is_empty() {
            metadata.remove("namespace");
        }
    } else if target.namespace.is_empty() {
        metadata.remove("namespace");
    } else if given.is_empty() {
        metadata.insert("namespace".into(), json!(target.namespace));
    } else {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Refuses an update of another object than the one that the path names; fills in a missing name.
pub(crate) fn fit_name(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let given = object["metadata"]["name"].as_str().unwrap_or_default();
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if given != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}

/// Drops owner references that say the same twice.
pub(crate) fn dedup_owners(turn: &mut Turn<'_>, object: &mut Value) {
    let Some(list) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut seen: Vec<Value> = Vec::new();
    let mut twice: Vec<String> = Vec::new();
    list.retain(|owner| {
        let new = !seen.contains(owner);
        if new {
            seen.push(owner.clone());
        } else if let Some(uid) = owner["uid"].as_str() {
            twice.push(uid.to_owned());
        }
        new
    });
    if !twice.is_empty() {
        turn.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

/// Labels that the server gives to namespaces.
pub(crate) fn label_namespace(resource: &Resource, object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !resource.is("", "namespaces") || name.is_empty() {
        return;
    }
    let metadata = &mut object["metadata"];
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"]["kubernetes.io/metadata.name"] = json!(name);
}
