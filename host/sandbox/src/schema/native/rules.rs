//! What built-in kinds ask of their objects beyond types: one function a kind, and which kinds have one.

mod configuration;
mod networking;
mod selectors;
mod services;
mod storage;
mod warnings;
mod workloads;

use serde_json::Value;

pub(super) use warnings::warnings;

use crate::schema::field_error::FieldError;

/// A kind's own rules.
type Check = fn(&Value) -> Vec<FieldError>;
/// A kind's own rules on updates: new, then old.
type CheckUpdate = fn(&Value, &Value) -> Vec<FieldError>;

/// Rules on every object of a kind.
const CHECKS: [(&str, &str, Check); 15] = [
    ("", "ConfigMap", configuration::config_map),
    ("", "Secret", configuration::secret),
    ("", "Service", services::service),
    ("", "PersistentVolumeClaim", storage::claim),
    ("", "ResourceQuota", storage::quota),
    ("", "Pod", workloads::pod),
    ("apps", "Deployment", workloads::deployment),
    ("apps", "ReplicaSet", workloads::replica_set),
    ("apps", "StatefulSet", workloads::replica_set),
    ("apps", "DaemonSet", workloads::replica_set),
    ("batch", "Job", workloads::job),
    ("networking.k8s.io", "NetworkPolicy", networking::policy),
    ("networking.k8s.io", "Ingress", networking::ingress),
    ("rbac.authorization.k8s.io", "RoleBinding", configuration::binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", configuration::binding),
];

/// Rules on what may change.
const UPDATE_CHECKS: [(&str, &str, CheckUpdate); 9] = [
    ("", "ConfigMap", configuration::config_map_update),
    ("", "Secret", configuration::secret_update),
    ("", "Service", services::update),
    ("", "PersistentVolumeClaim", storage::claim_update),
    ("apps", "Deployment", workloads::selector_update),
    ("apps", "ReplicaSet", workloads::selector_update),
    ("apps", "DaemonSet", workloads::selector_update),
    ("rbac.authorization.k8s.io", "RoleBinding", configuration::binding_update),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", configuration::binding_update),
];

/// What is wrong with an object by the rules of its kind.
pub(super) fn check(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let found = CHECKS.iter().find(|(g, k, _)| *g == group && *k == kind);
    found.map(|(_, _, check)| check(object)).unwrap_or_default()
}

/// What is wrong with a change by the rules of its kind.
pub(super) fn check_update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let found = UPDATE_CHECKS.iter().find(|(g, k, _)| *g == group && *k == kind);
    found.map(|(_, _, check)| check(new, old)).unwrap_or_default()
}

/// What is wrong with a new status by the rules of its kind.
pub(super) fn check_status(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    if (group, kind) == ("", "Service") { services::status(object) } else { Vec::new() }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

/// Messages on a value as errors of its field.
fn all(path: &str, value: impl Into<Value>, messages: Vec<String>) -> Vec<FieldError> {
    let value = value.into();
    messages.into_iter().map(|message| FieldError::invalid(path, value.clone(), message)).collect()
}
