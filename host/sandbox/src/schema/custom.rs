//! Custom resources: what their schema makes of a body.

use serde_json::Value;

use super::cel;
use super::crd::Scale;
use super::field_error::{ErrorKind, FieldError};
use super::names::{self, NameRule};
use super::path::{child, index, key};
use super::structural::Schema;
use super::{default, list_type, metadata, native, prune, validate};

/// A custom kind in one version.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) schema: Schema,
    pub(crate) scale: Option<Scale>,
    pub(crate) rules: Option<cel::Validator>,
}

impl Custom {
    /// Prunes, and tells what was unknown.
    pub(crate) fn decode(&self, body: &mut Value) -> Result<Vec<String>, String> {
        let unknown = self.decode_applied(body)?;
        prune::drop_nulls(body, Some(&self.schema));
        Ok(unknown)
    }

    /// The same for the result of an apply, whose nulls stay, to be refused.
    pub(crate) fn decode_applied(&self, body: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = native::decode_metadata(body)?;
        unknown.extend(prune::unknown_fields(body, &self.schema));
        embedded_metadata("", body, &self.schema, &mut unknown)?;
        Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
    }

    pub(crate) fn default(&self, body: &mut Value) {
        default::apply(body, &self.schema);
    }

    pub(crate) fn validate_create(&self, body: &Value) -> Vec<FieldError> {
        let mut errors = self.type_meta(body);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(metadata::check(body, self.namespaced, NameRule::Subdomain));
        errors.extend(validate::check("", body, &self.schema));
        errors.extend(self.scale_values(body, true));
        errors.extend(embedded("", body, &self.schema));
        errors.extend(list_type::check("", body, &self.schema));
        self.run_rules(body, None, &mut errors);
        errors
    }

    pub(crate) fn validate_update(
        &self,
        body: &Value,
        old: &Value,
        subresource: Option<&str>,
    ) -> Vec<FieldError> {
        let mut errors = self.type_meta(body);
        if !errors.is_empty() {
            return errors;
        }
        let status = subresource == Some("status");
        errors.extend(metadata::check_update(body, old));
        if status {
            let null = Value::Null;
            let schema = self.schema.property("status");
            if let (Some(new), Some(schema)) = (body.get("status"), schema) {
                errors.extend(match old.get("status") {
                    Some(old) => validate::check_update("status", new, old, schema),
                    None => validate::check_update("status", new, &null, schema),
                });
            }
        } else {
            errors.extend(validate::check_update("", body, old, &self.schema));
        }
        errors.extend(self.scale_values(body, !status));
        if !status {
            errors.extend(embedded("", body, &self.schema));
        }
        if list_type::check("", old, &self.schema).is_empty() {
            errors.extend(list_type::check("", body, &self.schema));
        }
        self.run_rules(body, Some(old), &mut errors);
        errors
    }

    fn run_rules(&self, body: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(rules) = &self.rules else { return };
        let blocking = |error: &FieldError| {
            matches!(
                error.kind,
                ErrorKind::NotSupported
                    | ErrorKind::Required
                    | ErrorKind::TooLong
                    | ErrorKind::TooMany
                    | ErrorKind::TypeInvalid
            )
        };
        if errors.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.push(FieldError::invalid("<nil>", Value::Null, detail));
            return;
        }
        errors.extend(rules.validate("", body, old, &self.schema));
    }

    fn type_meta(&self, body: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let text = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("kind") != self.kind {
            errors.push(FieldError::invalid("kind", text("kind"), format!("must be {}", self.kind)));
        }
        let api_version = format!("{}/{}", self.group, self.version);
        if text("apiVersion") != api_version {
            let detail = format!("must be {api_version}");
            errors.push(FieldError::invalid("apiVersion", text("apiVersion"), detail));
        }
        errors
    }

    fn scale_values(&self, body: &Value, spec: bool) -> Vec<FieldError> {
        let Some(scale) = &self.scale else { return Vec::new() };
        let mut errors = Vec::new();
        let paths = [(&scale.spec_path, spec), (&scale.status_path, true)];
        for (path, _) in paths.into_iter().filter(|(_, checked)| *checked) {
            let found = path.trim_start_matches('.').split('.').try_fold(body, |at, name| at.get(name));
            let Some(replicas) = found.and_then(Value::as_i64) else { continue };
            if replicas < 0 {
                errors.push(FieldError::invalid(path, replicas, "should be a non-negative integer"));
            } else if replicas > i64::from(i32::MAX) {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(path, replicas, detail));
            }
        }
        errors
    }
}

/// The metadata of resources inside of the resource: types are checked, unknown fields dropped.
fn embedded_metadata(
    path: &str,
    value: &mut Value,
    schema: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(_) => {
            if schema.embedded {
                let shown = value["metadata"].clone();
                let refused = |why| format!("{}: Invalid value: {shown}: {why}", child(path, "metadata"));
                let found = native::decode_metadata(value).map_err(refused)?;
                unknown.extend(found.into_iter().map(|field| child(path, &field)));
            }
            for (name, field) in value.as_object_mut().into_iter().flatten() {
                if let Some(property) = schema.property(name) {
                    embedded_metadata(&child(path, name), field, property, unknown)?;
                } else if let Some(additional) = schema.additional() {
                    embedded_metadata(&child(path, name), field, additional, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.item() else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                embedded_metadata(&index(path, at), item, item_schema, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks resources inside of the resource.
fn embedded(path: &str, value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                errors.extend(embedded_resource(path, value));
            }
            for (name, field) in fields {
                if let Some(property) = schema.property(name) {
                    errors.extend(embedded(&child(path, name), field, property));
                } else if let Some(additional) = schema.additional() {
                    errors.extend(embedded(&key(path, name), field, additional));
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                for (at, item) in items.iter().enumerate() {
                    errors.extend(embedded(&index(path, at), item, item_schema));
                }
            }
        }
        _ => {}
    }
    errors
}

fn embedded_resource(path: &str, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["apiVersion", "kind"] {
        let at = child(path, field);
        match value.get(field) {
            None => errors.push(FieldError::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) if field == "kind" => {
                let messages = names::label_1035(&text.to_lowercase());
                if !messages.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", messages.join(","));
                    errors.push(FieldError::invalid(at, text.as_str(), detail));
                }
            }
            Some(Value::String(text)) if text.matches('/').count() > 1 => {
                errors.push(FieldError::invalid(
                    at,
                    text.as_str(),
                    format!("unexpected GroupVersion string: {text}"),
                ));
            }
            Some(Value::String(_)) => {}
            Some(other) => errors.push(FieldError::invalid(at, other.clone(), "must be a string")),
        }
    }
    if let Some(meta) = value.get("metadata").filter(|meta| meta.is_object()) {
        let mut meta = meta.clone();
        if meta["name"].as_str().unwrap_or_default().is_empty() {
            meta["name"] = Value::from("fakename");
        }
        let namespaced = meta["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty());
        errors.extend(metadata::check_at(&child(path, "metadata"), &meta, namespaced, NameRule::PathSegment));
    }
    errors
}
