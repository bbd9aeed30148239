//! JSON patch, RFC 6902, with the words of the library that the real server uses.

use crate::error::{ApiError, go_quote};
use serde_json::Value;

/// Operations that a patch may have.
const OPERATIONS_MAX: usize = 10_000;

/// The object after all operations, or the error of the first that fails.
pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value, ApiError> {
    let Some(operations) = patch.as_array() else {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    };
    if operations.len() > OPERATIONS_MAX {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut out = object.clone();
    for operation in operations {
        step(&mut out, operation).map_err(|why| rejected(&why))?;
    }
    Ok(out)
}

/// The generic answer to a patch that cannot be carried out; the reason stays with the server.
fn rejected(why: &str) -> ApiError {
    tracing::debug!(why, "a JSON patch does not apply");
    let mut error =
        ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request");
    error.details = Some(Box::default());
    error
}

fn step(object: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |key: &str| operation[key].as_str().unwrap_or_default();
    let (op, path) = (text("op"), text("path"));
    let value = || operation.get("value").cloned().unwrap_or_default();
    if !operation["path"].is_string() {
        return Err(format!("{op} operation lacks a path"));
    }
    match op {
        "add" => add(object, path, value(), "add"),
        "remove" => remove(object, path).map(|_| ()),
        "replace" => replace(object, path, value()),
        "move" => {
            let taken = remove(object, text("from"))?;
            add(object, path, taken, "move")
        }
        "copy" => {
            let copied = find(object, text("from")).ok_or_else(|| missing("copy", text("from")))?;
            add(object, path, copied, "copy")
        }
        "test" => {
            let found = find(object, path).ok_or_else(|| missing("test", path))?;
            if found == value() { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn missing(op: &str, path: &str) -> String {
    format!("{op} operation does not apply: doc is missing path: {}: missing value", go_quote(path))
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn index(list: &[Value], key: &str) -> Option<usize> {
    match key.parse::<i64>().ok()? {
        at if at >= 0 => usize::try_from(at).ok(),
        at => list.len().checked_sub(usize::try_from(-at).ok()?),
    }
}

/// The value at a path. A key that a map lacks counts as null, what is below something absent is missing.
fn find(object: &Value, path: &str) -> Option<Value> {
    let Some((parent, key)) = split(path) else { return Some(object.clone()) };
    match object.pointer(parent)? {
        Value::Object(fields) => Some(fields.get(&key).cloned().unwrap_or_default()),
        Value::Array(list) => list.get(index(list, &key)?).cloned(),
        _ => None,
    }
}

fn add(object: &mut Value, path: &str, value: Value, op: &str) -> Result<(), String> {
    let Some((parent, key)) = split(path) else {
        *object = value;
        return Ok(());
    };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(key, value);
            Ok(())
        }
        Some(Value::Array(list)) => {
            let at = if key == "-" { Some(list.len()) } else { index(list, &key) };
            let at = at.filter(|at| *at <= list.len()).ok_or_else(|| {
                format!("error in add for path: '{path}': Unable to access invalid index: {key}: invalid index referenced")
            })?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err(missing(op, path)),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let gone =
        || format!("remove operation does not apply: doc is missing path: {}: missing value", go_quote(path));
    let (parent, key) = split(path).ok_or_else(gone)?;
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            let absent = || {
                format!(
                    "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
                )
            };
            fields.remove(&key).ok_or_else(absent)
        }
        Some(Value::Array(list)) => match index(list, &key).filter(|at| *at < list.len()) {
            Some(at) => Ok(list.remove(at)),
            None => Err(format!(
                "error in remove for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
            )),
        },
        _ => Err(gone()),
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let missing = || format!("replace operation does not apply: doc is missing key: {path}: missing value");
    let Some((parent, key)) = split(path) else {
        *object = value;
        return Ok(());
    };
    match object.pointer_mut(parent) {
        // The library does not mind that a map lacks the key.
        Some(Value::Object(fields)) => {
            fields.insert(key, value);
            Ok(())
        }
        Some(Value::Array(list)) => {
            let at = index(list, &key).filter(|at| *at < list.len()).ok_or_else(missing)?;
            list[at] = value;
            Ok(())
        }
        _ => Err(missing()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_are_carried_out_in_order() {
        let object = json!({"a": [1, 2], "b": {"c/d": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "add", "path": "/a/0", "value": 0},
            {"op": "remove", "path": "/a/1"},
            {"op": "replace", "path": "/b/c~1d", "value": 2},
            {"op": "copy", "from": "/b", "path": "/e"},
            {"op": "move", "from": "/b/c~1d", "path": "/f"},
        ]);
        let patched = apply(&object, &patch).unwrap();
        assert_eq!(patched, json!({"a": [0, 2, 3], "b": {}, "e": {"c/d": 2}, "f": 2}));
    }

    #[test]
    fn an_operation_on_nothing_is_refused() {
        for patch in [
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/x/y", "value": 1}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "add", "path": "/l/5", "value": 2}]),
        ] {
            let error = apply(&json!({"a": 1, "l": []}), &patch).unwrap_err();
            assert_eq!(error.code, 422, "{patch}");
        }
    }
}
