//! What reaches the API server: preconditions, server-side apply, no-op suppression, read your own writes.

use evenkeel_core::admit::SkipReason;
use evenkeel_core::contract::{Failure, FailureKind};
use evenkeel_core::record::DeedOutcome;
use serde_json::{Value, json};

use crate::support::*;

fn target(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "target"}, "data": data})
}

/// Applies ConfigMap `target` with the data that the Widget's spec says.
fn applier() -> Native {
    Native::new("demo")
        .controller("apply", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let object = target(primary["spec"]["data"].clone());
            done(vec![if primary["spec"]["force"] == true { apply_forced(object) } else { apply(object) }])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

fn widget_with(spec: Value) -> Value {
    let mut object = widget("w");
    object["spec"] = spec;
    object
}

#[tokio::test(start_paused = true)]
async fn writes_are_server_side_apply_under_the_controllers_own_field_manager() {
    let world = World::with(applier().build()).await;
    world.apply(widget_with(json!({"data": {"k": "1"}}))).await;
    world.settle().await;
    let object = world.raw(&config_map("target")).await.expect("the target");
    let managers: Vec<_> = object["metadata"]["managedFields"]
        .as_array()
        .expect("managed fields")
        .iter()
        .map(|entry| (entry["manager"].clone(), entry["operation"].clone()))
        .collect();
    assert_eq!(managers, [(json!("evenkeel/demo/apply"), json!("Apply"))]);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_no_longer_applied_is_given_up() {
    let world = World::with(applier().build()).await;
    world.apply(widget_with(json!({"data": {"k": "1", "gone": "soon"}}))).await;
    world.settle().await;
    world.apply(widget_with(json!({"data": {"k": "1"}}))).await;
    world.settle().await;
    assert_eq!(world.object(&config_map("target")).await.expect("the target")["data"], json!({"k": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_without_force_fails_the_pass_and_names_both_managers_and_the_fields() {
    let world = World::with(applier().build()).await;
    world.apply(target(json!({"k": "theirs"}))).await;
    world.apply(widget_with(json!({"data": {"k": "ours"}}))).await;
    world.settle().await;
    let failure = world.last_failure("apply", "w").expect("a failed pass");
    assert_eq!(failure.kind, FailureKind::Conflict);
    for part in ["evenkeel/demo/apply", "user owns", ".data.k"] {
        assert!(failure.message.contains(part), "{part} in {}", failure.message);
    }
    assert_eq!(
        world.object(&config_map("target")).await.expect("the target")["data"],
        json!({"k": "theirs"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_force_takes_the_fields_over() {
    let world = World::with(applier().build()).await;
    world.apply(target(json!({"k": "theirs"}))).await;
    world.apply(widget_with(json!({"force": true, "data": {"k": "ours"}}))).await;
    world.settle().await;
    assert_eq!(world.object(&config_map("target")).await.expect("the target")["data"], json!({"k": "ours"}));
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_would_change_nothing_is_not_sent() {
    let plugin = applier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget_with(json!({"data": {"k": "1"}}))).await;
    world.settle().await;
    world.writes();
    let before = plugin.calls();
    world.merge(&widget_ref("w"), json!({"metadata": {"labels": {"irrelevant": "yes"}}})).await;
    world.settle().await;
    assert!(plugin.calls() > before, "the primary changed");
    assert_eq!(world.writes(), [""; 0]);
    assert!(world.controller("apply").skipped > 0);
}

#[tokio::test(start_paused = true)]
async fn an_equal_object_of_another_manager_is_applied_once_to_own_its_fields() {
    let world = World::with(applier().build()).await;
    world.apply(target(json!({"k": "1"}))).await;
    world.apply(widget_with(json!({"data": {"k": "1"}}))).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_exists_is_not_created_over() {
    let plugin = Native::new("demo")
        .controller("create", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            done(vec![create(target(json!({"k": "ours"})))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(target(json!({"k": "theirs"}))).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.last_failure("create", "w").expect("a failure").kind, FailureKind::Conflict);
    assert_eq!(
        world.object(&config_map("target")).await.expect("the target")["data"],
        json!({"k": "theirs"})
    );
}

/// Two steps in one pass: apply `first`, then ask for it.
fn reader() -> Native {
    Native::new("demo")
        .controller("read", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if call.0.performed.is_empty() {
                let object = target(json!({"k": primary["spec"]["value"]}));
                return Err(Stop::Perform(vec![apply_forced(object)]));
            }
            let read = call.get(&config_map("target"))?.expect("our own write");
            done(vec![apply_status(status_of(&primary, json!({"read": read["data"]["k"]})))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_pass_never_sees_a_world_older_than_what_it_did_itself() {
    let world = World::with(reader().build()).await;
    world.apply(widget_with(json!({"value": "1"}))).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"read": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_pass_does_not_see_any_more_what_it_deleted_itself() {
    let plugin = Native::new("demo")
        .controller("delete", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if primary["spec"]["delete"] != true {
                return done(vec![]);
            }
            if call.0.performed.is_empty() {
                return Err(Stop::Perform(vec![delete(&config_map("target"))]));
            }
            let left = call.get(&config_map("target"))?.is_some();
            done(vec![apply_status(status_of(&primary, json!({"left": left})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(target(json!({"k": "1"}))).await;
    world.apply(widget_with(json!({"delete": true}))).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"left": false}));
    assert_eq!(world.writes(), ["delete ConfigMap a/target", "apply-status Widget a/w"], "once, and right");
}

#[tokio::test(start_paused = true)]
async fn the_next_pass_reads_the_writes_of_this_one_even_before_the_watch_tells_of_them() {
    let plugin = Native::new("demo")
        .controller("once", widget_kind(), |call| {
            if call.primary().is_none() || call.get(&config_map("target"))?.is_some() {
                return done(vec![]);
            }
            done(vec![create(target(json!({"k": "1"})))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.settle().await;
    world.cut_watches();
    world.apply(widget("w")).await;
    world.advance(60).await;
    assert_eq!(world.writes(), ["create ConfigMap a/target"], "never tried twice");
    assert_eq!(world.last_failure("once", "w"), None);
}

#[tokio::test(start_paused = true)]
async fn a_delete_carries_the_uid_that_the_plugin_saw() {
    let plugin = Native::new("demo")
        .controller("delete", widget_kind(), |call| {
            if call.primary().is_none_or(|primary| primary["spec"]["delete"] != true) {
                return done(vec![]);
            }
            match call.get(&config_map("target"))? {
                Some(seen) if seen["data"]["k"] == "doomed" => done(vec![delete(&config_map("target"))]),
                Some(_) | None => done(vec![]),
            }
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(target(json!({"k": "doomed"}))).await;
    let uid = world.object(&config_map("target")).await.expect("the target")["metadata"]["uid"].clone();
    world.apply(widget_with(json!({"delete": true}))).await;
    world.settle().await;
    assert_eq!(world.writes(), ["delete ConfigMap a/target"]);
    assert_eq!(world.last_delete_precondition(), uid);
    assert_eq!(world.object(&config_map("target")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_changed_on_the_revision_that_the_pass_saw_or_the_pass_runs_again() {
    let plugin = Native::new("demo")
        .controller("hold", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            done(vec![add_finalizer(&call.0.key, "demo.dev/hold")])
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.settle().await;
    world.fail_next("patch", "w", 409, "Conflict", 1);
    world.apply(widget("w")).await;
    world.settle().await;
    let object = world.object(&widget_ref("w")).await.expect("w");
    assert_eq!(object["metadata"]["finalizers"], json!(["demo.dev/hold"]));
    assert!(world.last_patch_had_resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_guarded_by_the_revision_that_the_pass_saw() {
    let plugin = Native::new("demo")
        .controller("patch", widget_kind(), |call| {
            if call.primary().is_none_or(|primary| primary["spec"]["stray"].is_null()) {
                return done(vec![]);
            }
            done(vec![patch(&call.0.key, json!({"spec": {"stray": null}}))])
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget_with(json!({"stray": 1, "kept": 2}))).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["spec"], json!({"kept": 2}));
    assert!(world.last_patch_had_resource_version());
}

#[tokio::test(start_paused = true)]
async fn the_first_action_that_fails_ends_the_pass() {
    let plugin = Native::new("demo")
        .controller("two", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            let mut second = target(json!({"k": "2"}));
            second["metadata"]["name"] = json!("second");
            done(vec![apply(target(json!({"k": "1"}))), apply(second)])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.fail_next("apply", "target", 422, "Invalid", 2);
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.object(&config_map("second")).await, None);
    let Failure { kind, message, .. } = world.last_failure("two", "w").expect("a failure");
    assert_eq!(kind, FailureKind::Invalid);
    assert!(message.contains("422"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn each_controller_owns_just_its_fields_of_one_status() {
    let plugin = Native::new("demo")
        .controller("left", widget_kind(), |call| match call.primary() {
            Some(primary) => done(vec![apply_status(status_of(&primary, json!({"left": 1})))]),
            None => done(vec![]),
        })
        .controller("right", widget_kind(), |call| match call.primary() {
            Some(primary) => done(vec![apply_status(status_of(&primary, json!({"right": 2})))]),
            None => done(vec![]),
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"left": 1, "right": 2}));
}

#[tokio::test(start_paused = true)]
async fn a_controlled_object_is_owned_by_the_primary() {
    let plugin = Native::new("demo")
        .controller("own", widget_kind(), |call| match call.primary() {
            Some(_) => done(vec![apply_controlled(target(json!({"k": "1"})))]),
            None => done(vec![]),
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let owner =
        &world.object(&config_map("target")).await.expect("the target")["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Widget"), &json!("w"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_concluded_from_one_object_is_not_done_to_its_successor() {
    let plugin = Native::new("demo")
        .controller("copy", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            let Some(seen) = call.get(&config_map("target"))? else { return done(vec![]) };
            done(vec![apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": "target", "labels": {"was": seen["data"]["k"]}}}))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(std::sync::Arc::new(Slow(plugin, 10))).await;
    world.apply(target(json!({"k": "one"}))).await;
    world.apply(widget("w")).await;
    // In the midst of the call that sees the first one.
    world.advance(15).await;
    assert_eq!(world.writes(), [""; 0]);
    world.delete(&config_map("target")).await;
    world.apply(target(json!({"k": "two"}))).await;
    world.advance(120).await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"], "by the pass that saw the second one");
    let labels = world.object(&config_map("target")).await.expect("the target")["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"was": "two"}));
}

#[tokio::test(start_paused = true)]
async fn what_two_keys_conclude_of_one_object_at_the_same_time_is_written_once() {
    let plugin = Native::new("demo")
        .controller("share", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let k = primary["spec"]["k"].clone();
            done(vec![apply_forced(target(json!({"k": k})))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    let changed_to = async |k: &str| {
        for name in ["w1", "w2", "w3"] {
            let mut object = widget(name);
            object["spec"] = json!({"k": k});
            world.apply(object).await;
        }
        world.advance(60).await;
        world.writes()
    };
    changed_to("1").await;
    world.slow_writes(std::time::Duration::from_secs(1));
    let calls = plugin.calls();
    assert_eq!(changed_to("2").await, ["apply ConfigMap a/target"], "each of the three applies it");
    assert_eq!(plugin.calls(), calls + 3);
    assert_eq!(world.object(&config_map("target")).await.expect("it is there")["data"]["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn events_past_the_allowance_of_their_object_are_left_out_and_the_journal_says_so() {
    let plugin = Native::new("demo")
        .controller("tell", widget_kind(), |call| match call.primary() {
            Some(_) => {
                let event = |number| publish(&call.0.key, "Counting", &format!("number {number}"));
                done((0..30).map(event).collect())
            }
            None => done(vec![]),
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.writes().len(), 25, "as client-go allows one object at once");
    let records = world.host().journal().records();
    let deeds = records.iter().flat_map(|record| &record.deeds);
    let left_out = DeedOutcome::Skipped { reason: SkipReason::TooManyEvents };
    assert_eq!(deeds.filter(|deed| deed.outcome == left_out).count(), 5);
}
