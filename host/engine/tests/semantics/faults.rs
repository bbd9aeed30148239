//! What a simulation makes fail: before a deed, so that it was not done, or after it, so that its answer is lost.

use std::sync::{Arc, Mutex};

use evenkeel_core::contract::{Action, Failure, FailureKind};
use evenkeel_engine::faults::{Deed, Fate, Faults};
use serde_json::json;

use crate::support::*;

/// Strikes the first apply of ConfigMap `target`; notes who wanted what, in order.
struct Once {
    fate: Fate,
    deeds: Mutex<Vec<String>>,
}

impl Faults for Once {
    fn strike(&self, deed: Deed<'_>) -> Fate {
        let mut deeds = self.deeds.lock().expect("no panic holds it");
        let what = match deed.action {
            Action::Apply(_) => "apply",
            Action::ApplyStatus(_) => "apply-status",
            other => panic!("{other:?}"),
        };
        deeds.push(format!("{}/{} {}: {what}", deed.plugin, deed.controller, deed.key));
        if deeds.len() == 1 { self.fate.clone() } else { Fate::Proceed }
    }
}

/// Applies `target`, then says so in its status.
fn plugin() -> Native {
    Native::new("demo")
        .controller("apply", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let target = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": "target"}, "data": {"k": "1"}});
            done(vec![apply(target), apply_status(status_of(&primary, json!({"done": true})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

/// What was written before the retry and with it, what was asked, and how it ended.
async fn after(fate: Fate) -> (Vec<String>, Vec<String>, Vec<String>, serde_json::Value) {
    let faults = Arc::new(Once { fate, deeds: Mutex::default() });
    let world = World::with_faults(plugin().build(), faults.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let at_first = world.writes();
    world.advance(60).await;
    let deeds = faults.deeds.lock().expect("no panic holds it").clone();
    (at_first, world.writes(), deeds, world.object(&widget_ref("w")).await.expect("w")["status"].clone())
}

fn lost() -> Failure {
    Failure::new(FailureKind::Transient, "the simulation wants it so")
}

/// The apply twice, for the first was struck; then what comes after it.
const ASKED: [&str; 3] =
    ["demo/apply Widget a/w: apply", "demo/apply Widget a/w: apply", "demo/apply Widget a/w: apply-status"];

#[tokio::test(start_paused = true)]
async fn a_deed_that_fails_before_is_not_done_and_nothing_after_it_until_the_retry() {
    let (at_first, then, deeds, status) = after(Fate::FailBefore(lost())).await;
    assert_eq!(at_first, [""; 0]);
    assert_eq!(then, ["apply ConfigMap a/target", "apply-status Widget a/w"]);
    assert_eq!(status, json!({"done": true}));
    assert_eq!(deeds[..3], ASKED);
}

#[tokio::test(start_paused = true)]
async fn a_deed_of_which_the_answer_is_lost_was_done_and_is_not_sent_twice() {
    let (at_first, then, deeds, status) = after(Fate::FailAfter(lost())).await;
    assert_eq!(at_first, ["apply ConfigMap a/target"]);
    assert_eq!(then, ["apply-status Widget a/w"]);
    assert_eq!(status, json!({"done": true}));
    assert_eq!(deeds[..3], ASKED);
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_purpose_is_one_like_any_other() {
    let faults = Arc::new(Once { fate: Fate::FailBefore(lost()), deeds: Mutex::default() });
    let world = World::with_faults(plugin().build(), faults).await;
    world.apply(widget("w")).await;
    world.advance_ms(2).await;
    let told = world.journal_json();
    assert!(told.contains("the simulation wants it so"), "{told}");
    world.advance(5).await;
    assert_eq!(world.last_failure("apply", "w"), None, "it was retried");
}
