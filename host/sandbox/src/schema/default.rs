//! Defaults of custom resources.

use serde_json::Value;

use super::structural::Schema;

/// Fills in the defaults, also below defaults. Doing it twice changes nothing.
pub(crate) fn apply(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match fields.get(name) {
                    Some(Value::Null) if !property.nullable => {}
                    Some(_) => continue,
                    None => {}
                }
                fields.insert(name.clone(), default.clone());
            }
            for (name, field) in fields.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    apply(field, property);
                } else if let Some(additional) = schema.additional() {
                    replace_null(field, additional);
                    apply(field, additional);
                }
            }
        }
        Value::Array(items) => {
            let Some(item_schema) = schema.item() else { return };
            for item in items {
                replace_null(item, item_schema);
                apply(item, item_schema);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or(Value::Null);
    }
}
