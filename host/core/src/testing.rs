//! Objects, queries and kinds from compact text, for the tests of this crate.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::contract::{FieldMatch, GetQuery, Gvk, ListQuery, ObjectRef, Query};
use crate::object::CachedObject;
use crate::query::Prepared;

/// `Pod`, or `Widget.example.org`; the version is always `v1`.
pub(crate) fn gvk(text: &str) -> Gvk {
    let (kind, group) = text.split_once('.').unwrap_or((text, ""));
    Gvk::new(group, "v1", kind)
}

/// `Pod ns/name` or `Node name`.
pub(crate) fn reference(text: &str) -> ObjectRef {
    let (kind, place) = text.split_once(' ').expect("a kind and a place");
    match place.split_once('/') {
        Some((namespace, name)) => ObjectRef::new(gvk(kind), Some(namespace), name),
        None => ObjectRef::new(gvk(kind), None, place),
    }
}

/// A flow map: `kind: Pod, ns: a, name: x, uid: u, owner: u1, labels: {..}, rv: 5`, anything else as it is.
pub(crate) fn object(text: &str) -> Arc<CachedObject> {
    let Value::Object(fields) = flow(&format!("{{{text}}}")) else { panic!("a map") };
    let mut metadata = Map::new();
    let mut rest = Map::new();
    let mut kind = gvk("Pod");
    for (key, value) in fields {
        match key.as_str() {
            "kind" => kind = gvk(value.as_str().expect("a kind")),
            "ns" => drop(metadata.insert("namespace".into(), value)),
            "owner" => {
                let owner = json!([{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": value, "controller": true}]);
                metadata.insert("ownerReferences".into(), owner);
            }
            "rv" => drop(metadata.insert("resourceVersion".into(), Value::from(value.to_string()))),
            "deleting" => {
                drop(metadata.insert("deletionTimestamp".into(), Value::from("2026-01-01T00:00:00Z")))
            }
            "name" | "uid" | "labels" | "finalizers" | "annotations" | "generation" | "managedFields" => {
                metadata.insert(key, value);
            }
            _ => drop(rest.insert(key, value)),
        }
    }
    rest.insert("metadata".into(), Value::Object(metadata));
    Arc::new(CachedObject::parse(&kind, &Value::Object(rest).to_string()).expect("an object"))
}

/// `get Pod ns/name /view`, `list Pod ns=a labels=a=b,c owner=uid /spec/x=1 /view`, `clock`.
pub(crate) fn query(text: &str) -> Arc<Prepared> {
    let mut words = text.split(' ');
    let query = match words.next().expect("a word") {
        "get" => {
            let (kind, place) = (words.next().expect("a kind"), words.next().expect("a place"));
            let object = reference(&format!("{kind} {place}"));
            Query::Get(GetQuery { object, view: words.map(Into::into).collect() })
        }
        "list" => Query::List(list(words)),
        "clock" => Query::Clock,
        other => panic!("no query: {other}"),
    };
    Arc::new(Prepared::new(query).expect("a valid query"))
}

fn list<'t>(mut words: impl Iterator<Item = &'t str>) -> ListQuery {
    let gvk = gvk(words.next().expect("a kind"));
    let mut list = ListQuery {
        gvk,
        namespace: None,
        labels: String::new(),
        fields: vec![],
        controlled_by: None,
        view: vec![],
    };
    for word in words {
        match word.split_once('=') {
            Some(("ns", value)) => list.namespace = Some(value.into()),
            Some(("labels", value)) => list.labels = value.into(),
            Some(("owner", value)) => list.controlled_by = Some(value.into()),
            Some((pointer, value)) => {
                list.fields.push(FieldMatch { pointer: pointer.into(), value: value.into() });
            }
            None => list.view.push(word.into()),
        }
    }
    list
}

/// A small part of YAML's flow style: plain words are strings unless they read as JSON.
pub(crate) fn flow(text: &str) -> Value {
    let mut rest = text.trim();
    let value = flow_value(&mut rest);
    assert!(rest.trim().is_empty(), "left over: {rest:?}");
    value
}

fn flow_value(rest: &mut &str) -> Value {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('{') {
        *rest = inner;
        let mut map = Map::new();
        loop {
            *rest = rest.trim_start_matches([' ', ',', '\n']);
            if let Some(after) = rest.strip_prefix('}') {
                *rest = after;
                return Value::Object(map);
            }
            let key = match flow_scalar(rest, &[':']) {
                Value::String(key) => key,
                other => other.to_string(),
            };
            *rest = rest.trim_start().strip_prefix(':').expect("a colon");
            map.insert(key, flow_value(rest));
        }
    }
    if let Some(inner) = rest.strip_prefix('[') {
        *rest = inner;
        let mut list = Vec::new();
        loop {
            *rest = rest.trim_start_matches([' ', ',', '\n']);
            if let Some(after) = rest.strip_prefix(']') {
                *rest = after;
                return Value::Array(list);
            }
            list.push(flow_value(rest));
        }
    }
    flow_scalar(rest, &[])
}

fn flow_scalar(rest: &mut &str, also: &[char]) -> Value {
    *rest = rest.trim_start();
    if rest.starts_with('"') {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = stream.next().expect("a string").expect("a JSON string");
        *rest = rest.get(stream.byte_offset()..).unwrap_or_default();
        return value;
    }
    let end = rest.find(|c: char| ",]}\n".contains(c) || also.contains(&c)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    let word = word.trim();
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}
