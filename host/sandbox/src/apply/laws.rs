//! Laws of server-side apply, on generated configurations of several managers.

use super::update::Applier;
use crate::apply::managers::Managers;
use crate::apply::set::FieldSet;
use crate::schema::Schema;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn schema() -> Schema {
    Schema::parse(&json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": {"type": "object", "properties": {
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {
                        "name": {"type": "string"},
                        "value": {"type": "integer"},
                        "inner": {"type": "object", "additionalProperties": {"type": "string"}},
                    }},
                },
                "atomic": {"type": "array", "items": {"type": "string"}},
            }},
        },
    }))
}

/// Some of a few keys, so that managers meet.
fn texts() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["a", "b", "c"], 0..=3)
}

fn map() -> impl Strategy<Value = Value> {
    texts().prop_flat_map(|keys| {
        let count = keys.len();
        prop::collection::vec("[xy]", count).prop_map(move |values| {
            Value::Object(
                keys.iter().zip(values).map(|(key, value)| ((*key).to_owned(), json!(value))).collect(),
            )
        })
    })
}

fn list() -> impl Strategy<Value = Value> {
    (texts(), prop::collection::vec((prop::option::of(0..2_i64), prop::option::of(map())), 3)).prop_map(
        |(names, rest)| {
            let items = names.iter().zip(rest).map(|(name, (value, inner))| {
                let mut item = json!({"name": name});
                if let Some(value) = value {
                    item["value"] = json!(value);
                }
                if let Some(inner) = inner {
                    item["inner"] = inner;
                }
                item
            });
            items.collect()
        },
    )
}

fn config() -> impl Strategy<Value = Value> {
    let parts = (
        prop::option::of(map()),
        prop::option::of(texts()),
        prop::option::of(list()),
        prop::option::of(texts()),
    );
    parts.prop_map(|(map, set, list, atomic)| {
        let mut spec = Map::new();
        spec.extend(map.map(|map| ("map".to_owned(), map)));
        spec.extend(set.map(|set| ("set".to_owned(), json!(set))));
        spec.extend(list.map(|list| ("list".to_owned(), list)));
        spec.extend(atomic.map(|atomic| ("atomic".to_owned(), json!(atomic))));
        json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "t"}, "spec": spec})
    })
}

fn apply(live: &Value, manager: &str, config: &Value, force: bool) -> Result<Value, crate::error::ApiError> {
    let schema = schema();
    let applier = Applier {
        schema: &schema,
        api_version: "v1",
        manager,
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        ignored: &FieldSet::default(),
        empty: &|| Value::Null,
    };
    applier.apply(live, config, force)
}

fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "T", "metadata": {"name": "t"}})
}

/// The object without nulls and emptied containers, which say nothing.
fn essence(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(key, _)| *key != "managedFields")
                .map(|(key, value)| (key.clone(), essence(value)))
                .filter(|(_, value)| !value.is_null() && *value != json!({}) && *value != json!([]))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(essence).collect(),
        other => other.clone(),
    }
}

/// Whether everything that `config` says is in `object`.
fn says(object: &Value, config: &Value) -> bool {
    match (object, config) {
        (Value::Object(object), Value::Object(config)) => config.iter().all(|(key, value)| {
            object.get(key).is_some_and(|found| says(found, value)) || essence(value) == json!({})
        }),
        (Value::Array(object), Value::Array(config)) if config.iter().any(Value::is_object) => config
            .iter()
            .all(|item| object.iter().any(|found| found["name"] == item["name"] && says(found, item))),
        (Value::Array(object), Value::Array(config)) => config.iter().all(|item| object.contains(item)),
        _ => object == config,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_is_applying_once(a in config(), b in config()) {
        let live = apply(&empty(), "one", &a, false).unwrap();
        let once = apply(&live, "two", &b, true).unwrap();
        let twice = apply(&once, "two", &b, false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_applied_is_there(a in config(), b in config()) {
        let live = apply(&empty(), "one", &a, false).unwrap();
        let live = apply(&live, "two", &b, true).unwrap();
        prop_assert!(says(&live, &b), "{} lacks some of {}", live, b);
    }

    #[test]
    fn a_manager_that_lets_everything_go_leaves_what_the_other_applied(a in config(), b in config()) {
        let live = apply(&empty(), "one", &a, false).unwrap();
        let live = apply(&live, "two", &b, true).unwrap();
        // One takes back what two took from it, then two goes.
        let live = apply(&live, "one", &a, true).unwrap();
        let left = apply(&live, "two", &empty(), true).unwrap();
        prop_assert_eq!(essence(&left), essence(&a));
        let names: Vec<String> = Managers::of(&left).unwrap().entries.into_keys().map(|id| id.manager).collect();
        prop_assert!(!names.contains(&"two".to_owned()));
    }

    #[test]
    fn without_force_nothing_that_another_set_changes(a in config(), b in config()) {
        let live = apply(&empty(), "one", &a, false).unwrap();
        if let Ok(after) = apply(&live, "two", &b, false) {
            prop_assert!(says(&after, &a), "{} lost some of {}", after, a);
        }
    }

    #[test]
    fn updates_take_over_what_they_change(a in config(), b in config()) {
        let live = apply(&empty(), "one", &a, false).unwrap();
        let schema = schema();
        let mut new = b.clone();
        let ignored = FieldSet::default();
        let updater = Applier {
            schema: &schema, api_version: "v1", manager: "user", subresource: "", now: "2026-01-01T00:00:00Z", ignored: &ignored,
        empty: &|| Value::Null,
        };
        updater.update(&live, &mut new);
        // Whoever applies what is there now meets nobody's resistance.
        prop_assert!(apply(&new, "one", &b, false).is_ok());
    }
}
