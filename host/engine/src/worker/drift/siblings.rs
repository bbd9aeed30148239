//! Which fields of an applied object a sibling controller has taken over since.
//!
//! Controllers of one plugin may apply the same status fields with force: the last one right wins. When a sibling has
//! taken such a field, its value is no drift, and applying it again would start a fight.

use serde_json::{Map, Value};

/// What is left of an applied object without the fields that a sibling owns and we do not.
///
/// `ours` and `siblings` are `fieldsV1` trees. `None` where nothing was taken, so that the common case copies nothing.
pub(super) fn without_taken(applied: &Value, ours: Option<&Value>, siblings: &[Value]) -> Option<Value> {
    let mut left = applied.clone();
    let mut taken = false;
    for sibling in siblings {
        taken |= strip(&mut left, ours, sibling) != Stripped::Nothing;
    }
    taken.then_some(left)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stripped {
    /// The sibling owns none of it alone.
    Nothing,
    /// Some of it is gone.
    Some,
    /// All of it is gone, so the field goes too.
    All,
}

fn strip(value: &mut Value, ours: Option<&Value>, theirs: &Value) -> Stripped {
    let below = theirs.as_object().filter(|fields| fields.keys().any(|key| key != "."));
    match (value, below) {
        (Value::Object(fields), Some(theirs)) => strip_fields(fields, ours, theirs),
        (Value::Array(items), Some(theirs)) => strip_items(items, ours, theirs),
        // A leaf, or a list or map owned as one: theirs alone where we no longer own it.
        _ if ours.is_none() => Stripped::All,
        _ => Stripped::Nothing,
    }
}

fn strip_fields(
    fields: &mut Map<String, Value>,
    ours: Option<&Value>,
    theirs: &Map<String, Value>,
) -> Stripped {
    let mut stripped = Stripped::Nothing;
    fields.retain(|name, value| {
        let key = format!("f:{name}");
        let Some(theirs) = theirs.get(&key) else { return true };
        let outcome = strip(value, ours.and_then(|ours| ours.get(&key)), theirs);
        if outcome != Stripped::Nothing {
            stripped = Stripped::Some;
        }
        outcome != Stripped::All
    });
    if stripped == Stripped::Some && fields.is_empty() { Stripped::All } else { stripped }
}

fn strip_items(items: &mut Vec<Value>, ours: Option<&Value>, theirs: &Map<String, Value>) -> Stripped {
    let mut stripped = Stripped::Nothing;
    items.retain_mut(|item| {
        let Some((key, theirs)) = theirs.iter().find(|(key, _)| names(key, item)) else { return true };
        let ours = ours.and_then(|ours| ours.get(key));
        let identity = identity(key);
        let outcome = match (&mut *item, theirs.as_object().filter(|below| !below.is_empty())) {
            (Value::Object(fields), Some(below)) => {
                let kept: Map<_, _> =
                    identity.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
                let outcome = strip_fields(fields, ours, below);
                let bare = outcome != Stripped::Nothing && fields.keys().all(|name| kept.contains_key(name));
                // An item that stays must keep what names it.
                fields.extend(kept);
                if bare && ours.is_none() { Stripped::All } else { outcome }
            }
            _ if ours.is_none() => Stripped::All,
            _ => Stripped::Nothing,
        };
        if outcome != Stripped::Nothing {
            stripped = Stripped::Some;
        }
        outcome != Stripped::All
    });
    if stripped == Stripped::Some && items.is_empty() { Stripped::All } else { stripped }
}

/// Whether a `k:{…}` or `v:…` of a `fieldsV1` means this item.
fn names(key: &str, item: &Value) -> bool {
    if let Some(text) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(text).is_ok_and(|value| value == *item);
    }
    // A key field that the item lacks was defaulted by the API server.
    identity(key).is_some_and(|fields| {
        fields.iter().all(|(name, value)| item.get(name).is_none_or(|have| have == value))
    })
}

fn identity(key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(key.strip_prefix("k:")?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(applied: Value, ours: Value, sibling: Value, left: Option<Value>) {
        assert_eq!(without_taken(&applied, Some(&ours), &[sibling]), left);
    }

    #[test]
    fn a_field_that_a_sibling_took_is_left_out() {
        check(
            json!({"status": {"phase": "Ready", "claim": "a"}}),
            json!({"f:status": {"f:claim": {}}}),
            json!({"f:status": {"f:phase": {}}}),
            Some(json!({"status": {"claim": "a"}})),
        );
    }

    #[test]
    fn a_field_that_both_own_is_no_loss() {
        check(
            json!({"status": {"phase": "Ready"}}),
            json!({"f:status": {"f:phase": {}}}),
            json!({"f:status": {"f:phase": {}}}),
            None,
        );
    }

    #[test]
    fn a_field_that_a_stranger_took_stays_to_be_applied_again() {
        check(json!({"spec": {"size": 1}}), json!({}), json!({"f:status": {"f:phase": {}}}), None);
    }

    #[test]
    fn an_item_of_a_keyed_list_goes_with_all_that_a_sibling_took_of_it() {
        check(
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]}}),
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"Synced\"}": {".": {}, "f:type": {}, "f:status": {}}}}}),
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}}}}),
            Some(json!({"status": {"conditions": [{"type": "Synced", "status": "True"}]}})),
        );
    }

    #[test]
    fn an_item_that_is_still_partly_ours_keeps_its_key() {
        check(
            json!({"ports": [{"port": 80, "name": "web", "target": 8080}]}),
            json!({"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}, "f:name": {}}}}),
            json!({"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}, "f:target": {}}}}),
            Some(json!({"ports": [{"port": 80, "name": "web"}]})),
        );
    }
}
