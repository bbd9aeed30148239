//! Lists that are sets or maps hold each item, or key, once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_error::{FieldError, go_json};
use super::merge::ListKind;
use super::structural::Schema;

/// Duplicates below `value`.
pub(crate) fn check(path: &str, value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(path, value, schema, &mut errors);
    errors
}

fn walk(path: &str, value: &Value, schema: &Schema, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let Some(property) = schema.property(key) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(&path, value, property, errors);
                } else if let Some(additional) = schema.additional() {
                    walk(&format!("{path}[{key}]"), value, additional, errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_kind() {
                ListKind::Set => {
                    let keys: Vec<Value> = items.clone();
                    duplicates(path, &keys, errors);
                }
                ListKind::Map(keys) => map_keys(path, items, keys, errors),
                ListKind::Atomic => {}
            }
            if let Some(item_schema) = schema.item() {
                for (index, item) in items.iter().enumerate() {
                    walk(&format!("{path}[{index}]"), item, item_schema, errors);
                }
            }
        }
        _ => {}
    }
}

fn map_keys(path: &str, items: &[Value], keys: &[String], errors: &mut Vec<FieldError>) {
    for (index, item) in items.iter().enumerate() {
        if !item.is_null() && !item.is_object() {
            let detail = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(format!("{path}[{index}]"), item.clone(), detail));
            return;
        }
    }
    let key_of = |item: &Value| {
        let fields = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    duplicates(path, &found, errors);
}

/// Each value that is there again is told once, at its second place.
fn duplicates(path: &str, values: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.iter().enumerate() {
        let times = seen.entry(go_json(value)).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), value.clone()));
        }
    }
}
