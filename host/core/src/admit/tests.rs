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
