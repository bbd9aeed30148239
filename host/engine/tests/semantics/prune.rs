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
