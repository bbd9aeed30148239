//! Who asks is noted before an answer is read: no change in between is missed.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, GetQuery, Json, Operation, ProviderUse, Query};
use evenkeel_engine::provider::{Caller, Provider, ProviderFuture, Providers};
use serde_json::json;

use crate::support::*;

/// Takes ten seconds for each answer.
struct Slow;

impl Provider for Slow {
    fn answer<'a>(&'a self, _: &'a Caller, _: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok("{}".into())
        })
    }

    fn perform<'a>(&'a self, _: &'a Caller, _: &'a Operation) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(async { Ok(None) })
    }
}

/// Asks for a ConfigMap and for something that takes long, in one round, and says in the status that it is there. It
/// writes nothing where it is not: what a pass wrote wakes its key, and that would make good what was missed.
fn plugin() -> Native {
    let get = Query::Get(GetQuery { object: config_map("source"), view: vec![] });
    let slow = Query::External(ExternalQuery {
        provider: "slow".into(),
        question: "anything".into(),
        arguments: "{}".into(),
    });
    Native::new("demo")
        .controller("ask", widget_kind(), move |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if call.0.observations.is_empty() {
                return Err(Stop::Ask(vec![get.clone(), slow.clone()]));
            }
            let there = call.get(&config_map("source"))?.is_some();
            let status = apply_status(status_of(&primary, json!({"there": true})));
            done(if there { vec![status] } else { vec![] })
        })
        .manifest(|manifest| {
            manifest.controllers[0].view = vec!["/spec".into()];
            manifest.providers = vec![ProviderUse {
                provider: "slow".into(),
                questions: vec!["anything".into()],
                operations: vec![],
            }];
        })
        .may_all(widget_kind())
        .may_all(config_map_kind())
}

#[tokio::test(start_paused = true)]
async fn a_change_between_the_answer_and_the_conclusion_is_not_missed() {
    let world =
        World::with_providers(plugin().build(), Providers::default().with("slow", Arc::new(Slow))).await;
    // The kind is watched already, or the first look would only wait for its list.
    world
        .apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "other"}}),
        )
        .await;
    world.apply(widget("warm-up")).await;
    world.advance(60).await;
    world.apply(widget("w")).await;
    world.advance(5).await;
    // It was told by now that there is none, and waits for the other answer.
    world.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "source"}})).await;
    world.advance(60).await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"there": true}));
}

#[tokio::test(start_paused = true)]
async fn names_of_a_plugins_own_making_fill_no_queue() {
    let plugin = Native::new("demo")
        .controller("ask", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let name = primary["metadata"]["name"].as_str().expect("a name").to_owned();
            done((0..1000).map(|number| enqueue("ask", &widget_ref(&format!("{name}-{number}")))).collect())
        })
        .may_all(widget_kind())
        .build();
    // Nobody comes to look at the names before both have asked.
    let world = World::with(Arc::new(crate::support::Slow(plugin.clone(), 10))).await;
    world.apply(widget("v")).await;
    world.apply(widget("w")).await;
    world.advance(15).await;
    let failures = ["v", "w"].map(|name| world.last_failure("ask", name));
    let [failure] = failures.iter().flatten().collect::<Vec<_>>()[..] else { panic!("{failures:?}") };
    assert!(failure.message.contains("1024 objects wait for ask"), "{}", failure.message);
    // Once they were looked at there is room again.
    world.advance(20_000).await;
    assert_eq!(["v", "w"].map(|name| world.last_failure("ask", name)), [None, None]);
}
