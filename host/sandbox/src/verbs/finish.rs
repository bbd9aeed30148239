//! Steps that the writing verbs share: field managers, generations, what an endpoint ignores, the storage version.

use super::create;
use crate::apply::Applier;
use crate::apply::set::FieldSet;
use crate::resources::Resource;
use crate::store::object::Stored;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// The object of a target in the version that the client speaks.
pub(crate) fn in_version(target: &Target, stored: &Stored) -> Value {
    let mut object = stored.value();
    to_served(target, &mut object);
    object
}

/// Turns an object of the storage version into the client's.
pub(crate) fn to_served(target: &Target, object: &mut Value) {
    if target.resource.traits.converted_event {
        crate::convert::event_to_events(object);
    }
    object["apiVersion"] = json!(target.served().api_version);
}

/// Turns an object of the client's version into the storage version.
pub(crate) fn to_storage(target: &Target, object: &mut Value) {
    if target.resource.traits.converted_event {
        crate::convert::event_to_core(object);
        object["apiVersion"] = json!("v1");
    } else {
        object["apiVersion"] = json!(target.resource.storage_version().api_version);
    }
}

/// Gives a custom object the defaults that the real server puts in whenever it reads one; says whether there were any.
pub(crate) fn default_as_read(resource: &Resource, object: &mut Value) -> bool {
    let stored = object.clone();
    resource.storage_version().ty.default(object);
    *object != stored
}

/// The paths that this endpoint does not let clients set, and so gives to no manager.
pub(crate) fn ignored_paths(target: &Target) -> FieldSet {
    let resource = &target.resource;
    match target.subresource.as_str() {
        "status" if resource.is("", "pods") => FieldSet::of_fields(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
        "status" if resource.is("apps", "deployments") => {
            FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]])
        }
        "status" if resource.is("apiextensions.k8s.io", "customresourcedefinitions") => {
            FieldSet::of_fields(&[&["metadata"], &["spec"]])
        }
        "status" => FieldSet::of_fields(&[&["spec"]]),
        "finalize" => FieldSet::of_fields(&[&["status"]]),
        _ if target.served().status => FieldSet::of_fields(&[&["status"]]),
        _ => FieldSet::default(),
    }
}

impl Turn<'_> {
    /// Calls `work` with the field manager's view of this request.
    pub(crate) fn with_applier<R>(&self, target: &Target, work: impl FnOnce(&Applier<'_>) -> R) -> R {
        let ignored = ignored_paths(target);
        let version = target.served();
        let subresource = if target.subresource == "finalize" { "" } else { target.subresource.as_str() };
        work(&Applier {
            schema: version.ty.schema(),
            api_version: &version.api_version,
            manager: &self.options.manager,
            subresource,
            now: &self.now_text,
            ignored: &ignored,
            empty: &|| create::empty_like(target),
        })
    }

    /// Notes the fields that a controller of the control plane changed.
    pub(crate) fn note_controller(&self, resource: &Arc<Resource>, old: &Value, new: &mut Value) {
        let version = resource.storage_version();
        let status = old["status"] != new["status"];
        Applier {
            schema: version.ty.schema(),
            api_version: &version.api_version,
            manager: controller_name(resource),
            subresource: if status { "status" } else { "" },
            now: &self.now_text,
            ignored: &FieldSet::default(),
            empty: &|| Value::Null,
        }
        .update(old, new);
    }

    /// Whether an object that is being deleted has nothing left that keeps it.
    pub(crate) fn is_to_go(&self, resource: &Resource, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        !metadata["deletionTimestamp"].is_null()
            && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
            && empty(&metadata["finalizers"])
            && (!resource.is("", "namespaces") || empty(&object["spec"]["finalizers"]))
    }
}

fn controller_name(resource: &Resource) -> &'static str {
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        "kube-apiserver"
    } else {
        "kube-controller-manager"
    }
}

/// Sets the generation of an updated object: one more where its spec changed, or where it is `emptied`: it spells out a list or
/// map that is empty, and its kind takes that for a change.
pub(crate) fn count_generation(resource: &Resource, object: &mut Value, old: &Value, emptied: bool) {
    let before = old["metadata"]["generation"].as_i64();
    let mut generation = before;
    let changed = if resource.is_custom() {
        // Everything but metadata counts; a status with an endpoint of its own was put back before.
        rest_of(object, &["metadata"]) != rest_of(old, &["metadata"])
    } else {
        let annotations = || object["metadata"]["annotations"] != old["metadata"]["annotations"];
        rest_of(object, &["metadata", "status"]) != rest_of(old, &["metadata", "status"])
            || (resource.traits.generation_by_annotations && annotations())
            || emptied
    };
    if changed && resource.traits.generation {
        generation = Some(before.unwrap_or_default() + 1);
    }
    set_generation(object, generation);
}

pub(crate) fn set_generation(object: &mut Value, generation: Option<i64>) {
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else { return };
    match generation {
        Some(generation) if generation != 0 => metadata.insert("generation".into(), json!(generation)),
        _ => metadata.remove("generation"),
    };
}

fn rest_of<'a>(object: &'a Value, without: &[&str]) -> Vec<(&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    let skipped = |key: &str| matches!(key, "apiVersion" | "kind") || without.contains(&key);
    let mut rest: Vec<_> = fields.filter(|(key, value)| !skipped(key) && !value.is_null()).collect();
    rest.sort_by_key(|(key, _)| *key);
    rest
}

/// Copies a field of metadata, or its absence.
pub(crate) fn copy_metadata(object: &mut Value, from: &Value, field: &str) {
    let value = from["metadata"].get(field).filter(|value| !value.is_null()).cloned();
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Copies a top-level field, or its absence.
pub(crate) fn copy_field(object: &mut Value, from: &Value, field: &str) {
    let value = from.get(field).cloned();
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert(field.to_owned(), value),
        None => fields.remove(field),
    };
}
