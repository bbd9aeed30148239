//! Strategic merge patch: like a merge patch, but lists with a merge key are merged item by item.
//!
//! Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`.

use crate::error::ApiError;
use crate::json;
use crate::schema::Schema;
use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// The object with the patch merged in by the schema's merge keys.
pub(crate) fn apply(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, ApiError> {
    let Some(patch) = patch.as_object() else {
        return Err(ApiError::bad_request(
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ));
    };
    let fields = object.as_object().cloned().unwrap_or_default();
    // Upstream takes a fault of the patch for one of its own.
    merge_map(fields, patch, Some(schema)).map(Value::Object).map_err(|why| ApiError::new(500, "", why))
}

fn merge_map(
    mut out: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<Map<String, Value>, String> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => return Ok(plain(patch)),
        Some("delete") => return Ok(Map::new()),
        Some("merge") | None => {}
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if let Some(keys) = patch.get(RETAIN).and_then(Value::as_array) {
        out.retain(|key, _| keys.iter().any(|kept| kept == key));
    }
    for (key, change) in patch {
        if key == PATCH || key == RETAIN || key.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from(&mut out, list, change);
            continue;
        }
        if change.is_null() {
            out.remove(key);
            continue;
        }
        let child = schema.and_then(|schema| schema.field(key));
        let order = patch.get(&format!("{ORDER}{key}")).and_then(Value::as_array);
        let merged = merge_value(out.get(key), change, child, order)?;
        out.insert(key.clone(), merged);
    }
    reorder_untouched(&mut out, patch, schema);
    Ok(out)
}

fn merge_value(
    old: Option<&Value>,
    change: &Value,
    schema: Option<&Schema>,
    order: Option<&Vec<Value>>,
) -> Result<Value, String> {
    match (old, change) {
        (Some(Value::Object(old)), Value::Object(change)) => {
            let replaced = schema.is_some_and(|schema| schema.patch_strategy().replace);
            if replaced {
                return Ok(Value::Object(plain(change)));
            }
            Ok(Value::Object(merge_map(old.clone(), change, schema)?))
        }
        (_, Value::Object(change)) => Ok(Value::Object(merge_map(Map::new(), change, schema)?)),
        (old, Value::Array(change)) => {
            let old = old.and_then(Value::as_array).cloned().unwrap_or_default();
            merge_list(old, change, schema, order).map(Value::Array)
        }
        (_, change) => Ok(change.clone()),
    }
}

fn merge_list(
    old: Vec<Value>,
    change: &[Value],
    schema: Option<&Schema>,
    order: Option<&Vec<Value>>,
) -> Result<Vec<Value>, String> {
    let merges = schema.is_some_and(|schema| schema.patch_strategy().merge);
    if !merges {
        return Ok(change.iter().filter(|item| !is_directive(item)).map(without_directives).collect());
    }
    let key = schema.and_then(Schema::patch_merge_key);
    let item_schema = schema.and_then(Schema::item);
    // Where nothing else is asked for, the patch's own order counts.
    let order: Vec<Value> = order
        .cloned()
        .unwrap_or_else(|| change.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect());
    let before = old.clone();
    let Some(key) = key else {
        let mut out = old;
        out.extend(change.iter().cloned());
        let mut seen: Vec<Value> = Vec::new();
        out.retain(|item| {
            !seen.contains(item) && {
                seen.push(item.clone());
                true
            }
        });
        return Ok(ordered(out, &order, &before, |item| item.clone()));
    };
    if change.iter().any(|item| item.get(PATCH) == Some(&"replace".into())) {
        return Ok(change.iter().filter(|item| item.get(PATCH).is_none()).map(without_directives).collect());
    }
    let mut out = old;
    for item in change {
        let Some(fields) = item.as_object() else {
            return Err(format!("map: {} does not contain declared merge key: {key}", json::go_value(item)));
        };
        let Some(id) = fields.get(key) else {
            return Err(format!("map: {} does not contain declared merge key: {key}", json::go_value(item)));
        };
        let found = out.iter().position(|other| other.get(key) == Some(id));
        if fields.get(PATCH).and_then(Value::as_str) == Some("delete") {
            out.retain(|other| other.get(key) != Some(id));
            continue;
        }
        match found {
            Some(at) => {
                let old = out[at].as_object().cloned().unwrap_or_default();
                out[at] = Value::Object(merge_map(old, fields, item_schema)?);
            }
            // Upstream takes a new item as it stands, directives included.
            None => out.push(item.clone()),
        }
    }
    Ok(ordered(out, &order, &before, |item| item.get(key).cloned().unwrap_or_default()))
}

/// Puts items that the order names into that order. Items that only the server has stay before what they stood before in the
/// old list; where that says nothing, the named ones go first.
fn ordered(items: Vec<Value>, order: &[Value], old: &[Value], id: impl Fn(&Value) -> Value) -> Vec<Value> {
    let ids = |list: &[Value]| -> Vec<Value> {
        list.iter().map(|one| if one.is_object() { id(one) } else { one.clone() }).collect()
    };
    let (wanted, before) = (ids(order), ids(old));
    let rank = |list: &[Value], item: &Value| list.iter().position(|one| *one == id(item));
    let size = items.len();
    let (mut named, server_only): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| rank(&wanted, item).is_some());
    named.sort_by_key(|item| rank(&wanted, item));
    let (mut named, mut server_only) = (named.into_iter().peekable(), server_only.into_iter().peekable());
    let mut out = Vec::with_capacity(size);
    while let (Some(left), Some(right)) = (server_only.peek(), named.peek()) {
        let first = match (rank(&before, left), rank(&before, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        out.extend(if first { server_only.next() } else { named.next() });
    }
    out.extend(named);
    out.extend(server_only);
    out
}

/// An order without a change of the list itself still reorders it.
fn reorder_untouched(out: &mut Map<String, Value>, patch: &Map<String, Value>, schema: Option<&Schema>) {
    for (directive, order) in patch {
        let Some(list) = directive.strip_prefix(ORDER) else { continue };
        if patch.contains_key(list) {
            continue;
        }
        let key = schema.and_then(|schema| schema.field(list)).and_then(Schema::patch_merge_key);
        if let (Some(Value::Array(items)), Some(order)) = (out.get_mut(list), order.as_array()) {
            let taken = std::mem::take(items);
            let before = taken.clone();
            *items = ordered(taken, order, &before, |item| match key {
                Some(key) => item.get(key).cloned().unwrap_or_default(),
                None => item.clone(),
            });
        }
    }
}

fn delete_from(out: &mut Map<String, Value>, list: &str, gone: &Value) {
    let gone = gone.as_array().cloned().unwrap_or_default();
    if let Some(items) = out.get_mut(list).and_then(Value::as_array_mut) {
        items.retain(|item| !gone.contains(item));
    }
}

fn is_directive(item: &Value) -> bool {
    item.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key(PATCH))
}

fn without_directives(item: &Value) -> Value {
    match item {
        Value::Object(fields) => Value::Object(plain(fields)),
        other => other.clone(),
    }
}

/// The map of a patch as an object of its own.
fn plain(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
        .map(|(key, value)| (key.clone(), without_directives(value)))
        .collect()
}
