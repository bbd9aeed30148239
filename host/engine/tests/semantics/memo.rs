//! Learned prefetch and the memo: one call where one is needed, none where none is.

use serde_json::json;

use crate::support::*;

/// Asks for two ConfigMaps, one after the other, and writes what it found into the status.
fn asker() -> Native {
    Native::new("demo")
        .controller("ask", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let first = call.get(&config_map("first"))?.is_some();
            let second = call.get(&config_map("second"))?.is_some();
            done(vec![apply_status(status_of(&primary, json!({"first": first, "second": second})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

fn named(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}})
}

#[tokio::test(start_paused = true)]
async fn the_first_call_has_the_answers_that_the_previous_pass_asked_for() {
    let plugin = asker().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.apply(named("second")).await;
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1);
    assert_eq!(plugin.requests().pop().expect("a call").observations.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_called_where_nothing_that_the_pass_rested_on_has_changed() {
    let plugin = asker().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let (calls, elided) = (plugin.calls(), world.controller("ask").elided);
    world.merge(&widget_ref("w"), json!({"metadata": {"labels": {"outside": "the-view"}}})).await;
    world.settle().await;
    assert_eq!(plugin.calls(), calls);
    assert_eq!(world.controller("ask").elided, elided, "what lies outside of its view did not even wake it");
    world.host().resync();
    world.settle().await;
    assert_eq!(plugin.calls(), calls);
    assert!(world.controller("ask").elided > elided, "it was looked at, and the memo stood");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_changes_and_changes_back_before_anybody_looks_needs_no_call() {
    let plugin = asker().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.cut_watches();
    world.apply(named("second")).await;
    world.delete(&config_map("second")).await;
    world.advance(60).await;
    assert_eq!(plugin.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn another_config_is_another_input() {
    let plugin = asker().manifest(|manifest| manifest.config_schema = Some("{}".into())).build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.load_with(plugin.clone(), json!({"other": true})).await.expect("loaded");
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn time_alone_runs_a_pass_again_only_through_requeue_after() {
    let plugin = Native::new("demo")
        .controller("clock", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let now = call.now()?;
            let mut outcome = done(vec![apply_status(status_of(&primary, json!({"at": now})))]);
            if let Ok(conclusion) = &mut outcome
                && primary["spec"]["again"] == true
            {
                conclusion.requeue_after = Some(10_000);
            }
            outcome
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.advance(600).await;
    assert_eq!(plugin.calls(), before);
    world.merge(&widget_ref("w"), json!({"spec": {"again": true}})).await;
    world.settle().await;
    let before = plugin.calls();
    world.advance(35).await;
    assert_eq!(plugin.calls(), before + 3);
}

#[tokio::test(start_paused = true)]
async fn a_requeue_of_a_pass_that_did_not_ask_for_the_time_gives_the_same_answer_without_a_call() {
    let plugin = Native::new("demo")
        .controller("poll", widget_kind(), |_| {
            let mut outcome = done(vec![]);
            if let Ok(conclusion) = &mut outcome {
                conclusion.requeue_after = Some(5_000);
            }
            outcome
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let elided = world.controller("poll").elided;
    world.advance(22).await;
    assert_eq!(plugin.calls(), 1);
    assert_eq!(world.controller("poll").elided, elided + 4, "it goes on asking");
}

#[tokio::test(start_paused = true)]
async fn questions_that_are_asked_no_more_are_unlearned() {
    let plugin = Native::new("demo")
        .controller("ask", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if primary["spec"]["ask"] == "first" {
                call.get(&config_map("first"))?;
            } else {
                call.get(&config_map("second"))?;
            }
            done(vec![])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    let mut object = widget("w");
    object["spec"] = json!({"ask": "first"});
    world.apply(object).await;
    world.settle().await;
    for turn in 0..40 {
        world.merge(&widget_ref("w"), json!({"spec": {"ask": "second", "turn": turn}})).await;
        world.settle().await;
    }
    let last = plugin.requests().pop().expect("a call");
    assert_eq!(last.observations.len(), 1);
    let before = plugin.calls();
    world.apply(named("first")).await;
    world.settle().await;
    assert_eq!(plugin.calls(), before, "nobody asks for that one any more");
}

#[tokio::test(start_paused = true)]
async fn the_same_story_twice_gives_the_same_journal() {
    async fn story() -> Vec<String> {
        let world = World::with(asker().build()).await;
        for name in ["v", "w", "x"] {
            world.apply(widget(name)).await;
        }
        world.settle().await;
        world.apply(named("first")).await;
        world.fail_next("apply-status", "w", 500, "InternalError", 2);
        world.apply(named("second")).await;
        world.advance(60).await;
        world.journal_text()
    }
    assert_eq!(story().await, story().await);
}
