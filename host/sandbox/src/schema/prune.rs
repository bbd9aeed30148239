//! What a custom resource loses on its way in: fields that its schema does not name, and nulls where null means nothing.

use serde_json::Value;

use super::structural::{Additional, Schema};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the fields that the schema does not name; returns their paths, sorted.
pub(crate) fn unknown_fields(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    prune(object, Some(schema), true, "", &mut found);
    found.sort();
    found
}

/// The same below a resource: `apiVersion`, `kind` and `metadata` are fields like others.
pub(crate) fn unknown_fields_below(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    prune(value, Some(schema), false, "", &mut found);
    found
}

fn child_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn prune(value: &mut Value, schema: Option<&Schema>, root: bool, path: &str, found: &mut Vec<String>) {
    let Some(schema) = schema else { return prune_all(value, path, found) };
    if schema.preserve_unknown {
        return keep_unknown(value, schema, root, path, found);
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| {
                let meta = META.contains(&key.as_str());
                if meta && (root || schema.embedded) {
                    return true;
                }
                if let Some(property) = schema.property(key) {
                    prune(value, Some(property), false, &child_path(path, key), found);
                } else if has_additional(schema) {
                    prune_additional(value, schema, &child_path(path, key), found);
                } else {
                    found.push(child_path(path, key));
                    return false;
                }
                true
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(item, schema.item(), false, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn has_additional(schema: &Schema) -> bool {
    matches!(schema.additional, Additional::Allowed(true) | Additional::Schema(_))
}

/// A field under `additionalProperties`: its schema, or (for `true`) nothing at all, which drops all that is below it.
fn prune_additional(value: &mut Value, schema: &Schema, path: &str, found: &mut Vec<String>) {
    prune(value, schema.additional(), false, path, found);
}

/// Without a schema every field below is unknown.
fn prune_all(value: &mut Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.keys().map(|key| child_path(path, key)));
            fields.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_all(item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Where unknown fields stay, those that are known are still gone into.
fn keep_unknown(value: &mut Value, schema: &Schema, root: bool, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if META.contains(&key.as_str()) && (root || schema.embedded) {
                    continue;
                }
                if let Some(property) = schema.property(key) {
                    prune(value, Some(property), false, &child_path(path, key), found);
                } else if has_additional(schema) {
                    prune_additional(value, schema, &child_path(path, key), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = format!("{path}[{index}]");
                if let Some(item_schema) = schema.item() {
                    keep_unknown(item, item_schema, false, &path, found);
                }
            }
        }
        _ => {}
    }
}

/// Drops nulls that neither mean something (`nullable`) nor will be replaced by a default.
pub(crate) fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let field = schema.and_then(|schema| schema.property(key).or_else(|| schema.additional()));
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            drop_nulls(value, field);
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(Schema::item);
            items.iter_mut().for_each(|item| drop_nulls(item, item_schema));
        }
        _ => {}
    }
}
