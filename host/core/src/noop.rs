//! Whether an apply would change anything, told from the object and from what its field manager owns in it.
//!
//! An apply changes nothing where the object has every value of it, the manager owns exactly these fields, and nothing
//! that the manager owns is missing from it. `fieldsV1` tells how lists are merged, so no schema is needed: `k:{…}` names an
//! item of a keyed list, `v:…` one of a set, and an empty node a value that is owned as one.

use serde_json::{Map, Value};

use crate::canonical::same;

/// Metadata that names an object; nobody owns it.
const NAMING: [&str; 3] = ["name", "namespace", "uid"];

/// Whether applying `applied` as the manager that owns `fields` (its `fieldsV1`) would leave `current` as it is.
pub fn is_noop(applied: &Map<String, Value>, current: &Value, fields: &Value) -> bool {
    let Some(owned) = fields.as_object() else { return false };
    let owns = |key: &String| owned.get(&format!("f:{key}"));
    for (key, value) in applied {
        let fine = match key.as_str() {
            "apiVersion" | "kind" => true,
            "metadata" => {
                let metadata: Map<String, Value> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| !NAMING.contains(&key.as_str()))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                match owns(key) {
                    Some(node) => holds(&Value::Object(metadata), current.get(key), node),
                    None => metadata.is_empty(),
                }
            }
            _ => owns(key).is_some_and(|node| holds(value, current.get(key), node)),
        };
        if !fine {
            return false;
        }
    }
    owned.keys().all(|key| member(key).is_none_or(|name| applied.contains_key(name)))
}

/// Whether a part is there as applied and owned just so.
fn holds(applied: &Value, current: Option<&Value>, node: &Value) -> bool {
    let (Some(current), Some(owned)) = (current, node.as_object()) else { return false };
    let below = owned.keys().any(|key| key != ".");
    match (applied, current) {
        (Value::Object(fields), Value::Object(_)) if below => {
            fields.iter().all(|(key, value)| {
                owned.get(&format!("f:{key}")).is_some_and(|node| holds(value, current.get(key), node))
            }) && owned.keys().all(|key| member(key).is_none_or(|name| fields.contains_key(name)))
        }
        // A map of which every member is somebody else's.
        (Value::Object(fields), Value::Object(_)) if fields.is_empty() => true,
        (Value::Array(items), Value::Array(there)) if below => holds_items(items, there, owned),
        (Value::Array(items), Value::Array(_)) if items.is_empty() => true,
        _ => !below && same(applied, current),
    }
}

/// Each applied item is owned by one key and there as applied, and each key owned is applied.
fn holds_items(items: &[Value], there: &[Value], owned: &Map<String, Value>) -> bool {
    let mut left: Vec<&String> = owned.keys().filter(|key| *key != ".").collect();
    for item in items {
        let Some(index) = left.iter().position(|key| names(key, item)) else { return false };
        let key = left.swap_remove(index);
        let Some(current) = there.iter().find(|current| is_named(key, current)) else { return false };
        if !owned.get(key).is_some_and(|node| holds(item, Some(current), node)) {
            return false;
        }
    }
    left.is_empty()
}

/// The member that an `f:` key names.
fn member(key: &str) -> Option<&str> {
    key.strip_prefix("f:")
}

/// Whether a `k:` or `v:` key may mean an applied item: a key field that it lacks is defaulted by the API server.
fn names(key: &str, item: &Value) -> bool {
    matches_key(key, item, |have, value| have.is_none_or(|have| same(have, value)))
}

/// Whether a `k:` or `v:` key means an item that is there.
fn is_named(key: &str, item: &Value) -> bool {
    matches_key(key, item, |have, value| have.is_some_and(|have| same(have, value)))
}

fn matches_key(key: &str, item: &Value, field: impl Fn(Option<&Value>, &Value) -> bool) -> bool {
    if let Some(text) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(text).is_ok_and(|value| same(&value, item));
    }
    let identity: Option<Map<String, Value>> =
        key.strip_prefix("k:").and_then(|text| serde_json::from_str(text).ok());
    identity.is_some_and(|identity| identity.iter().all(|(name, value)| field(item.get(name), value)))
}

/// The values of everything that a manager owns in an object, as one value: equal before and after where nobody touched it.
pub fn owned_values(current: &Value, fields: &Value) -> Value {
    let Some(owned) = fields.as_object().filter(|owned| owned.keys().any(|key| key != ".")) else {
        return current.clone();
    };
    let mut found = Map::new();
    for (key, node) in owned {
        let value = match member(key) {
            Some(name) => current.get(name),
            None => current.as_array().and_then(|items| items.iter().find(|item| is_named(key, item))),
        };
        if let Some(value) = value {
            found.insert(key.clone(), owned_values(value, node));
        }
    }
    Value::Object(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(applied: Value, current: Value, fields: Value) -> bool {
        let Value::Object(applied) = applied else { panic!("an object") };
        is_noop(&applied, &current, &fields)
    }

    fn service(port: u32) -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {"ports": [{"port": port, "name": "http"}], "selector": {"app": "a"}}})
    }

    fn current() -> Value {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "uid": "u", "labels": {"x": "y", "other": "z"}},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "a"},
                "ports": [{"port": 80, "name": "http", "protocol": "TCP", "targetPort": 80}]}})
    }

    fn fields() -> Value {
        json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:selector": {},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}}}}})
    }

    #[test]
    fn what_is_there_and_owned_changes_nothing_whatever_others_added() {
        assert!(check(service(80), current(), fields()));
    }

    #[test]
    fn another_value_changes_something() {
        assert!(!check(service(81), current(), fields()));
        let mut edited = current();
        edited["spec"]["ports"][0]["name"] = json!("web");
        assert!(!check(service(80), edited, fields()));
    }

    #[test]
    fn a_value_that_is_there_and_somebody_elses_is_to_be_owned() {
        let mut less = fields();
        less["f:metadata"] = json!({});
        assert!(!check(service(80), current(), less));
    }

    #[test]
    fn what_is_owned_and_no_longer_applied_is_to_be_dropped() {
        let mut more = fields();
        more["f:spec"]["f:sessionAffinity"] = json!({});
        assert!(!check(service(80), current(), more));
        let mut another = fields();
        another["f:spec"]["f:ports"]["k:{\"port\":443,\"protocol\":\"TCP\"}"] =
            json!({".": {}, "f:port": {}});
        assert!(!check(service(80), current(), another));
    }

    #[test]
    fn sets_and_owner_references_compare_item_by_item() {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true});
        let applied = json!({"metadata": {"name": "a", "finalizers": ["x/y"], "ownerReferences": [owner]}});
        let there =
            json!({"metadata": {"name": "a", "finalizers": ["other/z", "x/y"], "ownerReferences": [owner]}});
        let owned = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"x/y\"": {}},
            "f:ownerReferences": {".": {}, "k:{\"uid\":\"1\"}": {}}}});
        assert!(check(applied, there, owned));
    }

    #[test]
    fn an_empty_map_is_there_whatever_others_put_into_it() {
        assert!(check(
            json!({"spec": {"podSelector": {}}}),
            json!({"spec": {"podSelector": {}}}),
            json!({"f:spec": {"f:podSelector": {}}})
        ));
    }

    #[test]
    fn owned_values_leave_out_what_is_not_owned() {
        let values = owned_values(&current(), &fields());
        let mut other = current();
        other["spec"]["clusterIP"] = json!("10.0.0.2");
        assert_eq!(values, owned_values(&other, &fields()));
        other["spec"]["selector"] = json!({"app": "b"});
        assert_ne!(values, owned_values(&other, &fields()));
    }
}
