//! Defaults in a schema must be valid values of it.

use serde_json::Value;

use crate::schema::field_error::FieldError;
use crate::schema::path::{child, key};
use crate::schema::structural::Schema;
use crate::schema::{prune, validate};

/// Checks each default against the schema that it stands in.
pub(super) fn check(path: &str, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(path, schema, &mut errors);
    errors
}

fn walk(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let at = child(path, "default");
        let parsed = Schema::parse(schema);
        let mut pruned = default.clone();
        if !prune::unknown_fields_below(&mut pruned, &parsed).is_empty() {
            errors.push(FieldError::invalid(&at, default.clone(), "must not have unknown fields"));
        }
        let found = validate::check(&at, default, &parsed);
        if found.is_empty() {
            errors.extend(crate::schema::cel::check_default(&at, default, &parsed));
        } else {
            errors.extend(found);
        }
    }
    // Not below additionalProperties: what a default there would apply to is nowhere to be seen.
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        walk(&child(path, "items"), items, errors);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        walk(&key(&child(path, "properties"), name), property, errors);
    }
}
