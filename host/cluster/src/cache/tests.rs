use std::fmt::Write as _;

use expect_test::{Expect, expect};

use super::*;

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

/// `a/x u1 @5 colour=red owner=u9`: namespace/name, UID, revision, then a label, field `/data/colour`, or owner.
fn object(text: &str) -> Arc<CachedObject> {
    let mut words = text.split_whitespace();
    let (namespace, name) = words.next().and_then(|place| place.split_once('/')).expect("namespace/name");
    let uid = words.next().expect("a UID");
    let version = words.next().and_then(|version| version.strip_prefix('@')).expect("@revision");
    let mut object = serde_json::json!({
        "metadata": { "namespace": namespace, "name": name, "uid": uid, "resourceVersion": version, "labels": {} },
        "data": {},
    });
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        if key == "owner" {
            object["metadata"]["ownerReferences"] = serde_json::json!([
                { "apiVersion": "v1", "kind": "X", "name": "x", "uid": value, "controller": true }
            ]);
        } else {
            object["metadata"]["labels"][key] = value.into();
            object["data"][key] = value.into();
        }
    }
    Arc::new(CachedObject::parse(&gvk(), &object.to_string()).expect("an object"))
}

fn show(object: &CachedObject) -> String {
    let head = object.head();
    format!(
        "{}/{} {} @{}",
        head.namespace.as_deref().unwrap_or("-"),
        head.name,
        head.uid,
        head.resource_version
    )
}

fn tell(change: Change, out: &mut String) {
    let line = match (change.old, change.new) {
        (None, Some(new)) => format!("  + {}", show(&new)),
        (Some(old), Some(new)) => format!("  ~ {} to {}", show(&old), show(&new)),
        (Some(old), None) => format!("  - {}", show(&old)),
        (None, None) => "  nothing changed and yet it is told".to_owned(),
    };
    let _ = writeln!(out, "{line}");
}

/// Runs a script and shows what each line changed. `put`, `meta` and `gone` are single news; `list` lists at once;
/// `begin` and `end` have news come in between.
fn check(script: &str, expect: Expect) {
    let mut kind = KindCache::new(gvk());
    kind.cover(&Scope::All, Depth::Whole);
    let mut relist = None;
    let mut out = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "{line}");
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let changes: Vec<Change> = match verb {
            "put" => kind.put(object(rest), Depth::Whole).into_iter().collect(),
            "meta" => kind.put(object(rest), Depth::Metadata).into_iter().collect(),
            "gone" => {
                let object = object(&format!("{rest} @0"));
                kind.remove(&Place::of_head(&object), &object.head().uid).into_iter().collect()
            }
            "begin" => {
                relist = Some(kind.relist(&Scope::All, Depth::Whole));
                vec![]
            }
            "list" | "end" => {
                let mut parts = rest.split(", ");
                let at = parts.next().and_then(|at| at.strip_prefix('@')).and_then(revision);
                let mut relist = relist.take().unwrap_or_else(|| kind.relist(&Scope::All, Depth::Whole));
                let mut changes = kind.page(&mut relist, at, parts.map(object).collect());
                changes.extend(kind.listed(relist, at));
                changes
            }
            other => panic!("no such verb: {other}"),
        };
        for change in changes {
            tell(change, &mut out);
        }
    }
    let left: Vec<String> = kind.in_scope(None).map(|object| show(object)).collect();
    let _ = writeln!(out, "left: {}", left.join(", "));
    let bytes: usize = kind.objects.iter().map(|(_, entry)| weight(&entry.object)).sum();
    assert_eq!(kind.bytes, bytes, "bytes are counted right");
    expect.assert_eq(&out);
}

#[test]
fn an_older_event_never_overwrites_what_our_write_returned() {
    check(
        "put a/x u1 @5
         put a/x u1 @9
         put a/x u1 @7
         put a/x u1 @9",
        expect![[r#"
            put a/x u1 @5
              + a/x u1 @5
            put a/x u1 @9
              ~ a/x u1 @5 to a/x u1 @9
            put a/x u1 @7
            put a/x u1 @9
            left: a/x u1 @9
        "#]],
    );
}

#[test]
fn a_dead_uid_stays_dead_and_its_successor_lives() {
    check(
        "put a/x u1 @5
         gone a/x u1
         put a/x u1 @7
         put a/x u2 @8
         gone a/x u1
         put a/x u1 @6",
        expect![[r#"
            put a/x u1 @5
              + a/x u1 @5
            gone a/x u1
              - a/x u1 @5
            put a/x u1 @7
            put a/x u2 @8
              + a/x u2 @8
            gone a/x u1
            put a/x u1 @6
            left: a/x u2 @8
        "#]],
    );
}

#[test]
fn a_successor_whose_predecessors_end_nobody_told_buries_it() {
    check(
        "put a/x u1 @5
         put a/x u2 @8
         put a/x u1 @9",
        expect![[r#"
            put a/x u1 @5
              + a/x u1 @5
            put a/x u2 @8
              ~ a/x u1 @5 to a/x u2 @8
            put a/x u1 @9
            left: a/x u2 @8
        "#]],
    );
}

#[test]
fn a_relist_tells_what_changed_and_what_vanished_and_nothing_else() {
    check(
        "list @10, a/x u1 @5, a/y u2 @6, a/z u3 @7
         list @20, a/x u1 @5, a/y u2 @15",
        expect![[r#"
            list @10, a/x u1 @5, a/y u2 @6, a/z u3 @7
              + a/x u1 @5
              + a/y u2 @6
              + a/z u3 @7
            list @20, a/x u1 @5, a/y u2 @15
              ~ a/y u2 @6 to a/y u2 @15
              - a/z u3 @7
            left: a/x u1 @5, a/y u2 @15
        "#]],
    );
}

#[test]
fn what_we_wrote_while_a_list_was_under_way_stays() {
    check(
        "list @10, a/x u1 @5
         begin
         put a/new u2 @12
         put a/x u1 @13
         gone a/x u1
         end @11, a/x u1 @5",
        expect![[r#"
            list @10, a/x u1 @5
              + a/x u1 @5
            begin
            put a/new u2 @12
              + a/new u2 @12
            put a/x u1 @13
              ~ a/x u1 @5 to a/x u1 @13
            gone a/x u1
              - a/x u1 @13
            end @11, a/x u1 @5
            left: a/new u2 @12
        "#]],
    );
}

#[test]
fn a_server_that_starts_over_is_believed() {
    check(
        "list @100, a/x u1 @90, a/y u2 @95
         gone a/y u2
         list @10, a/x u1 @5, a/y u2 @6",
        expect![[r#"
            list @100, a/x u1 @90, a/y u2 @95
              + a/x u1 @90
              + a/y u2 @95
            gone a/y u2
              - a/y u2 @95
            list @10, a/x u1 @5, a/y u2 @6
              ~ a/x u1 @90 to a/x u1 @5
              + a/y u2 @6
            left: a/x u1 @5, a/y u2 @6
        "#]],
    );
}

#[test]
fn metadata_alone_never_takes_the_place_of_the_whole() {
    check(
        "meta a/x u1 @5
         put a/x u1 @5
         meta a/x u1 @9
         meta a/x u2 @11",
        expect![[r#"
            meta a/x u1 @5
              + a/x u1 @5
            put a/x u1 @5
            meta a/x u1 @9
            meta a/x u2 @11
              ~ a/x u1 @5 to a/x u2 @11
            left: a/x u2 @11
        "#]],
    );
}

fn query(text: &str) -> ListQuery {
    let mut query = ListQuery {
        gvk: gvk(),
        namespace: None,
        labels: String::new(),
        fields: vec![],
        controlled_by: None,
        view: vec![],
    };
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "in" => query.namespace = Some(value.into()),
            "labels" => query.labels = value.replace(':', "="),
            "owner" => query.controlled_by = Some(value.into()),
            pointer => query.fields.push(FieldMatch { pointer: pointer.into(), value: value.into() }),
        }
    }
    query
}

fn names(kind: &mut KindCache, text: &str) -> String {
    let query = query(text);
    let selector = Selector::parse(&query.labels).expect("a selector");
    for _ in 0..2 {
        match kind.list(&query, &selector, Depth::Whole) {
            Some(ListLookup::Found(found)) => {
                let names = found.iter().map(|object| show(object)).collect::<Vec<_>>();
                return names.join(", ");
            }
            Some(other) => return format!("{other:?}"),
            None => kind.index_for(&query),
        }
    }
    "asks for an index again and again".into()
}

#[test]
fn a_query_finds_by_namespace_label_field_and_owner_in_order() {
    let mut kind = KindCache::new(gvk());
    assert_eq!(names(&mut kind, ""), "NotSynced");
    kind.cover(&Scope::All, Depth::Whole);
    let relist = kind.relist(&Scope::All, Depth::Whole);
    kind.listed(relist, Some(1));
    for text in
        ["b/y u1 @1 colour=red", "a/z u2 @2 colour=red owner=u9", "a/x u3 @3 colour=blue", "b/a u4 @4"]
    {
        kind.put(object(text), Depth::Whole);
    }
    for (query, found) in [
        ("", "a/x u3 @3, a/z u2 @2, b/a u4 @4, b/y u1 @1"),
        ("in=b", "b/a u4 @4, b/y u1 @1"),
        ("in=c", ""),
        ("labels=colour:red", "a/z u2 @2, b/y u1 @1"),
        ("labels=!colour", "b/a u4 @4"),
        ("/data/colour=\"red\"", "a/z u2 @2, b/y u1 @1"),
        ("/data/colour=\"red\" in=b", "b/y u1 @1"),
        ("/data/colour=\"red\" /metadata/name=\"z\"", "a/z u2 @2"),
        ("/data/colour=\"green\"", ""),
        ("/metadata/namespace=\"a\" labels=colour:blue", "a/x u3 @3"),
        ("owner=u9", "a/z u2 @2"),
        ("owner=u8", ""),
    ] {
        assert_eq!(names(&mut kind, query), found, "{query}");
    }
    // Indexes follow changes and ends.
    kind.put(object("a/x u3 @5 colour=red"), Depth::Whole);
    kind.remove(&Place { namespace: Some("b".into()), name: "y".into() }, "u1");
    assert_eq!(names(&mut kind, "/data/colour=\"red\""), "a/x u3 @5, a/z u2 @2");
    assert_eq!(names(&mut kind, "/data/colour=\"blue\""), "");
}

#[test]
fn indexes_are_bounded_and_a_query_past_them_still_answers() {
    let mut kind = KindCache::new(gvk());
    kind.cover(&Scope::All, Depth::Whole);
    let relist = kind.relist(&Scope::All, Depth::Whole);
    kind.listed(relist, Some(1));
    kind.put(object("a/x u1 @2 f20=v"), Depth::Whole);
    for number in 0..=20 {
        let want = if number == 20 { "a/x u1 @2" } else { "" };
        assert_eq!(names(&mut kind, &format!("/data/f{number}=\"v\"")), want);
    }
    assert_eq!(kind.indexes.len(), limits::INDEXES_MAX);
}

#[test]
fn what_no_watch_covers_any_more_is_dropped() {
    let mut kind = KindCache::new(gvk());
    let a = Scope::Namespace("a".into());
    kind.cover(&a, Depth::Whole);
    kind.cover(&Scope::All, Depth::Metadata);
    kind.put(object("a/x u1 @1"), Depth::Whole);
    kind.put(object("b/x u2 @2"), Depth::Metadata);
    kind.uncover(&a, Depth::Whole);
    // What is left of it is metadata, which a newer one replaces.
    assert!(kind.put(object("a/x u1 @3"), Depth::Metadata).is_some());
    kind.uncover(&Scope::All, Depth::Metadata);
    assert_eq!(kind.stats(), KindStats { gvk: gvk(), objects: 0, bytes: 0 });
}

#[test]
fn a_kind_that_is_served_again_brings_the_same_objects_back() {
    let mut kind = KindCache::new(gvk());
    kind.cover(&Scope::All, Depth::Whole);
    kind.put(object("a/x u1 @1"), Depth::Whole);
    kind.cease().expect("it was served");
    assert!(kind.serve());
    let mut relist = kind.relist(&Scope::All, Depth::Whole);
    let changes = kind.page(&mut relist, Some(5), vec![object("a/x u1 @1")]);
    assert_eq!(changes.len(), 1);
    kind.listed(relist, Some(5));
    assert_eq!(kind.stats().objects, 1);
}

#[test]
fn a_kind_that_is_served_no_longer_takes_its_objects_along() {
    let mut kind = KindCache::new(gvk());
    kind.cover(&Scope::All, Depth::Whole);
    kind.put(object("a/x u1 @1"), Depth::Whole);
    let mut out = String::new();
    for change in kind.cease().expect("it was served") {
        tell(change, &mut out);
    }
    assert_eq!(out, "  - a/x u1 @1\n");
    assert!(kind.cease().is_none());
    assert!(matches!(kind.get(&Place { namespace: None, name: "x".into() }, Depth::Whole), Lookup::Unserved));
    assert!(kind.serve());
    assert!(matches!(
        kind.get(&Place { namespace: None, name: "x".into() }, Depth::Whole),
        Lookup::NotSynced
    ));
}
