//! Irreversible steps need fresh evidence.

use std::sync::{Arc, OnceLock};

use evenkeel_core::contract::Action;
use evenkeel_engine::faults::{Deed, Fate, Faults};
use evenkeel_sandbox::Sandbox;
use serde_json::json;

use crate::support::*;

const HOLD: &str = "demo.dev/hold";

/// Holds each Widget until no ConfigMap is left in its namespace that is labelled for it.
fn holder() -> Native {
    Native::new("demo")
        .controller("hold", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let left = call.list(list(config_map_kind(), |query| query.labels = "of=w".into()))?;
            if primary["metadata"]["deletionTimestamp"].is_null() {
                return done(vec![add_finalizer(&call.0.key, HOLD)]);
            }
            if left.is_empty() { done(vec![remove_finalizer(&call.0.key, HOLD)]) } else { done(vec![]) }
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

fn child() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "a", "name": "child", "labels": {"of": "w"}}})
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_goes_once_nothing_is_left() {
    let world = World::with(holder().build()).await;
    world.apply(child()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.delete(&widget_ref("w")).await;
    world.settle().await;
    assert!(world.object(&widget_ref("w")).await.is_some(), "a child is left");
    world.delete(&config_map("child")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_stays_where_the_cache_had_missed_a_child() {
    let plugin = holder().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "warm-up"}})).await;
    world.settle().await;
    // The watch of ConfigMaps is up by now: from here on it is blind.
    world.hold_watches("configmaps");
    world.apply(child()).await;
    world.delete(&widget_ref("w")).await;
    world.settle().await;
    assert!(world.object(&widget_ref("w")).await.is_some(), "the child was found by a live read");
    world.release_watches();
    world.delete(&config_map("child")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_called_off_where_the_cache_was_stale() {
    let plugin = Native::new("demo")
        .controller("sweep", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let target = call.get(&config_map("target"))?;
            // Another object than the one that goes: its revision guards nothing.
            let keep = call.get(&config_map("policy"))?.is_some_and(|policy| policy["data"]["keep"] == "yes");
            let sweep = primary["spec"]["sweep"] == true && target.is_some() && !keep;
            done(if sweep { vec![delete(&config_map("target"))] } else { vec![] })
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    for name in ["target", "policy"] {
        world
            .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}}))
            .await;
    }
    world.apply(widget("w")).await;
    world.settle().await;
    world.hold_watches("configmaps");
    world.merge(&config_map("policy"), json!({"data": {"keep": "yes"}})).await;
    world.merge(&widget_ref("w"), json!({"spec": {"sweep": true}})).await;
    world.settle().await;
    assert!(world.object(&config_map("target")).await.is_some(), "somebody wants it kept");
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_called_off_where_the_primary_itself_was_stale() {
    let plugin = Native::new("demo")
        .controller("sweep", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let target = call.get(&config_map("target"))?;
            let go = call.get(&config_map("go"))?;
            let sweep = primary["spec"]["keep"] != true && go.is_some() && target.is_some();
            done(if sweep { vec![delete(&config_map("target"))] } else { vec![] })
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin).await;
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}});
    world.apply(map("target")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.hold_watches("widgets");
    world.merge(&widget_ref("w"), json!({"spec": {"keep": true}})).await;
    world.apply(map("go")).await;
    world.settle().await;
    assert!(world.object(&config_map("target")).await.is_some(), "its owner wants it kept");
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_action_before_the_irreversible_one_does_not_go_round_in_circles() {
    let plugin = Native::new("demo")
        .controller("both", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if primary["metadata"]["deletionTimestamp"].is_null() {
                return done(vec![add_finalizer(&call.0.key, HOLD)]);
            }
            let status = apply_status(status_of(&primary, json!({"phase": "Deleting", "at": call.now()?})));
            done(vec![status, remove_finalizer(&call.0.key, HOLD)])
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.delete(&widget_ref("w")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await, None);
}

/// Has somebody adopt ConfigMap `target` in the very moment before it is deleted, after the evidence was found fresh.
#[derive(Default)]
struct Adopts(OnceLock<Sandbox>);

impl Faults for Adopts {
    fn strike(&self, deed: Deed<'_>) -> Fate {
        if let (Action::Delete(_), Some(sandbox)) = (deed.action, self.0.get())
            && let Some(mut target) = sandbox.get("v1", "ConfigMap", "a", "target")
        {
            target["data"] = json!({"adopted": "yes"});
            sandbox.put(target).expect("it is stored");
        }
        Fate::Proceed
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_refused_where_somebody_changed_the_object_after_the_evidence_was_taken() {
    let plugin = Native::new("demo")
        .controller("sweep", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let adopted =
                call.get(&config_map("target"))?.is_none_or(|seen| seen["data"]["adopted"] == "yes");
            let sweep = primary["spec"]["sweep"] == true && !adopted;
            done(if sweep { vec![delete(&config_map("target"))] } else { vec![] })
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let adopts = Arc::new(Adopts::default());
    let world = World::with_faults(plugin, adopts.clone()).await;
    assert!(adopts.0.set(world.sandbox.clone()).is_ok());
    world.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "target"}})).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.merge(&widget_ref("w"), json!({"spec": {"sweep": true}})).await;
    world.advance(60).await;
    assert!(world.object(&config_map("target")).await.is_some(), "it is somebody's now");
    assert_eq!(world.last_failure("sweep", "w"), None, "and the pass came to see that");
}

#[tokio::test(start_paused = true)]
async fn evidence_that_is_never_fresh_fails_the_pass_in_the_end() {
    let restless: Arc<OnceLock<Sandbox>> = Arc::default();
    let inside = restless.clone();
    let plugin = Native::new("demo")
        .controller("sweep", widget_kind(), move |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let policy = call.get(&config_map("policy"))?;
            if call.get(&config_map("target"))?.is_none() || primary["spec"]["sweep"] != true {
                return done(vec![]);
            }
            // Somebody changes the policy whenever this pass is about to conclude.
            if let (Some(sandbox), Some(_)) = (inside.get(), policy)
                && let Some(mut policy) = sandbox.get("v1", "ConfigMap", "a", "policy")
            {
                let turn =
                    policy["data"]["turn"].as_str().and_then(|turn| turn.parse().ok()).unwrap_or(0_u32);
                policy["data"] = json!({"turn": (turn + 1).to_string()});
                sandbox.put(policy).expect("it is stored");
            }
            done(vec![delete(&config_map("target"))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    assert!(restless.set(world.sandbox.clone()).is_ok());
    for name in ["target", "policy"] {
        world
            .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}}))
            .await;
    }
    world.apply(widget("w")).await;
    world.settle().await;
    world.merge(&widget_ref("w"), json!({"spec": {"sweep": true}})).await;
    world.advance(2).await;
    let failure = world.last_failure("sweep", "w").expect("a failure");
    assert!(failure.message.contains("changes faster"), "{}", failure.message);
    assert!(world.object(&config_map("target")).await.is_some());
}
