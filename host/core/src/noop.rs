//! Whether an apply would change anything, told from the object and from what its field manager owns in it.
//!
//! An apply changes nothing where the object has every value of it, the manager owns exactly these fields, and nothing
//! that the manager owns is missing from it. `fieldsV1` tells how lists are merged, so no schema is needed: `k:{…}` names an
//! item of a keyed list, `v:…` one of a set, an empty node a value that is owned as one, and a node with `.` alone a map or
//! list of which every member is somebody else's ([`ManagedFields::fields`](crate::object::ManagedFields::fields)).

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::canonical::same;
use crate::tree::Tree;

/// Metadata that the API server leaves out of what managers own.
const UNOWNED: [&str; 7] =
    ["name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp", "selfLink"];

/// What a manager owns of one value: keys of `fieldsV1` with what it owns below each.
type Owned<'j> = [(Cow<'j, str>, Tree<'j>)];

/// Whether applying `applied` as the manager that owns `fields` (its `fieldsV1`) would leave `current` as it is.
pub fn is_noop(applied: &Map<String, Value>, current: &Tree<'_>, fields: &Tree<'_>) -> bool {
    is_noop_with(applied, applied.get("metadata"), current, fields)
}

/// The same of an object that is applied with this metadata instead of its own.
pub fn is_noop_with(
    applied: &Map<String, Value>,
    metadata: Option<&Value>,
    current: &Tree<'_>,
    fields: &Tree<'_>,
) -> bool {
    let Some(owned) = fields.members() else { return false };
    let is_applied = |name: &str| match name {
        "metadata" => metadata.is_some(),
        "apiVersion" | "kind" => false,
        name => applied.contains_key(name),
    };
    let fine = |(key, value): (&String, &Value)| match key.as_str() {
        "apiVersion" | "kind" | "metadata" => true,
        key => holds_member(key, value, current, owned),
    };
    applied.iter().all(fine)
        && metadata.is_none_or(|metadata| holds_metadata(metadata, current, owned))
        && all_applied(owned, is_applied)
}

/// Whether the part of the metadata that a manager can own is there as applied and owned just so.
fn holds_metadata(metadata: &Value, current: &Tree<'_>, owned: &Owned<'_>) -> bool {
    let Value::Object(fields) = metadata else { return holds_member("metadata", metadata, current, owned) };
    let is_ours = |key: &str| !UNOWNED.contains(&key);
    let mut ours = fields.iter().filter(|(key, _)| is_ours(key)).peekable();
    let says_nothing = ours.peek().is_none();
    let Some(node) = node_of(owned, "metadata") else { return says_nothing };
    let (Some(owned), Some(there @ Tree::Object(_))) = (node.members(), current.get("metadata")) else {
        return false;
    };
    if owned.iter().all(|(key, _)| key == ".") {
        return says_nothing;
    }
    ours.all(|(key, value)| holds_member(key, value, there, owned))
        && all_applied(owned, |name| is_ours(name) && fields.contains_key(name))
}

/// Whether a part is there as applied and owned just so.
fn holds(applied: &Value, current: &Tree<'_>, node: &Tree<'_>) -> bool {
    let Some(owned) = node.members() else { return false };
    let below = owned.iter().any(|(key, _)| key != ".");
    match (applied, current) {
        // One owner, as of a scalar or of an atomic map or list.
        _ if owned.is_empty() => current.same(applied),
        (Value::Object(fields), Tree::Object(_)) if below => {
            fields.iter().all(|(key, value)| holds_member(key, value, current, owned))
                && all_applied(owned, |name| fields.contains_key(name))
        }
        (Value::Array(items), Tree::Array(there)) if below => holds_items(items, there, owned),
        // Whatever is in it is somebody else's.
        (Value::Object(fields), Tree::Object(_)) => fields.is_empty(),
        (Value::Array(items), Tree::Array(_)) => items.is_empty(),
        _ => false,
    }
}

/// Whether an applied member is owned and there as applied.
fn holds_member(key: &str, value: &Value, current: &Tree<'_>, owned: &Owned<'_>) -> bool {
    match (node_of(owned, key), current.get(key)) {
        (Some(node), Some(current)) => holds(value, current, node),
        // A null that the API server dropped is nobody's.
        (None, None | Some(Tree::Null)) => value.is_null(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether each member that is owned is applied.
fn all_applied(owned: &Owned<'_>, is_applied: impl Fn(&str) -> bool) -> bool {
    owned.iter().all(|(key, _)| member(key).is_none_or(&is_applied))
}

/// What is owned below a member.
fn node_of<'o, 'j>(owned: &'o Owned<'j>, name: &str) -> Option<&'o Tree<'j>> {
    owned.iter().find(|(key, _)| member(key) == Some(name)).map(|(_, node)| node)
}

/// Each applied item is owned by one key and there as applied, in the order applied, and each key owned is applied.
fn holds_items(items: &[Value], there: &[Tree<'_>], owned: &Owned<'_>) -> bool {
    let Some(keys) = keys_of(items, owned) else { return false };
    let mut places = Vec::with_capacity(items.len());
    for (item, (key, node)) in items.iter().zip(keys) {
        let found = there.iter().enumerate().find(|(_, current)| is_named_there(key, current));
        let Some((place, current)) = found else { return false };
        if !holds(item, current, node) {
            return false;
        }
        places.push(place);
    }
    places.is_sorted()
}

/// The key that owns each item, with what is owned below it; none where they are not one to one. An item that has all of
/// a key's fields goes first: one that leaves a field to its default could be meant by several.
fn keys_of<'o, 'j>(items: &[Value], owned: &'o Owned<'j>) -> Option<Vec<&'o (Cow<'j, str>, Tree<'j>)>> {
    let mut left: Vec<_> = owned.iter().filter(|(key, _)| key != ".").collect();
    let mut keys = vec![None; items.len()];
    for means in [is_named, names] {
        for (item, found) in items.iter().zip(&mut keys).filter(|(_, found)| found.is_none()) {
            if let Some(index) = left.iter().position(|(key, _)| means(key, item)) {
                *found = Some(left.remove(index));
            }
        }
    }
    if left.is_empty() { keys.into_iter().collect() } else { None }
}

/// The member that an `f:` key names.
fn member(key: &str) -> Option<&str> {
    key.strip_prefix("f:")
}

/// Whether a `k:` or `v:` key may mean an applied item: a key field that it lacks is defaulted by the API server.
fn names(key: &str, item: &Value) -> bool {
    matches_key(
        key,
        |value| same(value, item),
        |name, value| item.get(name).is_none_or(|have| same(have, value)),
    )
}

/// Whether a `k:` or `v:` key means an item that is there.
fn is_named(key: &str, item: &Value) -> bool {
    matches_key(
        key,
        |value| same(value, item),
        |name, value| item.get(name).is_some_and(|have| same(have, value)),
    )
}

/// The same for an item of the object as it is.
fn is_named_there(key: &str, item: &Tree<'_>) -> bool {
    matches_key(
        key,
        |value| item.same(value),
        |name, value| item.get(name).is_some_and(|have| have.same(value)),
    )
}

fn matches_key(key: &str, is: impl Fn(&Value) -> bool, has: impl Fn(&str, &Value) -> bool) -> bool {
    if let Some(text) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(text).is_ok_and(|value| is(&value));
    }
    let identity: Option<Map<String, Value>> =
        key.strip_prefix("k:").and_then(|text| serde_json::from_str(text).ok());
    identity.is_some_and(|identity| identity.iter().all(|(name, value)| has(name, value)))
}

/// The values of everything that a manager owns in an object, as one value: equal before and after where nobody touched it.
pub fn owned_values(current: &Value, fields: &Value) -> Value {
    fields.as_object().map_or(Value::Null, |owned| members(current, owned))
}

fn members(current: &Value, owned: &Map<String, Value>) -> Value {
    let mut found = Map::new();
    for (key, node) in owned {
        let value = match member(key) {
            Some(name) => current.get(name),
            None => current.as_array().and_then(|items| items.iter().find(|item| is_named(key, item))),
        };
        let Some(value) = value else { continue };
        // An empty node is owned as one value; one with `.` alone is a map or list without what others put into it.
        let below = node.as_object().filter(|below| !below.is_empty());
        found.insert(key.clone(), below.map_or_else(|| value.clone(), |below| members(value, below)));
    }
    Value::Object(found)
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(applied: Value, current: Value, fields: Value) -> bool {
        let Value::Object(applied) = applied else { panic!("an object") };
        let (current, fields) = (current.to_string(), fields.to_string());
        let tree = |text| Tree::parse(text).expect("JSON");
        is_noop(&applied, &tree(&current), &tree(&fields))
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
    fn an_item_that_leaves_a_key_to_its_default_is_told_from_one_that_does_not() {
        let ports = |items: Value| json!({"spec": {"ports": items}});
        let owned = json!({"f:spec": {"f:ports": {
            "k:{\"port\":53,\"protocol\":\"SCTP\"}": {".": {}, "f:port": {}, "f:protocol": {}},
            "k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}});
        let there = ports(json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "SCTP"}]));
        assert!(check(
            ports(json!([{"port": 53}, {"port": 53, "protocol": "SCTP"}])),
            there.clone(),
            owned.clone()
        ));
        assert!(
            !check(ports(json!([{"port": 53, "protocol": "SCTP"}, {"port": 53}])), there, owned),
            "another order"
        );
    }

    #[test]
    fn a_null_that_is_not_there_changes_nothing() {
        let owned = json!({"f:spec": {"f:a": {}}});
        let there = json!({"spec": {"a": 1}});
        assert!(check(json!({"spec": {"a": 1, "b": null}}), there.clone(), owned.clone()));
        assert!(!check(json!({"spec": {"a": null}}), there, owned));
    }

    #[test]
    fn what_the_server_alone_writes_is_owned_by_nobody() {
        let applied = json!({"metadata": {"name": "a", "creationTimestamp": null, "generation": 3}});
        assert!(check(applied.clone(), json!({"metadata": {"name": "a"}}), json!({})));
        assert!(!check(applied, json!({"metadata": {"name": "a"}}), json!({"f:metadata": {"f:labels": {}}})));
    }

    #[test]
    fn an_empty_map_or_list_is_there_whatever_others_put_into_it() {
        let part = |value: Value| json!({"spec": {"part": value}});
        let owned = |node: Value| json!({"f:spec": {"f:part": node}});
        assert!(check(part(json!({})), part(json!({})), owned(json!({}))));
        assert!(check(part(json!({})), part(json!({"a": 1})), owned(json!({".": {}}))));
        assert!(check(part(json!([])), part(json!([{"name": "a"}])), owned(json!({".": {}}))));
    }

    #[test]
    fn a_map_or_list_with_one_owner_can_be_emptied() {
        let part = |value: Value| json!({"spec": {"part": value}});
        let owned = json!({"f:spec": {"f:part": {}}});
        for (applied, there) in [
            (json!({}), json!({"a": 1})),
            (json!([]), json!([1])),
            (json!([1]), json!([])),
            (json!({"a": 1}), json!({})),
        ] {
            assert!(!check(part(applied), part(there), owned.clone()));
        }
    }

    #[test]
    fn members_of_a_map_that_are_somebody_elses_are_to_be_owned_though_they_are_there_as_applied() {
        let deep = |value: Value| json!({"spec": {"deep": value}});
        let left = json!({"f:spec": {"f:deep": {".": {}}}});
        assert!(!check(deep(json!({"y": 1})), deep(json!({"y": 1})), left.clone()));
        assert!(check(deep(json!({})), deep(json!({"y": 1})), left));
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
