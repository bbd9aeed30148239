//! Nothing is deleted by omission, except the kinds that a conclusion names under `prune`.

use serde_json::{Value, json};

use crate::support::*;

/// Applies one controlled ConfigMap for each name in the spec, and prunes where the spec says so.
fn family() -> Native {
    Native::new("demo")
        .controller("family", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let names = primary["spec"]["children"].as_array().cloned().unwrap_or_default();
            let actions = names.iter().map(|name| apply_controlled(child(name))).collect();
            let mut outcome = done(actions);
            if let Ok(conclusion) = &mut outcome
                && primary["spec"]["prune"] == true
            {
                conclusion.prune = vec![config_map_kind()];
            }
            outcome
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

fn child(name: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}})
}

fn parent(spec: Value) -> Value {
    let mut object = widget("w");
    object["spec"] = spec;
    object
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_is_not_deleted() {
    let world = World::with(family().build()).await;
    world.apply(parent(json!({"children": ["x", "y"]}))).await;
    world.settle().await;
    world.apply(parent(json!({"children": ["x"]}))).await;
    world.settle().await;
    assert!(world.object(&config_map("y")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_of_a_pruned_kind_is_deleted_if_the_primary_controls_it() {
    let world = World::with(family().build()).await;
    world.apply(child(&json!("stranger"))).await;
    world.apply(parent(json!({"children": ["x", "y"], "prune": true}))).await;
    world.settle().await;
    world.writes();
    world.apply(parent(json!({"children": ["x"], "prune": true}))).await;
    world.settle().await;
    assert_eq!(world.writes(), ["delete ConfigMap a/y"]);
    assert!(world.object(&config_map("stranger")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn pruning_needs_the_grant_to_delete() {
    use evenkeel_core::contract::{FailureKind, Verb};
    let plugin = family()
        .manifest(|manifest| {
            for permission in &mut manifest.permissions {
                permission.verbs.retain(|verb| *verb != Verb::Delete);
            }
        })
        .build();
    let world = World::with(plugin).await;
    world.apply(parent(json!({"children": ["x", "y"], "prune": true}))).await;
    world.settle().await;
    world.apply(parent(json!({"children": ["x"], "prune": true}))).await;
    world.settle().await;
    assert!(world.object(&config_map("y")).await.is_some());
    assert_eq!(world.last_failure("family", "w").expect("a failure").kind, FailureKind::Denied);
}

/// Somebody makes a ConfigMap that the Widget `w` controls.
async fn adopted(world: &World, name: &str) {
    let uid = world.object(&widget_ref("w")).await.expect("w")["metadata"]["uid"].clone();
    let mut object = child(&json!(name));
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "demo.dev/v1", "kind": "Widget", "name": "w", "uid": uid, "controller": true}]);
    world.apply(object).await;
}

#[tokio::test(start_paused = true)]
async fn what_comes_under_the_primarys_control_later_is_pruned_without_a_plugin_call() {
    let plugin = family().build();
    let world = World::with(plugin.clone()).await;
    world.apply(parent(json!({"children": ["x"], "prune": true}))).await;
    world.settle().await;
    let (calls, _) = (plugin.calls(), world.writes());
    adopted(&world, "late").await;
    world.settle().await;
    assert_eq!(world.writes(), ["delete ConfigMap a/late"]);
    assert_eq!(plugin.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn pruning_what_came_later_needs_fresh_evidence_too() {
    let plugin = Native::new("demo")
        .controller("family", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if primary["metadata"]["name"] != "w" {
                return done(vec![]);
            }
            let keep = call.get(&widget_ref("policy"))?.is_some_and(|policy| policy["spec"]["keep"] == true);
            let mut outcome = done(vec![]);
            if let Ok(conclusion) = &mut outcome
                && !keep
            {
                conclusion.prune = vec![config_map_kind()];
            }
            outcome
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("policy")).await;
    world.apply(parent(json!({}))).await;
    world.settle().await;
    // The host hears no more of the policy, and so not that it says otherwise now.
    world.hold_watches("widgets");
    world.merge(&widget_ref("policy"), json!({"spec": {"keep": true}})).await;
    let calls = plugin.calls();
    adopted(&world, "late").await;
    world.settle().await;
    assert!(world.object(&config_map("late")).await.is_some());
    assert_eq!(world.writes(), [""; 0]);
    assert!(plugin.calls() > calls, "it found another policy than the memo rested on");
    world.release_watches();
    world.merge(&widget_ref("policy"), json!({"spec": {"keep": false}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["delete ConfigMap a/late"], "nothing but the policy kept it");
}
