//! Drift is repaired without a plugin call, and siblings do not fight.

use evenkeel_core::contract::{Gvk, ObjectRef};
use serde_json::{Value, json};

use crate::support::*;

fn target(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "target"}, "data": data})
}

/// Applies ConfigMap `target` and never asks about it.
fn blind(force: bool) -> Native {
    Native::new("demo")
        .controller("apply", widget_kind(), move |call| match call.primary() {
            Some(_) if force => done(vec![apply_forced(target(json!({"k": "1"})))]),
            Some(_) => done(vec![apply(target(json!({"k": "1"})))]),
            None => done(vec![]),
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

async fn settled(plugin: &std::sync::Arc<Native>) -> World {
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.writes();
    world
}

#[tokio::test(start_paused = true)]
async fn a_field_that_somebody_changed_is_applied_again_without_a_plugin_call() {
    let plugin = blind(true).build();
    let world = settled(&plugin).await;
    let calls = plugin.calls();
    world.merge(&config_map("target"), json!({"data": {"k": "drifted"}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
    assert_eq!(world.object(&config_map("target")).await.expect("the target")["data"], json!({"k": "1"}));
    assert_eq!(plugin.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_somebody_removed_is_applied_again_without_a_plugin_call() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    let calls = plugin.calls();
    world.merge(&config_map("target"), json!({"data": {"k": null}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
    assert_eq!(plugin.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_somebody_deleted_is_applied_again_without_a_plugin_call() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    let calls = plugin.calls();
    world.delete(&config_map("target")).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
    assert_eq!(plugin.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn what_others_write_beside_what_was_applied_wakes_nobody() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    let before = world.controller("apply");
    for beside in [json!({"binaryData": {"other": "AAAA"}}), json!({"metadata": {"labels": {"other": "x"}}})]
    {
        world.merge(&config_map("target"), beside).await;
        world.settle().await;
    }
    let after = world.controller("apply");
    assert_eq!((after.elided, after.calls), (before.elided, before.calls));
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_others_put_beside_ours_into_the_same_map_wakes_nobody() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    let before = world.controller("apply").elided;
    world.merge(&config_map("target"), json!({"data": {"other": "theirs"}})).await;
    world.settle().await;
    assert_eq!(world.controller("apply").elided, before);
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_others_put_into_a_selector_is_drift_since_a_selector_is_one_value() {
    let kind = Gvk::new("", "v1", "Service");
    let service = || {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "a", "name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
    };
    let plugin = Native::new("demo")
        .controller("apply", widget_kind(), move |call| match call.primary() {
            Some(_) => done(vec![apply_forced(service())]),
            None => done(vec![]),
        })
        .may_all(kind.clone())
        .may_all(widget_kind())
        .build();
    let world = settled(&plugin).await;
    let web = ObjectRef::new(kind, Some("a"), "web");
    world.merge(&web, json!({"spec": {"selector": {"but": "few"}}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply Service a/web"]);
    assert_eq!(world.object(&web).await.expect("the Service")["spec"]["selector"], json!({"app": "web"}));
}

#[tokio::test(start_paused = true)]
async fn fields_of_which_the_ownership_was_struck_out_are_owned_again() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    world.merge(&config_map("target"), json!({"metadata": {"managedFields": [{}]}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
}

#[tokio::test(start_paused = true)]
async fn a_drifted_field_that_may_not_be_forced_is_a_conflict_that_is_told() {
    let plugin = blind(false).build();
    let world = settled(&plugin).await;
    world.apply(target(json!({"k": "theirs"}))).await;
    world.settle().await;
    let failure = world.last_failure("apply", "w").expect("a failure");
    assert!(
        failure.message.contains("user owns") && failure.message.contains(".data.k"),
        "{}",
        failure.message
    );
    assert_eq!(
        world.object(&config_map("target")).await.expect("the target")["data"],
        json!({"k": "theirs"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_field_that_a_sibling_took_by_force_starts_no_fight() {
    let phase = |phase: &'static str| {
        move |call: &Call<'_>| match call.primary() {
            Some(primary) => {
                let given = primary["spec"][phase].clone();
                done(vec![apply_status_forced(status_of(&primary, json!({"phase": given, phase: "seen"})))])
            }
            None => done(vec![]),
        }
    };
    let plugin = Native::new("demo")
        .controller("left", widget_kind(), phase("left"))
        .controller("right", widget_kind(), phase("right"))
        .manifest(|manifest| {
            manifest.controllers[0].view = vec!["/spec/left".into()];
            manifest.controllers[1].view = vec!["/spec/right".into()];
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    let mut object = widget("w");
    object["spec"] = json!({"left": "L", "right": "R"});
    world.apply(object).await;
    world.settle().await;
    let after_start = world.writes().len();
    assert!(after_start <= 4, "{after_start} writes");
    world.merge(&widget_ref("w"), json!({"spec": {"left": "M"}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply-status Widget a/w"], "the last one wins");
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"]["phase"], "M");
    world.host().resync();
    world.settle().await;
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_sibling_did_not_take_is_still_repaired() {
    let plugin = Native::new("demo")
        .controller("left", widget_kind(), |call| match call.primary() {
            Some(primary) => {
                done(vec![apply_status_forced(status_of(&primary, json!({"phase": "L", "left": "seen"})))])
            }
            None => done(vec![]),
        })
        .controller("right", widget_kind(), |call| match call.primary() {
            Some(primary) => done(vec![apply_status_forced(status_of(&primary, json!({"phase": "R"})))]),
            None => done(vec![]),
        })
        .manifest(|manifest| manifest.controllers.iter_mut().for_each(|one| one.view = vec!["/spec".into()]))
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let phase = world.object(&widget_ref("w")).await.expect("w")["status"]["phase"].clone();
    world.merge_status(&widget_ref("w"), json!({"status": {"left": "drifted"}})).await;
    world.settle().await;
    let status = world.object(&widget_ref("w")).await.expect("w")["status"].clone();
    assert_eq!(status, json!({"phase": phase, "left": "seen"}));
}

#[tokio::test(start_paused = true)]
async fn an_event_is_published_by_a_pass_and_not_by_a_repair() {
    let plugin = Native::new("demo")
        .controller("tell", widget_kind(), |call| match call.primary() {
            Some(_) => done(vec![
                apply_forced(target(json!({"k": "1"}))),
                publish(&call.0.key, "Applied", "It is applied."),
            ]),
            None => done(vec![]),
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert!(world.writes().iter().any(|write| write.contains("Event")));
    world.merge(&config_map("target"), json!({"data": {"k": "drifted"}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/target"]);
}

#[tokio::test(start_paused = true)]
async fn two_objects_of_one_controller_that_apply_the_same_fields_start_no_fight() {
    let plugin = Native::new("demo")
        .controller("apply", widget_kind(), |call| match call.primary() {
            Some(primary) => {
                let by = primary["metadata"]["name"].as_str().expect("a name").to_owned();
                done(vec![apply_forced(target(json!({"by": by, by.clone(): "was here"})))])
            }
            None => done(vec![]),
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    world.settle().await;
    assert!(world.writes().len() <= 4);
    let last = world.object(&config_map("target")).await.expect("the target")["data"].clone();
    world.merge(&config_map("target"), json!({"data": {"by": "nobody"}})).await;
    world.settle().await;
    assert_eq!(
        world.object(&config_map("target")).await.expect("the target")["data"],
        last,
        "it is still looked after"
    );
}

#[tokio::test(start_paused = true)]
async fn two_plugins_that_fight_over_a_field_are_slowed_down() {
    let stubborn = |name: &str, value: &'static str| {
        Native::new(name)
            .controller("apply", widget_kind(), move |call| match call.primary() {
                Some(_) => done(vec![apply_forced(target(json!({"k": value})))]),
                None => done(vec![]),
            })
            .may_all(config_map_kind())
            .may_all(widget_kind())
            .build()
    };
    let world = World::with(stubborn("demo", "1")).await;
    world.load(stubborn("other", "2")).await;
    world.apply(widget("w")).await;
    world.advance(60).await;
    let writes = world.writes().len();
    assert!((10..400).contains(&writes), "{writes} writes in a minute");
}
