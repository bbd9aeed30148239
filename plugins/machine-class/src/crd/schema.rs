//! Pieces of a structural schema.

use serde_json::{Map, Value, json};

/// A text.
pub(super) fn string() -> Value {
    json!({"type": "string"})
}

/// A whole number.
pub(super) fn integer() -> Value {
    json!({"type": "integer", "format": "int32"})
}

/// A truth value.
pub(super) fn boolean() -> Value {
    json!({"type": "boolean"})
}

/// A time.
pub(super) fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// A number with a unit, or without one.
pub(super) fn quantity() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

/// An object of which nothing is known.
pub(super) fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The same, or null.
pub(super) fn optional(mut schema: Value) -> Value {
    schema["nullable"] = true.into();
    schema
}

/// An object with these fields, all of which may be left out.
pub(super) fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

/// Any keys with values of this kind.
pub(super) fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// A list of items of this kind.
pub(super) fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}
