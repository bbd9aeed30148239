//! Pods and what makes them: the mistakes that people make. Not every rule of the real server is here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::services::number_or_name;
use super::{all, has, list, selectors, text};
use crate::schema::field_error::FieldError;
use crate::schema::metadata;
use crate::schema::names;
use crate::schema::path::{child, index};

pub(super) fn pod(object: &Value) -> Vec<FieldError> {
    pod_spec("spec", &object["spec"])
}

fn pod_spec(path: &str, spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut volumes = BTreeSet::new();
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        let at = child(&index(&child(path, "volumes"), at), "name");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else {
            errors.extend(all(&at, name, names::label(name)));
            if !volumes.insert(name) {
                errors.push(FieldError::duplicate(at, name));
            }
        }
    }
    let containers = list(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(child(path, "containers"), ""));
    }
    let mut known = BTreeSet::new();
    for field in ["containers", "initContainers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = index(&child(path, field), at);
            errors.extend(check_container(&path, container, &volumes));
            let name = text(container, "name");
            if !name.is_empty() && !known.insert(name) {
                errors.push(FieldError::duplicate(child(&path, "name"), name));
            }
        }
    }
    let policies = ["Always", "OnFailure", "Never"];
    let policy = text(spec, "restartPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(FieldError::not_supported(child(path, "restartPolicy"), policy, &policies));
    }
    errors
}

fn check_container(path: &str, container: &Value, volumes: &BTreeSet<&str>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(child(path, "name"), ""));
    } else {
        errors.extend(all(&child(path, "name"), name, names::label(name)));
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(child(path, "image"), ""));
    }
    for (at, port) in list(container, "ports").iter().enumerate() {
        let at = child(&index(&child(path, "ports"), at), "containerPort");
        match port.get("containerPort") {
            None => errors.push(FieldError::required(at, "")),
            Some(number) if number == 0 => errors.push(FieldError::required(at, "")),
            Some(number) => errors.extend(number_or_name(&at, number)),
        }
    }
    for (at, variable) in list(container, "env").iter().enumerate() {
        if text(variable, "name").is_empty() {
            errors.push(FieldError::required(child(&index(&child(path, "env"), at), "name"), ""));
        }
    }
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = index(&child(path, "volumeMounts"), at);
        let name = text(mount, "name");
        if name.is_empty() {
            errors.push(FieldError::required(child(&path, "name"), ""));
        } else if !volumes.contains(name) {
            errors.push(FieldError::not_found(child(&path, "name"), name));
        }
        if text(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(child(&path, "mountPath"), ""));
        }
    }
    errors
}

fn template(spec: &Value) -> Vec<FieldError> {
    let path = "spec.template";
    let mut errors = metadata::labels(&child(path, "labels"), spec.pointer("/template/metadata/labels"));
    errors.extend(pod_spec(&child(path, "spec"), &spec["template"]["spec"]));
    errors
}

fn selector(spec: &Value) -> Vec<FieldError> {
    let Some(selector) = spec.get("selector").filter(|selector| selector.is_object()) else {
        return vec![FieldError::required("spec.selector", ""), unfit(spec)];
    };
    let mut errors = selectors::check("spec.selector", Some(selector));
    let empty = super::entries(selector, "matchLabels").next().is_none()
        && list(selector, "matchExpressions").is_empty();
    if empty {
        let detail = "empty selector is invalid for deployment";
        errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
    }
    let labels = spec
        .pointer("/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    if errors.is_empty() && !selectors::fits(selector, &labels) {
        errors.push(unfit(spec));
    }
    errors
}

/// The labels of the template are none that the selector selects.
fn unfit(spec: &Value) -> FieldError {
    let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or_default();
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
}

fn replicas(spec: &Value) -> Option<FieldError> {
    let count = spec.get("replicas").and_then(Value::as_i64)?;
    (count < 0).then(|| FieldError::invalid("spec.replicas", count, "must be greater than or equal to 0"))
}

pub(super) fn deployment(object: &Value) -> Vec<FieldError> {
    let mut errors = replica_set(object);
    errors.extend(strategy(&object["spec"]["strategy"]));
    errors
}

fn strategy(strategy: &Value) -> Vec<FieldError> {
    let path = "spec.strategy";
    let rolling = strategy.get("rollingUpdate").filter(|rolling| rolling.is_object());
    match (text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(child(path, "rollingUpdate"), detail)]
        }
        ("Recreate", None) => Vec::new(),
        ("RollingUpdate", None) => {
            vec![FieldError::required(
                child(path, "rollingUpdate"),
                "this should be defaulted and never be nil",
            )]
        }
        ("RollingUpdate", Some(rolling)) => {
            let none = |field: &str| rolling[field] == 0 || rolling[field] == "0%";
            let both = none("maxUnavailable") && none("maxSurge");
            let at = child(&child(path, "rollingUpdate"), "maxUnavailable");
            let detail = "may not be 0 when `maxSurge` is 0";
            both.then(|| FieldError::invalid(at, rolling["maxUnavailable"].clone(), detail))
                .into_iter()
                .collect()
        }
        (other, rolling) => {
            // The real server shows its internal struct, which has no JSON names.
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            vec![FieldError::not_supported(path, shown, &["Recreate", "RollingUpdate"])]
        }
    }
}

pub(super) fn replica_set(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors: Vec<FieldError> = replicas(spec).into_iter().collect();
    errors.extend(selector(spec));
    errors.extend(template(spec));
    errors.extend(always(spec));
    errors
}

fn always(spec: &Value) -> Option<FieldError> {
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    (!policy.is_empty() && policy != "Always")
        .then(|| FieldError::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]))
}

pub(super) fn job(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = template(spec);
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    if policy == "Always" {
        let allowed = ["OnFailure", "Never"];
        errors.push(FieldError {
            detail: format!("valid values: {}", allowed.map(|one| format!("\"{one}\"")).join(", ")),
            ..FieldError::required("spec.template.spec.restartPolicy", "")
        });
    }
    errors
}

pub(super) fn selector_update(new: &Value, old: &Value) -> Vec<FieldError> {
    if !has(&old["spec"], "selector") || new["spec"]["selector"] == old["spec"]["selector"] {
        return Vec::new();
    }
    vec![FieldError::invalid("spec.selector", new["spec"]["selector"].clone(), "field is immutable")]
}
