use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::memo::AnswerHash;
use crate::testing::{gvk, object, query};

/// Which of the keys, each with its queries, a change from one state to another wakes.
fn check(asked: &[(&str, &[&str])], old: &str, new: &str, woken: &[&str]) {
    let mut index = DependencyIndex::new();
    for (key, queries) in asked {
        let queries: Vec<_> = queries.iter().map(|text| query(text)).collect();
        index.record(*key, &queries);
    }
    let state = |text: &str| (!text.is_empty()).then(|| object(text));
    let change = Change::between(state(old), state(new)).expect("a change");
    assert_eq!(index.affected(&change), woken, "{old:?} -> {new:?}");
}

#[test]
fn an_object_that_was_absent_and_appears_wakes_who_asked_for_it() {
    check(
        &[("k", &["get Pod a/x"]), ("other", &["get Pod a/y", "get Pod b/x"])],
        "",
        "ns: a, name: x",
        &["k"],
    );
    check(&[("k", &["get Pod a/x"])], "ns: a, name: x", "", &["k"]);
}

#[test]
fn a_change_outside_the_view_wakes_nobody() {
    let asked: &[(&str, &[&str])] = &[("spec", &["get Pod a/x /spec"]), ("whole", &["get Pod a/x"])];
    let old = "ns: a, name: x, spec: {size: 1}, status: {phase: Pending}, rv: 1";
    check(asked, old, "ns: a, name: x, spec: {size: 1}, status: {phase: Running}, rv: 2", &["whole"]);
    check(asked, old, "ns: a, name: x, spec: {size: 2}, status: {phase: Pending}, rv: 2", &["spec", "whole"]);
    check(asked, old, "ns: a, name: x, spec: {size: 1}, status: {phase: Pending}, rv: 9", &[]);
}

#[test]
fn a_successor_of_the_same_name_is_another_object() {
    check(&[("k", &["get Pod a/x /spec"])], "ns: a, name: x, uid: u1", "ns: a, name: x, uid: u2", &["k"]);
}

#[test]
fn a_list_is_woken_by_what_enters_leaves_or_changes_in_view() {
    let asked: &[(&str, &[&str])] = &[("web", &["list Pod ns=a labels=app=web /spec"])];
    check(asked, "", "ns: a, name: x, labels: {app: web}", &["web"]);
    check(asked, "ns: a, name: x, labels: {app: web}", "ns: a, name: x, labels: {app: db}", &["web"]);
    check(asked, "ns: a, name: x, labels: {app: db}", "ns: a, name: x, labels: {app: web}", &["web"]);
    check(
        asked,
        "ns: a, name: x, labels: {app: web}, spec: {a: 1}",
        "ns: a, name: x, labels: {app: web}, spec: {a: 2}",
        &["web"],
    );
    check(
        asked,
        "ns: a, name: x, labels: {app: web}, note: 1",
        "ns: a, name: x, labels: {app: web}, note: 2",
        &[],
    );
    check(asked, "", "ns: b, name: x, labels: {app: web}", &[]);
}

#[test]
fn conditions_on_fields_and_owners_are_looked_up() {
    let asked: &[(&str, &[&str])] = &[
        ("n1", &["list Pod /spec/node=\"n1\""]),
        ("unplaced", &["list Pod /spec/node=null"]),
        ("u1", &["list Pod owner=u1"]),
    ];
    check(asked, "ns: a, name: x", "ns: a, name: x, spec: {node: n1}", &["n1", "unplaced"]);
    check(asked, "ns: a, name: x, spec: {node: n1}", "ns: a, name: x, spec: {node: n2}", &["n1"]);
    check(asked, "", "ns: a, name: x, spec: {node: n3}, owner: u1", &["u1"]);
}

#[test]
fn what_a_key_asked_before_its_last_pass_is_forgotten() {
    let mut index = DependencyIndex::new();
    index.record("k", &[query("get Pod a/x"), query("clock")]);
    index.record("k", &[query("get Pod a/y"), query("list Node")]);
    let appears = |text: &str| Change::between(None, Some(object(text))).expect("a change");
    assert_eq!(index.affected(&appears("ns: a, name: x")), Vec::<&str>::new());
    assert_eq!(index.affected(&appears("ns: a, name: y")), ["k"]);
    assert_eq!((index.keys_len(), index.queries_len()), (1, 2));
    index.forget(&"k");
    assert_eq!((index.keys_len(), index.queries_len(), index.kinds.len()), (0, 0, 0));
}

#[test]
fn a_kind_that_becomes_served_wakes_all_who_asked_about_it() {
    let mut index = DependencyIndex::new();
    index.record("get", &[query("get Pod a/x")]);
    index.record("list", &[query("list Pod owner=u")]);
    index.record("other", &[query("list Node"), query("clock")]);
    assert_eq!(index.affected_by_serving(&gvk("Pod")), ["get", "list"]);
    assert_eq!(index.queries_about(&gvk("Pod")).count(), 2);
}

#[test]
fn ten_thousand_keys_that_ask_by_a_value_cost_one_look_up() {
    let mut index = DependencyIndex::new();
    for key in 0..10_000 {
        index.record(
            key,
            &[query(&format!("list Pod /spec/node=\"n{key}\"")), query(&format!("get Pod a/p{key}"))],
        );
    }
    let change = Change::between(None, Some(object("ns: a, name: p7, spec: {node: n9}"))).expect("a change");
    let kind = index.kinds.get(&gvk("Pod")).expect("an index of the kind");
    assert_eq!(kind.candidates(&change).len(), 2);
    assert_eq!(index.affected(&change), [7, 9]);
}

// ---- against a checker that looks at everything ------------------------------------------------------------------

type World = BTreeMap<String, Arc<CachedObject>>;

/// The answer to a query over a whole world.
fn answer(query: &Prepared, world: &World) -> AnswerHash {
    let view = query.view().expect("a query of objects");
    let found = world.values().filter(|object| query.gvk() == Some(object.gvk()) && query.selects(object));
    AnswerHash::objects(found, view)
}

fn some_query() -> impl Strategy<Value = String> {
    let kind = prop_oneof![Just("Pod"), Just("Claim")];
    let place = prop_oneof![Just("a/x"), Just("a/y"), Just("b/x")];
    let view =
        prop_oneof![Just(""), Just(" /spec"), Just(" /spec/size /metadata/labels"), Just(" /status/a")];
    let get = (kind.clone(), place).prop_map(|(kind, place)| format!("get {kind} {place}"));
    let namespace = prop_oneof![Just(""), Just(" ns=a"), Just(" ns=b")];
    let labels =
        prop_oneof![Just(""), Just(" labels=app=web"), Just(" labels=app!=web"), Just(" labels=tier,app=db")];
    let owner = prop_oneof![3 => Just(""), 1 => Just(" owner=u1")];
    let field =
        prop_oneof![2 => Just(""), 1 => Just(" /spec/size=1"), 1 => Just(" /spec/node=null /spec/size=2")];
    let list = (kind, namespace, labels, owner, field).prop_map(|(kind, namespace, labels, owner, field)| {
        format!("list {kind}{namespace}{labels}{owner}{field}")
    });
    (prop_oneof![get, list], view).prop_map(|(query, view)| format!("{query}{view}"))
}

fn some_state() -> impl Strategy<Value = Option<String>> {
    let labels = prop_oneof![Just("{}"), Just("{app: web}"), Just("{app: db, tier: back}")];
    let owner = prop_oneof![Just(""), Just(", owner: u1"), Just(", owner: u2")];
    let spec = prop_oneof![Just("{}"), Just("{size: 1}"), Just("{size: 2}"), Just("{size: 1, node: n1}")];
    let state = (labels, owner, spec, 0..2_u8, 0..2_u8).prop_map(|(labels, owner, spec, status, uid)| {
        format!("uid: i{uid}, labels: {labels}{owner}, spec: {spec}, status: {{a: {status}}}")
    });
    proptest::option::weighted(0.8, state)
}

fn some_change() -> impl Strategy<Value = (String, Option<String>)> {
    let place = (
        prop_oneof![Just("Pod"), Just("Claim")],
        prop_oneof![Just("a"), Just("b")],
        prop_oneof![Just("x"), Just("y")],
    );
    let place =
        place.prop_map(|(kind, namespace, name)| format!("kind: {kind}, ns: {namespace}, name: {name}"));
    (place, some_state())
}

proptest! {
    #[test]
    fn a_change_wakes_just_the_keys_with_another_answer(
        asked in proptest::collection::vec((0..5_u8, proptest::collection::vec(some_query(), 0..4)), 1..8),
        changes in proptest::collection::vec(some_change(), 1..12),
    ) {
        let mut index = DependencyIndex::new();
        let mut learned: BTreeMap<u8, Vec<Arc<Prepared>>> = BTreeMap::new();
        for (key, queries) in asked {
            let queries: Vec<_> = queries.iter().map(|text| query(text)).collect();
            index.record(key, &queries);
            learned.insert(key, queries);
        }
        let mut world = World::new();
        for (place, state) in changes {
            let before = world.clone();
            let new = state.map(|state| object(&format!("{place}, {state}")));
            let old = match &new {
                Some(new) => world.insert(place.clone(), Arc::clone(new)),
                None => world.remove(&place),
            };
            let Some(change) = Change::between(old, new) else { continue };
            let expected: BTreeSet<u8> = learned
                .iter()
                .filter(|(_, queries)| queries.iter().any(|query| answer(query, &before) != answer(query, &world)))
                .map(|(key, _)| *key)
                .collect();
            let woken = index.affected(&change);
            prop_assert_eq!(woken.iter().copied().collect::<BTreeSet<_>>(), expected);
            prop_assert!(woken.is_sorted_by(|a, b| a < b));
        }
        for key in 0..5 {
            index.forget(&key);
        }
        prop_assert_eq!((index.queries_len(), index.kinds.len()), (0, 0));
    }
}
