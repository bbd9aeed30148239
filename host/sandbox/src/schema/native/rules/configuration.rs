//! ConfigMaps, Secrets, role bindings.

use base64::Engine as _;
use serde_json::Value;

use super::{all, entries, has, text};
use crate::schema::field_error::FieldError;
use crate::schema::names;
use crate::schema::path::key;

/// Both hold at most this much.
const BYTES_MAX: i64 = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()
}

fn length(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

pub(super) fn config_map(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0i64;
    for (name, value) in entries(object, "data") {
        let at = key("data", name);
        errors.extend(all(&at, name.as_str(), names::config_key(name)));
        if object.get("binaryData").is_some_and(|binary| binary.get(name).is_some()) {
            errors.push(FieldError::invalid(at, name.as_str(), "duplicate of key present in binaryData"));
        }
        size += length(value.as_str().unwrap_or_default().len());
    }
    for (name, value) in entries(object, "binaryData") {
        errors.extend(all(&key("binaryData", name), name.as_str(), names::config_key(name)));
        size += length(bytes(value).len());
    }
    if size > BYTES_MAX {
        errors.push(FieldError::too_long("", BYTES_MAX));
    }
    errors
}

fn frozen(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old["immutable"] != true {
        return errors;
    }
    if new["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", FROZEN));
    }
    for field in fields {
        if new.get(*field) != old.get(*field) {
            errors.push(FieldError::forbidden(*field, FROZEN));
        }
    }
    errors
}

pub(super) fn config_map_update(new: &Value, old: &Value) -> Vec<FieldError> {
    frozen(new, old, &["data", "binaryData"])
}

pub(super) fn secret(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0i64;
    for (name, value) in entries(object, "data") {
        errors.extend(all(&key("data", name), name.as_str(), names::config_key(name)));
        size += length(bytes(value).len());
    }
    if size > BYTES_MAX {
        errors.push(FieldError::too_long("data", BYTES_MAX));
    }
    let data = object.get("data").cloned().unwrap_or_default();
    let mut need = |names: &[&str]| {
        let missing = names.iter().filter(|name| !has(&data, name));
        errors.extend(missing.map(|name| FieldError::required(key("data", name), "")));
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if object["metadata"]["annotations"][ACCOUNT].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(key("metadata.annotations", ACCOUNT), ""));
            }
        }
        "kubernetes.io/dockercfg" => need(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => need(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has(&data, "username") && !has(&data, "password") => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        _ => {}
    }
    for name in [".dockercfg", ".dockerconfigjson"] {
        let docker = text(object, "type").ends_with(name.trim_start_matches('.'));
        if let Some(value) = data.get(name).filter(|_| docker)
            && !serde_json::from_slice::<Value>(&bytes(value)).is_ok_and(|json| json.is_object())
        {
            let detail = "invalid character looking for beginning of value";
            errors.push(FieldError::invalid(key("data", name), "<secret contents redacted>", detail));
        }
    }
    errors
}

pub(super) fn secret_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(new, "type") != text(old, "type") {
        errors.push(FieldError::invalid("type", text(new, "type"), "field is immutable"));
    }
    errors.extend(frozen(new, old, &["data"]));
    errors
}

pub(super) fn binding(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let role = &object["roleRef"];
    if text(role, "apiGroup") != "rbac.authorization.k8s.io" {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            text(role, "apiGroup"),
            &["rbac.authorization.k8s.io"],
        ));
    }
    let kinds: &[&str] =
        if object["kind"] == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", text(role, "kind"), kinds));
    }
    if text(role, "name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    errors
}

pub(super) fn binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    if new["roleRef"] == old["roleRef"] {
        return Vec::new();
    }
    vec![FieldError::invalid("roleRef", new["roleRef"].clone(), "cannot change roleRef")]
}
