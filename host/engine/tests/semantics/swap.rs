//! Hot swap: the queue and the caches stay, no event is lost, a bad version is refused.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request, Verb};
use evenkeel_core::guest::{Guest, GuestFuture};
use evenkeel_engine::plugin::LoadOutcome;
use serde_json::json;

use crate::support::*;

fn marker(version: &'static str) -> Native {
    Native::new("demo")
        .controller("mark", widget_kind(), move |call| match call.primary() {
            Some(primary) => done(vec![apply_status_forced(status_of(&primary, json!({"by": version})))]),
            None => done(vec![]),
        })
        .manifest(move |manifest| {
            manifest.version = version.into();
            manifest.controllers[0].view = vec!["/spec".into()];
        })
        .digest(&format!("sha256:{version}"))
        .may_all(widget_kind())
}

/// Takes ten seconds a call.
struct Slow(Arc<Native>);

impl Guest for Slow {
    fn manifest(&self) -> &Manifest {
        Guest::manifest(&*self.0)
    }

    fn digest(&self) -> &str {
        Guest::digest(&*self.0)
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            self.0.reconcile(request).await
        })
    }
}

async fn mark(world: &World, name: &str) -> serde_json::Value {
    world.object(&widget_ref(name)).await.expect("a widget")["status"]["by"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pass_under_way_finishes_on_the_old_version_and_the_key_runs_again_on_the_new_one() {
    let old = marker("1.0.0").build();
    let world = World::with(Arc::new(Slow(old.clone()))).await;
    world.apply(widget("w")).await;
    world.advance(1).await;
    world.load(marker("2.0.0").build()).await;
    world.advance(5).await;
    assert_eq!(
        mark(&world, "w").await,
        json!(null),
        "the old one is still at it, and nobody else on this key"
    );
    world.advance(10).await;
    assert_eq!(old.calls(), 1);
    assert_eq!(mark(&world, "w").await, "2.0.0");
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_while_versions_change() {
    let world = World::with(marker("1.0.0").build()).await;
    for number in 0..40 {
        world.apply(widget(&format!("w{number}"))).await;
        if number % 10 == 5 {
            let version: &'static str = ["2.0.0", "3.0.0", "4.0.0", "5.0.0"][number / 10];
            world.load(marker(version).build()).await;
        }
    }
    world.settle().await;
    for number in 0..40 {
        assert_eq!(mark(&world, &format!("w{number}")).await, "5.0.0", "w{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_version_with_the_same_settings_changes_nothing() {
    let plugin = marker("1.0.0").build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let outcome = world.load_with(plugin.clone(), json!({})).await.expect("loaded");
    assert_eq!(outcome, LoadOutcome::Unchanged);
    world.settle().await;
    assert_eq!(plugin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_version_with_a_bad_manifest_is_refused_and_the_old_one_goes_on() {
    let world = World::with(marker("1.0.0").build()).await;
    let bad = marker("2.0.0").manifest(|manifest| {
        let twin = manifest.controllers[0].clone();
        manifest.controllers.push(twin);
    });
    let held = world.load_with(bad.build(), json!({})).await.expect_err("two controllers of one name");
    assert!(held.to_string().contains("mark"), "{held}");
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "1.0.0");
    assert_eq!(world.plugin("demo").refused.expect("a refusal").digest, "sha256:2.0.0");
}

#[tokio::test(start_paused = true)]
async fn a_config_that_breaks_its_schema_is_refused_with_the_place() {
    let strict = |version| {
        marker(version).manifest(|manifest| {
            let schema = json!({"type": "object", "additionalProperties": false,
                "properties": {"limit": {"type": "integer", "minimum": 1}}});
            manifest.config_schema = Some(schema.to_string().into());
        })
    };
    let world = World::new().await;
    world.load_with(strict("1.0.0").build(), json!({"limit": 3})).await.expect("a valid config");
    for (config, word) in
        [(json!({"limit": 0}), "/limit"), (json!({"limti": 1}), "limti"), (json!([]), "object")]
    {
        let held = world.load_with(strict("2.0.0").build(), config).await.expect_err("a bad config");
        assert!(held.to_string().contains(word), "{word} in {held}");
    }
    assert_eq!(world.plugin("demo").version, "1.0.0");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_asks_for_more_than_it_was_granted_is_held() {
    let world = World::new().await;
    world.load_granted(marker("1.0.0").build(), &["a"]).await.expect("loaded");
    let greedy = marker("2.0.0").may(secret_kind(), &[Verb::List]).build();
    let held = world.load_granted(greedy, &["a"]).await.expect_err("Secrets were never granted");
    assert!(held.to_string().contains("Secret") && held.to_string().contains("list"), "{held}");
    assert_eq!(world.plugin("demo").version, "1.0.0");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_unloaded_acts_no_more() {
    let plugin = marker("1.0.0").build();
    let world = World::with(plugin.clone()).await;
    world.settle().await;
    assert!(world.host().unload("demo"));
    world.apply(widget("w")).await;
    world.advance(60).await;
    assert_eq!(plugin.calls(), 0);
    assert!(!world.host().unload("demo"));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_the_new_version_lacks_acts_no_more() {
    let two =
        marker("1.0.0").controller("other", config_map_kind(), |_| done(vec![])).may_all(config_map_kind());
    let two = two.build();
    let world = World::with(two.clone()).await;
    world.settle().await;
    world.load(marker("2.0.0").build()).await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "x"}}))
        .await;
    world.settle().await;
    assert_eq!(two.calls(), 0);
    let names: Vec<_> =
        world.plugin("demo").controllers.into_iter().map(|controller| controller.name).collect();
    assert_eq!(names, ["mark"]);
}
