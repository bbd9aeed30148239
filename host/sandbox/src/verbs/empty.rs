//! The object of a bookmark: one of its kind of which nothing was given, as Go writes it.

use super::create::empty_like;
use crate::turn::Target;
use serde_json::{Value, json};

/// What Go writes of some kinds besides what their schemas say: pointers and lists that are never left out, and numbers that
/// are no pointers within the server. Group, plural, JSON pointer, JSON text.
const WRITTEN: &[(&str, &str, &str, &str)] = &[
    ("apps", "controllerrevisions", "/data", "null"),
    ("apps", "daemonsets", "/spec/selector", "null"),
    ("apps", "daemonsets", "/metadata/annotations", r#"{"deprecated.daemonset.template.generation":"0"}"#),
    ("apps", "deployments", "/spec/replicas", "0"),
    ("apps", "deployments", "/spec/selector", "null"),
    ("apps", "replicasets", "/spec/replicas", "0"),
    ("apps", "replicasets", "/spec/selector", "null"),
    ("apps", "statefulsets", "/spec/replicas", "0"),
    ("apps", "statefulsets", "/spec/selector", "null"),
    ("autoscaling", "horizontalpodautoscalers", "/status/currentMetrics", "null"),
    ("certificates.k8s.io", "certificatesigningrequests", "/spec/request", "null"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "/status/conditions", "null"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "/status/storedVersions", "null"),
    ("discovery.k8s.io", "endpointslices", "/ports", "null"),
    ("resource.k8s.io", "resourceclaims", "/spec/devices/requests", "null"),
    ("resource.k8s.io", "resourceclaimtemplates", "/spec/spec/devices/requests", "null"),
];

/// The empty object that a bookmark of the target's kind carries; its metadata is to be filled in.
pub(crate) fn of_bookmark(target: &Target) -> Value {
    let resource = &target.resource;
    if resource.is_custom() {
        return json!({"apiVersion": target.served().api_version, "kind": resource.kind, "metadata": {}});
    }
    let mut object = empty_like(target);
    lists_as_null(&mut object);
    for (.., pointer, text) in WRITTEN.iter().filter(|(group, plural, ..)| resource.is(group, plural)) {
        let Some((parent, field)) = pointer.rsplit_once('/') else { continue };
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(field.to_owned(), serde_json::from_str(text).unwrap_or_default());
        }
    }
    if resource.is("", "replicationcontrollers") {
        object["spec"] = json!({});
    }
    object
}

fn lists_as_null(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(lists_as_null),
        Value::Array(items) if items.is_empty() => *value = Value::Null,
        _ => {}
    }
}
