//! JSON merge patch, RFC 7386.

use serde_json::{Map, Value};

/// The object with the patch merged in; null removes.
pub(crate) fn apply(object: &Value, patch: &Value) -> Value {
    let Some(patch) = patch.as_object() else { return patch.clone() };
    let mut out = object.as_object().cloned().unwrap_or_default();
    for (key, change) in patch {
        if change.is_null() {
            out.remove(key);
            continue;
        }
        let empty = Value::Object(Map::new());
        let merged = apply(out.get(key).unwrap_or(&empty), change);
        out.insert(key.clone(), merged);
    }
    Value::Object(out)
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
