//! `metadata`: the same rules for every kind.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::field_error::{FieldError, quote};
use super::names::{self, NameRule};

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Checks the metadata of a new object.
pub fn check(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    check_at("metadata", object.get("metadata").unwrap_or(&Value::Null), namespaced, rule)
}

pub(crate) fn check_at(path: &str, meta: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| meta.get(field).and_then(Value::as_str).unwrap_or_default();
    let at = |field: &str| format!("{path}.{field}");
    let prefix = text("generateName");
    if !prefix.is_empty() {
        let found = rule.check(prefix, true);
        errors.extend(
            found.into_iter().map(|message| FieldError::invalid(at("generateName"), prefix, message)),
        );
    }
    let name = text("name");
    if name.is_empty() {
        errors.push(FieldError::required(at("name"), "name or generateName is required"));
    } else {
        let found = rule.check(name, false);
        errors.extend(found.into_iter().map(|message| FieldError::invalid(at("name"), name, message)));
    }
    let namespace = text("namespace");
    if namespaced && namespace.is_empty() {
        errors.push(FieldError::required(at("namespace"), ""));
    } else if namespaced {
        let found = names::label(namespace);
        errors.extend(
            found.into_iter().map(|message| FieldError::invalid(at("namespace"), namespace, message)),
        );
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(at("namespace"), "not allowed on this type"));
    }
    let generation = meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        errors.push(FieldError::invalid(at("generation"), generation, "must be greater than or equal to 0"));
    }
    errors.extend(labels(&at("labels"), meta.get("labels")));
    errors.extend(annotations(&at("annotations"), meta.get("annotations")));
    errors.extend(owner_references(&at("ownerReferences"), meta.get("ownerReferences")));
    errors.extend(finalizers(&at("finalizers"), meta.get("finalizers")));
    errors
}

/// Checks the metadata of an update.
pub fn check_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let null = Value::Null;
    let (new, old) = (new.get("metadata").unwrap_or(&null), old.get("metadata").unwrap_or(&null));
    let at = |field: &str| format!("metadata.{field}");
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|at| !at.is_null()) {
        errors.extend(new_finalizers(new, old));
    }
    if new.get("resourceVersion").and_then(Value::as_str).unwrap_or_default().is_empty() {
        errors.push(FieldError::invalid(at("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = |meta: &Value| meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        errors.push(FieldError::invalid(at("generation"), generation(new), "must not be decremented"));
    }
    let empty = Value::from("");
    for field in ["name", "namespace", "uid"] {
        let get = |meta: &Value| meta.get(field).filter(|value| !value.is_null()).unwrap_or(&empty).clone();
        if get(new) != get(old) {
            errors.push(FieldError::invalid(at(field), get(new), "field is immutable"));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let get = |meta: &Value| meta.get(field).cloned().unwrap_or_default();
        if get(new) != get(old) {
            errors.push(FieldError::invalid(at(field), get(new), "field is immutable"));
        }
    }
    errors.extend(labels(&at("labels"), new.get("labels")));
    errors.extend(annotations(&at("annotations"), new.get("annotations")));
    errors.extend(owner_references(&at("ownerReferences"), new.get("ownerReferences")));
    errors
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn new_finalizers(new: &Value, old: &Value) -> Option<FieldError> {
    let set = |meta: &Value| -> BTreeSet<String> {
        texts(meta.get("finalizers")).into_iter().map(str::to_owned).collect()
    };
    let extra: Vec<String> = set(new).difference(&set(old)).map(|name| quote(name)).collect();
    if extra.is_empty() {
        return None;
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        extra.join(", ")
    );
    Some(FieldError::forbidden("metadata.finalizers", detail))
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    map.and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::iter)
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Checks a map of labels.
pub(crate) fn labels(path: &str, map: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in entries(map) {
        errors
            .extend(names::qualified_name(key).into_iter().map(|text| FieldError::invalid(path, key, text)));
        errors
            .extend(names::label_value(value).into_iter().map(|text| FieldError::invalid(path, value, text)));
    }
    errors
}

fn annotations(path: &str, map: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in entries(map) {
        let lower = key.to_lowercase();
        errors.extend(
            names::qualified_name(&lower).into_iter().map(|text| FieldError::invalid(path, key, text)),
        );
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, i64::try_from(ANNOTATIONS_BYTES_MAX).unwrap_or(i64::MAX)));
    }
    errors
}

fn owner_references(path: &str, list: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in list.and_then(Value::as_array).into_iter().flatten() {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let at = |field: &str| format!("{path}.{field}");
        let api_version = text("apiVersion");
        if api_version.rsplit('/').next().unwrap_or_default().is_empty() {
            errors.push(FieldError::invalid(at("apiVersion"), api_version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.push(FieldError::invalid(at(field), "", "must not be empty"));
            }
        }
        if api_version == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), detail));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {this}"
                    );
                    errors.push(FieldError::invalid(path, list.cloned().unwrap_or_default(), detail));
                }
            }
        }
    }
    errors
}

fn finalizers(path: &str, list: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = texts(list);
    for name in &names {
        let found = names::qualified_name(name);
        errors.extend(found.into_iter().map(|text| FieldError::invalid(path, *name, text)));
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, list.cloned().unwrap_or_default(), detail));
    }
    errors
}
