//! JSON merge patch, RFC 7386.

use serde_json::Value;

/// The object with the patch merged in; null removes.
pub(crate) fn apply(object: &Value, patch: &Value) -> Value {
    let (Some(fields), Some(changes)) = (object.as_object(), patch.as_object()) else { return patch.clone() };
    let mut out = fields.clone();
    for (key, change) in changes {
        if change.is_null() {
            out.remove(key);
            continue;
        }
        let merged = match out.get(key) {
            Some(old) if old.is_object() => apply(old, change),
            _ => without_nulls(change),
        };
        out.insert(key.clone(), merged);
    }
    Value::Object(out)
}

/// A new value: nulls in its maps are left out, also in those of lists, as upstream does.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(key, field)| (key.clone(), without_nulls(field))).collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_removes_maps_merge_and_all_else_replaces() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 3});
        let patch = json!({"a": {"b": null, "f": {"g": null}}, "d": [3], "e": {"h": 1}, "i": null});
        assert_eq!(apply(&object, &patch), json!({"a": {"c": 2, "f": {}}, "d": [3], "e": {"h": 1}}));
    }
}
