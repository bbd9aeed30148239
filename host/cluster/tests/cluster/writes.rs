use evenkeel_core::admit::Write;
use evenkeel_core::contract::{ObjectRef, Propagation};
use evenkeel_sandbox::{Effect, Fault};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::world::{World, config_map, gvk, show};

const MANAGER: &str = "evenkeel/kite/user";

fn apply(place: &str, data: serde_json::Value, force: bool) -> Write {
    let object = config_map(place);
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": &*object.name, "namespace": object.namespace.as_deref() }, "data": data,
    });
    Write::Apply { object, body: body.to_string().into(), manager: MANAGER.into(), force, subresource: None }
}

fn delete(place: &str) -> Write {
    delete_as(place, None)
}

fn delete_as(place: &str, uid: Option<&str>) -> Write {
    Write::Delete {
        object: config_map(place),
        uid: uid.map(str::to_owned),
        resource_version: None,
        propagation: Propagation::Background,
    }
}

fn patch(place: &str, body: serde_json::Value) -> Write {
    let body = body.to_string().into();
    Write::Patch { object: config_map(place), body, manager: MANAGER.into(), subresource: None }
}

/// What came of a write, and what the cache says at once.
async fn check(world: &World, write: &Write, place: &str, expect: Expect) {
    let outcome = match world.cluster.write(write).await {
        Ok(Some(object)) => show(&object),
        Ok(None) => "gone".to_owned(),
        Err(error) => {
            let wait = error.failure.retry_after.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
            format!("{:?}{wait}: {}", error.failure.kind, error.failure.message)
        }
    };
    expect.assert_eq(&format!("{outcome}; cache: {}", world.get(place)));
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_at_once_and_told_once() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    let write = apply("default/x", json!({"a": "1"}), false);
    check(&world, &write, "default/x", expect!["default/x a=1; cache: default/x a=1"]).await;
    let write = apply("default/x", json!({"a": "2"}), false);
    check(&world, &write, "default/x", expect!["default/x a=2; cache: default/x a=2"]).await;
    check(&world, &delete("default/x"), "default/x", expect!["gone; cache: absent"]).await;
    check(&world, &delete("default/x"), "default/x", expect!["gone; cache: absent"]).await;
    let write = apply("default/x", json!({"a": "3"}), false);
    check(&world, &write, "default/x", expect!["default/x a=3; cache: default/x a=3"]).await;
    // The watch brings all of it again, late.
    expect![[r#"
        + ConfigMap default/x a=1
        ~ ConfigMap default/x a=2
        - ConfigMap default/x a=2
        + ConfigMap default/x a=3
    "#]]
    .assert_eq(&world.settle().await);
    assert_eq!(world.get("default/x"), "default/x a=3");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_names_both_managers_and_the_fields_and_force_takes_over() {
    let mut world = World::new();
    world.config_map("default/x a=1 b=1").await;
    world.watch("ConfigMap").await;
    let write = apply("default/x", json!({"a": "2", "b": "2"}), false);
    check(
        &world,
        &write,
        "default/x",
        expect!["Conflict: cannot apply ConfigMap default/x: evenkeel/kite/user is in conflict with another field manager: user owns .data.a, .data.b; cache: default/x a=1 b=1"],
    )
    .await;
    let write = apply("default/x", json!({"a": "2", "b": "2"}), true);
    check(&world, &write, "default/x", expect!["default/x a=2 b=2; cache: default/x a=2 b=2"]).await;
}

#[tokio::test(start_paused = true)]
async fn creating_what_exists_is_a_conflict_and_the_cache_knows_it_then() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    world.freeze();
    world.config_map("default/x a=1").await;
    assert_eq!(world.get("default/x"), "absent");
    let Write::Apply { object, body, manager, .. } = apply("default/x", json!({"a": "2"}), false) else {
        return;
    };
    let write = Write::Create { object, body, manager };
    check(
        &world,
        &write,
        "default/x",
        expect![[r#"Conflict: cannot create ConfigMap default/x: configmaps "x" already exists (409); cache: default/x a=1"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_means_the_object_that_was_seen() {
    let mut world = World::new();
    world.config_map("default/x a=1").await;
    world.watch("ConfigMap").await;
    check(
        &world,
        &delete_as("default/x", Some("another")),
        "default/x",
        expect![[r#"Conflict: cannot delete ConfigMap default/x: Operation cannot be fulfilled on ConfigMap "x": the UID in the precondition (another) does not match the UID in record (d47037a5-212c-442a-8139-a4bfa9d3533e). The object might have been deleted and then recreated (409); cache: default/x a=1"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_ends_when_that_goes() {
    let mut world = World::new();
    world.config_map("default/x a=1").await;
    world.watch("ConfigMap").await;
    let add = patch("default/x", json!({"metadata": {"finalizers": ["evenkeel.dev/x"]}}));
    check(&world, &add, "default/x", expect!["default/x a=1; cache: default/x a=1"]).await;
    check(
        &world,
        &delete("default/x"),
        "default/x",
        expect!["default/x a=1 (deleting); cache: default/x a=1 (deleting)"],
    )
    .await;
    let remove = patch("default/x", json!({"metadata": {"finalizers": null}}));
    check(&world, &remove, "default/x", expect!["gone; cache: absent"]).await;
    let told = world.settle().await;
    assert!(told.ends_with("- ConfigMap default/x a=1 (deleting)\n"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_patch_on_a_stale_revision_is_a_conflict() {
    let mut world = World::new();
    world.config_map("default/x a=1").await;
    world.watch("ConfigMap").await;
    let write = patch("default/x", json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}}));
    check(
        &world,
        &write,
        "default/x",
        expect![[r#"Conflict: cannot patch ConfigMap default/x: Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply your changes to the latest version and try again (409); cache: default/x a=1"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_cannot_succeed_say_why() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    let write = apply("nowhere/x", json!({}), false);
    check(
        &world,
        &write,
        "nowhere/x",
        expect![[r#"NotFound: cannot apply ConfigMap nowhere/x: namespaces "nowhere" not found (404); cache: absent"#]],
    )
    .await;
    let object = ObjectRef::new(gvk("Nothing.example.com"), None, "x");
    let write = Write::Apply {
        object,
        body: "{}".into(),
        manager: MANAGER.into(),
        force: false,
        subresource: Some("status"),
    };
    check(
        &world,
        &write,
        "default/x",
        expect!["NotFound: cannot apply status of Nothing x: the API server does not serve Nothing.example.com v1; cache: absent"],
    )
    .await;
    let write = apply("default/x", json!({"not a key": "1"}), false);
    let error = world.cluster.write(&write).await.expect_err("it is not valid");
    assert_eq!((error.code, error.reason.as_str()), (Some(422), "Invalid"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_transient_and_the_watch_brings_it() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    world.sandbox.fail_next(Fault {
        verb: Some("apply".into()),
        code: 504,
        reason: "Timeout".into(),
        message: "it took too long".into(),
        retry_after: Some(2),
        times: 1,
        effect: Effect::Written,
        ..Fault::default()
    });
    let write = apply("default/x", json!({"a": "1"}), false);
    check(
        &world,
        &write,
        "default/x",
        expect![
            "Transient after 2000 ms: cannot apply ConfigMap default/x: it took too long (504); cache: absent"
        ],
    )
    .await;
    assert_eq!(world.settle().await, "+ ConfigMap default/x a=1\n");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watches_is_written_but_not_kept() {
    let world = World::new();
    let write = apply("default/x", json!({"a": "1"}), false);
    check(&world, &write, "default/x", expect!["default/x a=1; cache: not synced"]).await;
    assert!(world.cluster.stats().kinds.iter().all(|kind| kind.objects == 0));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_is_still_there() {
    let mut world = World::new();
    world.namespace("a").await;
    world.config_map("a/x v=1").await;
    world
        .user("PATCH /api/v1/namespaces/a/configmaps/x", json!({"metadata": {"finalizers": ["a.b/c"]}}))
        .await;
    world.watch("Namespace").await;
    let object = ObjectRef::new(gvk("Namespace"), None, "a");
    let write =
        Write::Delete { object, uid: None, resource_version: None, propagation: Propagation::Background };
    let answer = world.cluster.write(&write).await.expect("it is done");
    assert_eq!(answer.map(|object| show(&object)).as_deref(), Some("a (deleting)"));
    let write = apply("a/y", json!({}), false);
    let error = world.cluster.write(&write).await.expect_err("nothing new may come");
    assert_eq!(error.failure.kind, evenkeel_core::contract::FailureKind::Transient);
}
