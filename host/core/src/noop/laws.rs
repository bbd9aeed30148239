//! Whatever was applied by whom: an apply is left out only where a small model of server-side apply says that it would
//! change neither the object nor what the manager owns, and always where it repeats the last one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{is_noop, owned_values};
use crate::tree::Tree;

/// The way to a leaf: members of maps, items of lists that are keyed by name.
type Path = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Member(&'static str),
    Item(&'static str),
}

type Leaves = BTreeMap<Path, Value>;

/// An object with forced applies of any number of managers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    leaves: Leaves,
    owned: BTreeMap<&'static str, BTreeSet<Path>>,
}

impl Model {
    fn apply(&mut self, manager: &'static str, applied: &Leaves) {
        let new: BTreeSet<Path> = applied.keys().cloned().collect();
        let before = self.owned.insert(manager, new.clone()).unwrap_or_default();
        for (path, value) in applied {
            if self.leaves.insert(path.clone(), value.clone()).is_some_and(|old| old != *value) {
                for (_, owned) in self.owned.iter_mut().filter(|(other, _)| **other != manager) {
                    owned.remove(path);
                }
            }
        }
        for path in before.difference(&new) {
            if !self.owned.values().any(|owned| owned.contains(path)) {
                self.leaves.remove(path);
            }
        }
    }

    fn object(&self) -> Value {
        tree(&self.leaves)
    }

    /// `fieldsV1` of a manager.
    fn fields(&self, manager: &str) -> Value {
        let mut fields = json!({});
        for path in self.owned.get(manager).into_iter().flatten() {
            let mut at = &mut fields;
            for step in path {
                let (key, item) = match step {
                    Step::Member(name) => (format!("f:{name}"), false),
                    Step::Item(name) => (format!("k:{}", json!({"name": name})), true),
                };
                let map = at.as_object_mut().expect("a node is a map");
                at = map.entry(key).or_insert_with(|| if item { json!({".": {}}) } else { json!({}) });
            }
        }
        fields
    }
}

/// Leaves as an object; the items of a list are in the order of their names.
fn tree(leaves: &Leaves) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}});
    for (path, value) in leaves {
        let mut at = &mut object;
        for step in path {
            at = match step {
                Step::Member(name) => {
                    if at.is_null() {
                        *at = json!({});
                    }
                    at.as_object_mut().expect("a map").entry(*name).or_insert(Value::Null)
                }
                Step::Item(name) => {
                    if at.is_null() {
                        *at = json!([]);
                    }
                    let items = at.as_array_mut().expect("a list");
                    let place = items.iter().position(|item| item["name"] == *name).unwrap_or(items.len());
                    if place == items.len() {
                        items.push(json!({"name": name}));
                    }
                    items.get_mut(place).expect("just looked for")
                }
            };
        }
        *at = value.clone();
    }
    object
}

fn paths() -> Vec<Path> {
    use Step::{Item, Member};
    let mut paths = vec![
        vec![Member("metadata"), Member("labels"), Member("a")],
        vec![Member("metadata"), Member("labels"), Member("b")],
        vec![Member("spec"), Member("x")],
        vec![Member("spec"), Member("deep"), Member("y")],
    ];
    for item in ["one", "two"] {
        for member in ["v", "w"] {
            paths.push(vec![Member("spec"), Member("items"), Item(item), Member(member)]);
        }
    }
    paths
}

/// What may be applied: some leaves, each with one of a few values; an item has its name too.
fn leaves() -> impl Strategy<Value = Leaves> {
    let value = prop_oneof![
        Just(json!(1)),
        Just(json!("text")),
        Just(json!(["atomic", 1])),
        Just(json!({"atomic": true})),
    ];
    proptest::collection::vec(proptest::option::weighted(0.4, value), 8).prop_map(|values| {
        let mut leaves = Leaves::new();
        for (path, value) in paths().into_iter().zip(values) {
            let Some(value) = value else { continue };
            if let [parent @ .., Step::Item(name), Step::Member(_)] = path.as_slice() {
                let name_of = [parent, &[Step::Item(name), Step::Member("name")]].concat();
                leaves.insert(name_of, json!(name));
            }
            leaves.insert(path, value);
        }
        leaves
    })
}

fn body(leaves: &Leaves) -> Map<String, Value> {
    match tree(leaves) {
        Value::Object(body) => body,
        _ => unreachable!("a tree is a map"),
    }
}

proptest! {
    #[test]
    fn an_apply_is_left_out_just_where_it_would_change_nothing(
        applies in proptest::collection::vec((prop_oneof![Just("ours"), Just("theirs")], leaves()), 0..6),
        last in leaves(),
        repeat in any::<bool>(),
    ) {
        let mut model = Model::default();
        for (manager, leaves) in &applies {
            model.apply(manager, leaves);
        }
        if repeat {
            model.apply("ours", &last);
        }
        let mut after = model.clone();
        after.owned.entry("ours").or_default();
        let before = after.clone();
        after.apply("ours", &last);
        let (object, fields) = (model.object().to_string(), model.fields("ours").to_string());
        let parsed = |text| Tree::parse(text).expect("JSON");
        let left_out = is_noop(&body(&last), &parsed(&object), &parsed(&fields));
        prop_assert_eq!(left_out, after == before, "{}", model.object());
        prop_assert!(!repeat || left_out, "applied twice, sent twice");
    }

    #[test]
    fn what_others_own_is_none_of_our_values(ours in leaves(), theirs in leaves()) {
        let mut model = Model::default();
        model.apply("ours", &ours);
        let before = owned_values(&model.object(), &model.fields("ours"));
        let theirs: Leaves = theirs.into_iter().filter(|(path, _)| !ours.contains_key(path)).collect();
        model.apply("theirs", &theirs);
        prop_assert_eq!(before, owned_values(&model.object(), &model.fields("ours")));
    }
}
