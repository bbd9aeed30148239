use expect_test::{Expect, expect};

use super::*;
use crate::contract::{Deletion, Finalizer, Gvk, Patch};

const MANAGER: &str = "evenkeel/demo/main";

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn reference() -> ObjectRef {
    ObjectRef::new(gvk(), Some("ns"), "a")
}

fn cached(raw: Value) -> CachedObject {
    CachedObject::parse(&gvk(), &raw.to_string()).expect("an object")
}

fn there(data: Value, owned: Value) -> CachedObject {
    cached(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "finalizers": ["x/other"],
            "managedFields": [{"manager": MANAGER, "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": owned}]},
        "data": data,
    }))
}

fn apply(data: Value) -> Action {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}, "data": data});
    Action::Apply(Apply { object: object.to_string().into(), force: false, controlled: false })
}

fn judge(action: &Action, seen: Option<&CachedObject>, answered: &Answered) -> Verdict {
    let target = ActionTarget::of(action).expect("a sound action");
    admit(&target, &Circumstances { manager: MANAGER, primary: None, seen, answered })
}

fn check(action: &Action, seen: Option<&CachedObject>, expected: Expect) {
    expected.assert_eq(&format!("{:?}", judge(action, seen, &Answered::default())));
}

#[test]
fn an_apply_of_what_is_there_and_owned_is_left_out() {
    let seen = there(json!({"k": "v"}), json!({"f:data": {"f:k": {}}}));
    check(&apply(json!({"k": "v"})), Some(&seen), expect!["Skip(AlreadySo)"]);
}

#[test]
fn an_apply_on_a_seen_object_carries_its_uid() {
    let seen = there(json!({"k": "old"}), json!({"f:data": {"f:k": {}}}));
    let Verdict::Send(Write::Apply { body, .. }) =
        judge(&apply(json!({"k": "v"})), Some(&seen), &Answered::default())
    else {
        panic!("it is sent")
    };
    assert!(body.contains(r#""uid":"u1""#), "{body}");
}

#[test]
fn a_delete_carries_what_was_seen_and_a_successor_is_spared() {
    let seen = there(json!({}), json!({}));
    let delete = |uid: Option<&str>| {
        Action::Delete(Deletion {
            object: reference(),
            uid: uid.map(Into::into),
            propagation: Propagation::Background,
        })
    };
    let Verdict::Send(Write::Delete { uid, resource_version, .. }) =
        judge(&delete(None), Some(&seen), &Answered::default())
    else {
        panic!("it is sent")
    };
    assert_eq!((uid.as_deref(), resource_version.as_deref()), (Some("u1"), Some("7")));
    check(&delete(Some("u0")), Some(&seen), expect!["Skip(AlreadyGone)"]);
    check(&delete(Some("u1")), None, expect!["Skip(AlreadyGone)"]);
}

#[test]
fn a_finalizer_comes_and_goes_beside_those_of_others() {
    let seen = there(json!({}), json!({}));
    let name = |name: &str| Finalizer { object: reference(), name: name.into() };
    let sent = |action: &Action| match judge(action, Some(&seen), &Answered::default()) {
        Verdict::Send(Write::Patch { body, .. }) => body.to_string(),
        other => format!("{other:?}"),
    };
    expect![[r#"{"metadata":{"finalizers":["x/other","x/ours"],"resourceVersion":"7","uid":"u1"}}"#]]
        .assert_eq(&sent(&Action::AddFinalizer(name("x/ours"))));
    expect![[r#"{"metadata":{"finalizers":[],"resourceVersion":"7","uid":"u1"}}"#]]
        .assert_eq(&sent(&Action::RemoveFinalizer(name("x/other"))));
    check(&Action::AddFinalizer(name("x/other")), Some(&seen), expect!["Skip(AlreadySo)"]);
    check(&Action::RemoveFinalizer(name("x/ours")), Some(&seen), expect!["Skip(AlreadySo)"]);
}

#[test]
fn a_patch_is_guarded_and_left_out_where_it_changes_nothing() {
    let seen = there(json!({"k": "v"}), json!({}));
    let patch = |merge: Value| Action::Patch(Patch { object: reference(), merge: merge.to_string().into() });
    check(&patch(json!({"data": {"k": "v", "gone": null}})), Some(&seen), expect!["Skip(AlreadySo)"]);
    let verdict = judge(&patch(json!({"data": {"k": null}})), Some(&seen), &Answered::default());
    assert!(
        matches!(verdict, Verdict::Send(Write::Patch { ref body, .. }) if body.contains("\"resourceVersion\":\"7\""))
    );
}

#[test]
fn what_the_server_normalised_is_known_the_next_time() {
    let action = apply(json!({"cpu": "1000m"}));
    let mut answered = Answered::default();
    let Verdict::Send(write) = judge(&action, None, &answered) else { panic!("it is sent") };
    let answer = there(json!({"cpu": "1"}), json!({"f:data": {"f:cpu": {}}}));
    assert!(matches!(judge(&action, Some(&answer), &answered), Verdict::Send(_)));
    answered.note(&write, &answer);
    assert_eq!(judge(&action, Some(&answer), &answered), Verdict::Skip(SkipReason::AlreadySo));
    let edited = there(json!({"cpu": "2"}), json!({"f:data": {"f:cpu": {}}}));
    assert!(matches!(judge(&action, Some(&edited), &answered), Verdict::Send(_)));
}

#[test]
fn a_controlled_object_names_its_owner() {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    let action = Action::Create(Apply { object: object.to_string().into(), force: false, controlled: true });
    let target = ActionTarget::of(&action).expect("a sound action");
    let owner = there(json!({}), json!({}));
    let circumstances =
        Circumstances { manager: MANAGER, primary: Some(&owner), seen: None, answered: &Answered::default() };
    let Verdict::Send(Write::Create { body, .. }) = admit(&target, &circumstances) else {
        panic!("it is sent")
    };
    assert!(body.contains(r#""controller":true"#) && body.contains(r#""uid":"u1""#), "{body}");
}

#[test]
fn the_owner_is_added_to_the_owners_given() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "ns",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u9"}]}});
    let action = Action::Apply(Apply { object: object.to_string().into(), force: false, controlled: true });
    let target = ActionTarget::of(&action).expect("a sound action");
    let owner = there(json!({}), json!({}));
    let foreign = cached(json!({"metadata": {"name": "b", "namespace": "ns", "uid": "u2",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u9", "controller": true}]}}));
    let answered = Answered::default();
    let with = |primary, seen| {
        let circumstances = Circumstances { manager: MANAGER, primary, seen, answered: &answered };
        match admit(&target, &circumstances) {
            Verdict::Send(Write::Apply { body, .. }) => body.to_string(),
            Verdict::Fail(failure) => format!("{:?}: {}", failure.kind, failure.message),
            other => format!("{other:?}"),
        }
    };
    expect![[r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"ns","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u9"},{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"ConfigMap","name":"a","uid":"u1"}]}}"#]].assert_eq(&with(Some(&owner), None));
    expect!["Conflict: ConfigMap ns/b is controlled by another owner"]
        .assert_eq(&with(Some(&owner), Some(&foreign)));
    expect!["Invalid: a primary that is gone cannot own an object"].assert_eq(&with(None, None));
}

#[test]
fn a_patch_of_the_status_alone_goes_to_the_status() {
    let seen = there(json!({}), json!({}));
    let path = |merge: Value| {
        let action = Action::Patch(Patch { object: reference(), merge: merge.to_string().into() });
        match judge(&action, Some(&seen), &Answered::default()) {
            Verdict::Send(Write::Patch { subresource, .. }) => subresource,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(path(json!({"status": {"a": 1}})), Some("status"));
    assert_eq!(path(json!({"status": {"a": 1}, "data": {"b": "2"}})), None);
}

#[test]
fn an_apply_of_nothing_or_of_what_the_server_drops_is_not_sent_for_ever() {
    let nothing =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
    let action = Action::Apply(Apply { object: nothing.to_string().into(), force: false, controlled: false });
    let bare = cached(json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u1"}}));
    check(&action, Some(&bare), expect!["Skip(AlreadySo)"]);

    let dropped = apply(json!({"k": "v"}));
    let mut answered = Answered::default();
    let Verdict::Send(write) = judge(&dropped, Some(&bare), &answered) else { panic!("it is sent") };
    answered.note(&write, &bare);
    assert_eq!(judge(&dropped, Some(&bare), &answered), Verdict::Skip(SkipReason::AlreadySo));
}

#[test]
fn what_cannot_be_done_to_an_object_that_is_not_there_says_so() {
    let finalizer = Finalizer { object: reference(), name: "x/y".into() };
    check(
        &Action::AddFinalizer(finalizer.clone()),
        None,
        expect![[
            r#"Fail(Failure { kind: NotFound, message: "there is no ConfigMap ns/a", retry_after: None })"#
        ]],
    );
    check(
        &Action::Patch(Patch { object: reference(), merge: r#"{"data":{}}"#.into() }),
        None,
        expect![[
            r#"Fail(Failure { kind: NotFound, message: "there is no ConfigMap ns/a", retry_after: None })"#
        ]],
    );
    check(&Action::RemoveFinalizer(finalizer), None, expect!["Skip(AlreadyGone)"]);
}
