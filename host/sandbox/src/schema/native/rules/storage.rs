//! Claims and quotas.

use serde_json::Value;

use super::{all, entries, list, selectors, text};
use crate::schema::field_error::FieldError;
use crate::schema::names;
use crate::schema::native::quantity::Quantity;
use crate::schema::path::key;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn quantity(value: Option<&Value>) -> Option<Quantity> {
    value.and_then(Value::as_str).and_then(Quantity::parse)
}

pub(super) fn claim(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    errors.extend(selectors::check("spec.selector", spec.get("selector")));
    for mode in modes.iter().filter(|mode| !MODES.contains(&mode.as_str().unwrap_or_default())) {
        errors.push(FieldError::not_supported("spec.accessModes", mode.clone(), &MODES));
    }
    let alone = modes.iter().any(|mode| mode == "ReadWriteOncePod");
    if alone && modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", detail));
    }
    let at = key("spec.resources", "storage");
    match spec.pointer("/resources/requests/storage") {
        None => errors.push(FieldError::required(at, "")),
        Some(value) => {
            if quantity(Some(value)).is_some_and(|size| size.nanos() <= 0) {
                errors.push(FieldError::invalid(at, value.clone(), "must be greater than zero"));
            }
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(all("spec.storageClassName", class, names::subdomain(class)));
    }
    let mode = text(spec, "volumeMode");
    if !mode.is_empty() && !["Block", "Filesystem"].contains(&mode) {
        errors.push(FieldError::not_supported("spec.volumeMode", mode, &["Block", "Filesystem"]));
    }
    errors
}

pub(super) fn claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut comparable = new["spec"].clone();
    let old_spec = &old["spec"];
    let bound = new["status"]["phase"] == "Bound";
    if text(old_spec, "volumeName").is_empty() {
        comparable.as_object_mut().map(|spec| spec.remove("volumeName"));
    }
    if bound
        && let Some(storage) = old_spec.pointer("/resources/requests/storage")
        && let Some(own) = comparable.pointer_mut("/resources/requests/storage")
    {
        *own = storage.clone();
    }
    let mut before = old_spec.clone();
    for spec in [&mut comparable, &mut before] {
        spec.as_object_mut().filter(|_| bound).map(|spec| spec.remove("volumeAttributesClassName"));
    }
    if comparable != before {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                      bound claims\n";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let size = |object: &Value| quantity(object.pointer("/spec/resources/requests/storage"));
    if let (Some(after), Some(earlier)) = (size(new), size(old)) {
        let capacity = quantity(old.pointer("/status/capacity/storage")).map_or(0, Quantity::nanos);
        if after.nanos() < earlier.nanos() && after.nanos() <= capacity {
            let detail = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
        }
    }
    if new["spec"]["volumeMode"] != old_spec["volumeMode"] {
        errors.push(FieldError::invalid(
            "volumeMode",
            new["spec"]["volumeMode"].clone(),
            "field is immutable",
        ));
    }
    errors
}

/// Resources that are counted in whole numbers.
const COUNTED: [&str; 10] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
    "count",
];

const MEASURED: [&str; 12] = [
    "cpu",
    "memory",
    "storage",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.hugepages",
];

pub(super) fn quota(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, value) in entries(&object["spec"], "hard") {
        let at = key("spec.hard", name);
        let bad_name = names::qualified_name(name);
        let known = COUNTED.contains(&name.as_str()) || MEASURED.contains(&name.as_str());
        let huge = name.contains("hugepages-");
        if !bad_name.is_empty() {
            errors.extend(all(&at, name.as_str(), bad_name));
        } else if !name.contains('/') && !known && !huge {
            let detail = "must be a standard resource type or fully qualified";
            errors.push(FieldError::invalid(&at, name.as_str(), detail));
            errors.push(FieldError::invalid(&at, name.as_str(), "must be a standard resource for quota"));
        }
        let Some(amount) = quantity(Some(value)) else { continue };
        if amount.nanos() < 0 {
            errors.push(FieldError::invalid(&at, value.clone(), "must be greater than or equal to 0"));
        }
        let counted = COUNTED.contains(&name.as_str()) || name.starts_with("count/");
        if counted && amount.nanos() % 1_000_000_000 != 0 {
            errors.push(FieldError::invalid(&at, value.clone(), "must be an integer"));
        }
    }
    errors
}
