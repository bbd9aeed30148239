//! Go's decoder: fields that a struct does not have are dropped and told, nulls are zero values.

use serde_json::Value;

use super::quantity;
use crate::schema::builtin::{OBJECT_META, definition};
use crate::schema::path::{child, index};
use crate::schema::structural::{Additional, JsonType, Schema};

/// Reads a body as its kind: returns `unknown field "…"` for each field that was dropped, or what cannot be read.
pub(super) fn decode(kind: &str, body: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    walk(kind, "", body, schema, &mut unknown)?;
    Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

/// Reads `metadata` of a custom resource, or of one inside another; returns the paths of unknown fields.
pub(crate) fn decode_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let Some(meta) = object.get_mut("metadata") {
        walk("ObjectMeta", "metadata", meta, &definition(OBJECT_META), &mut unknown)?;
    }
    Ok(unknown)
}

/// Drops nulls, which Go's encoder never writes for fields of ours; looking for a field that is not there leaves them.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn mismatch(owner: &str, path: &str, value: &Value, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field {owner}.{path} of type {wanted}",
        kind_name(value)
    )
}

fn walk(
    owner: &str,
    path: &str,
    value: &mut Value,
    schema: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    if schema.quantity {
        return quantity::normalise(value);
    }
    let Some(ty) = schema.ty else { return Ok(()) };
    match (ty, &mut *value) {
        (JsonType::Object, Value::Object(fields)) => {
            let open = match schema.additional {
                Additional::Unset => schema.properties.is_empty(),
                Additional::Allowed(allowed) => allowed,
                Additional::Schema(_) => false,
            };
            let mut failed = None;
            fields.retain(|name, field| {
                let at = child(path, name);
                let Some(known) = schema.field(name) else {
                    if !open {
                        unknown.push(at);
                    }
                    return open;
                };
                if field.is_null() && known.ty.is_some() {
                    return false;
                }
                if failed.is_none() {
                    failed = walk(owner, &at, field, known, unknown).err();
                }
                true
            });
            failed.map_or(Ok(()), Err)
        }
        (JsonType::Array, Value::Array(items)) => {
            let Some(item_schema) = schema.item() else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                walk(owner, &index(path, at), item, item_schema, unknown)?;
            }
            Ok(())
        }
        (JsonType::String, Value::String(_)) | (JsonType::Boolean, Value::Bool(_)) => Ok(()),
        (JsonType::Number, Value::Number(_)) => Ok(()),
        (JsonType::Integer, Value::Number(number)) if number.as_i64().is_some() => Ok(()),
        (_, Value::Null) => Ok(()),
        (JsonType::Object, other) => Err(mismatch(owner, path, other, "map[string]interface {}")),
        (JsonType::Array, other) => Err(mismatch(owner, path, other, "[]interface {}")),
        (JsonType::String, other) => Err(mismatch(owner, path, other, "string")),
        (JsonType::Boolean, other) => Err(mismatch(owner, path, other, "bool")),
        (JsonType::Integer, other) => Err(mismatch(owner, path, other, "int64")),
        (JsonType::Number, other) => Err(mismatch(owner, path, other, "float64")),
    }
}
