//! Shutdown finishes the passes under way within a grace time.

use std::sync::Arc;

use serde_json::json;

use crate::support::*;

fn plugin(seconds: u64) -> Arc<Slow> {
    let native = Native::new("demo")
        .controller("mark", widget_kind(), |call| match call.primary() {
            Some(primary) => done(vec![apply_status(status_of(&primary, json!({"done": true})))]),
            None => done(vec![]),
        })
        .may_all(widget_kind());
    Arc::new(Slow(native.build(), seconds))
}

#[tokio::test(start_paused = true)]
async fn a_pass_under_way_is_finished_within_the_grace_time_and_none_is_begun() {
    let slow = plugin(5);
    let mut world = World::with_workers(slow.clone(), 1).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    world.advance(1).await;
    let finished = world.shut_down(30).await;
    assert!(finished);
    assert_eq!(slow.0.calls(), 1);
    assert_eq!(world.object(&widget_ref("v")).await.expect("v")["status"], json!({"done": true}));
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_outlasts_the_grace_time_is_cut_off_and_made_good_after_the_restart() {
    let mut world = World::with(plugin(500)).await;
    world.apply(widget("w")).await;
    world.advance(1).await;
    let finished = world.shut_down(30).await;
    assert!(!finished);
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!(null));
    world.start().await;
    world.load(plugin(0)).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"done": true}));
}
