//! The memo is sound and of use: two passes have one digest just where the plugin would be shown the same by both, as
//! far as the views go.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AnswerHash, Digest, Digester};
use crate::contract::Query;
use crate::object::CachedObject;
use crate::query::Prepared;
use crate::testing::{object, query, reference};
use crate::view::View;

/// Objects by place.
type World = BTreeMap<&'static str, Arc<CachedObject>>;

const PRIMARY: &str = "Pod a/x";
const PRIMARY_VIEW: &str = "/spec";
const PLACES: [&str; 4] = ["Claim a/x", "Pod a/x", "Pod a/y", "Pod b/x"];
const QUERIES: [&str; 8] = [
    "get Pod a/y",
    "get Pod a/y /spec/size",
    "get Claim a/x /metadata/labels /status",
    "list Pod",
    "list Pod ns=a labels=app=web /spec",
    "list Pod /spec/size=1 /status/a",
    "list Claim owner=u1 /metadata/name",
    "clock",
];

fn some_object() -> impl Strategy<Value = String> {
    let labels = prop_oneof![Just("{}"), Just("{app: web}")];
    let owner = prop_oneof![Just(""), Just(", owner: u1")];
    (labels, owner, 1..3_u8, 0..2_u8, 0..2_u8, 0..9_u8).prop_map(|(labels, owner, size, status, uid, rv)| {
        format!(
            "uid: i{uid}, labels: {labels}{owner}, spec: {{size: {size}}}, status: {{a: {status}}}, rv: {rv}"
        )
    })
}

fn some_world() -> impl Strategy<Value = World> {
    proptest::collection::vec(proptest::option::weighted(0.7, some_object()), PLACES.len()).prop_map(
        |states| {
            let placed = PLACES.into_iter().zip(states).filter_map(|(place, state)| Some((place, state?)));
            placed
                .map(|(place, state)| {
                    let (kind, rest) = place.split_once(' ').expect("a kind and a place");
                    let (namespace, name) = rest.split_once('/').expect("a namespace and a name");
                    (place, object(&format!("kind: {kind}, ns: {namespace}, name: {name}, {state}")))
                })
                .collect()
        },
    )
}

/// What a view shows of an object, and which one it is.
fn shown(object: &CachedObject, view: &View) -> Value {
    let head = object.head();
    let json: Value = serde_json::from_str(object.json()).expect("a JSON object");
    let parts = view.pointers().iter().map(|pointer| (pointer.as_str(), json.pointer(pointer.as_str())));
    let seen = if view.is_whole() { json.clone() } else { json!(parts.collect::<BTreeMap<_, _>>()) };
    json!([head.namespace, head.name, head.uid, seen])
}

/// What the plugin would be shown of a world, in the order of the queries; the time is left out.
fn naive(world: &World, queries: &[Arc<Prepared>]) -> Value {
    let primary_view = View::parse(&[PRIMARY_VIEW]).expect("a view");
    let answers = queries.iter().map(|query| {
        let selected = world.values().filter(|object| query.selects(object));
        let of_kind = selected.filter(|object| query.gvk() == Some(object.gvk()));
        let view = query.view().cloned().unwrap_or_else(View::whole);
        let shown: Vec<_> = of_kind.map(|object| shown(object, &view)).collect();
        json!([query.id().0, shown])
    });
    let mut answers: Vec<_> = answers.collect();
    answers.sort_by_key(Value::to_string);
    json!([world.get(PRIMARY).map(|primary| shown(primary, &primary_view)), answers])
}

fn digest(world: &World, queries: &[Arc<Prepared>]) -> Digest {
    let primary_view = View::parse(&[PRIMARY_VIEW]).expect("a view");
    let primary = AnswerHash::object(world.get(PRIMARY).map(|primary| &**primary), &primary_view);
    let answers = queries.iter().map(|query| {
        let view = query.view().cloned().unwrap_or_else(View::whole);
        let selected =
            world.values().filter(|object| query.gvk() == Some(object.gvk()) && query.selects(object));
        let hash = match query.query() {
            Query::Get(_) => AnswerHash::object(selected.map(|object| &**object).next(), &view),
            Query::List(_) => AnswerHash::objects(selected, &view),
            // Never the same twice.
            Query::Clock | Query::External(_) => AnswerHash::external(&Ok(format!("{world:?}").into())),
        };
        (&**query, hash)
    });
    Digester::new("sha256:1", "{}", "main").digest(&reference(PRIMARY), primary, answers)
}

proptest! {
    #[test]
    fn one_digest_means_one_sight_and_one_sight_one_digest(
        one in some_world(),
        // Mostly the same world but for one place, or the law would compare what never is alike.
        change in proptest::option::of((0..PLACES.len(), proptest::option::of(some_object()))),
        asked in proptest::sample::subsequence(QUERIES.to_vec(), 0..QUERIES.len()),
        asked_too in proptest::sample::subsequence(QUERIES.to_vec(), 0..QUERIES.len()),
        same_questions in proptest::bool::weighted(0.8),
    ) {
        let mut other = one.clone();
        if let Some((at, state)) = change {
            let place = PLACES[at];
            other.remove(place);
            let (kind, rest) = place.split_once(' ').expect("a kind and a place");
            let (namespace, name) = rest.split_once('/').expect("a namespace and a name");
            other.extend(state.map(|state| (place, object(&format!("kind: {kind}, ns: {namespace}, name: {name}, {state}")))));
        }
        let prepared = |texts: &[&str]| texts.iter().map(|text| query(text)).collect::<Vec<_>>();
        let first = prepared(&asked);
        let second = if same_questions { prepared(&asked) } else { prepared(&asked_too) };
        let timeless = |queries: &[Arc<Prepared>]| {
            queries.iter().filter(|query| *query.query() != Query::Clock).cloned().collect::<Vec<_>>()
        };
        let same_sight = naive(&one, &timeless(&first)) == naive(&other, &timeless(&second));
        prop_assert_eq!(digest(&one, &first) == digest(&other, &second), same_sight);
    }
}
