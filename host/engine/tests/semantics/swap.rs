//! Hot swap: the queue and the caches stay, no event is lost, a bad version is refused.

use std::sync::Arc;

use evenkeel_core::contract::{Permission, Verb};
use evenkeel_core::guest::Guest;
use evenkeel_engine::plugin::{LoadOutcome, OperatorGrant, PluginSettings};
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

async fn mark(world: &World, name: &str) -> serde_json::Value {
    world.object(&widget_ref(name)).await.expect("a widget")["status"]["by"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pass_under_way_finishes_on_the_old_version_and_the_key_runs_again_on_the_new_one() {
    let old = marker("1.0.0").build();
    let world = World::with(Arc::new(Slow(old.clone(), 10))).await;
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

/// Wakes itself for ever, by a status that is never twice the same.
fn thrashing() -> Native {
    Native::new("demo")
        .controller("mark", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let turn = primary["status"]["turn"].as_u64().unwrap_or(0) + 1;
            done(vec![apply_status_forced(status_of(&primary, json!({"turn": turn})))])
        })
        .digest("sha256:thrashing")
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cures_a_thrashing_key_is_not_kept_waiting_for_what_the_old_one_did() {
    let world = World::with(thrashing().build()).await;
    world.apply(widget("w")).await;
    world.advance(10).await;
    assert_eq!(world.controller("mark").slowed.len(), 1);
    world.load(marker("2.0.0").build()).await;
    world.advance(1).await;
    assert_eq!(mark(&world, "w").await, "2.0.0");
    assert!(world.controller("mark").slowed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_thrashes_as_the_one_before_is_slowed_down_as_well() {
    let world = World::with(thrashing().build()).await;
    world.apply(widget("w")).await;
    world.advance(10).await;
    let again = thrashing().digest("sha256:again").build();
    world.load(again.clone()).await;
    world.advance(10).await;
    assert_eq!(world.controller("mark").slowed.len(), 1);
    assert!(again.calls() < 100, "{} calls", again.calls());
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
async fn without_a_grant_a_version_may_do_what_the_one_before_asked_for_and_no_more() {
    let world = World::with(marker("1.0.0").build()).await;
    let greedy = || marker("2.0.0").may(config_map_kind(), &[Verb::Get, Verb::Delete]).build();
    let held = world.load_with(greedy(), json!({})).await.expect_err("nobody granted that");
    let said = held.to_string();
    assert!(
        said.contains("get ConfigMap; delete ConfigMap") && said.contains("name that in its grant"),
        "{said}"
    );
    assert_eq!(world.plugin("demo").refused.expect("shown on the plugin").reason, said);
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "1.0.0", "the old one goes on");
    world.load_allowed(greedy()).await.expect("the operator allows it by name");
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "2.0.0");
    world.load_with(marker("3.0.0").build(), json!({})).await.expect("it asks for less");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_asks_more_of_a_provider_is_held_too() {
    let world = World::with(marker("1.0.0").build()).await;
    let greedy = marker("2.0.0").manifest(|manifest| {
        manifest.providers = vec![evenkeel_core::contract::ProviderUse {
            provider: "vsphere".into(),
            questions: vec!["find-vm".into()],
            operations: vec!["destroy".into()],
        }];
    });
    let held = world.load_with(greedy.build(), json!({})).await.expect_err("nobody granted that");
    assert!(held.to_string().contains("ask vsphere find-vm; perform vsphere destroy"), "{held}");
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

/// Asks for a ConfigMap, so that ConfigMaps are watched as its grant allows.
fn asker(name: &str, version: &str, verbs: &[Verb]) -> Native {
    Native::new(name)
        .controller("ask", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let source = call.get(&config_map("source"))?.map(|source| source["data"].clone());
            done(vec![apply_status_forced(status_of(&primary, json!({"source": source})))])
        })
        .digest(&format!("sha256:{version}"))
        .may_all(widget_kind())
        .may(config_map_kind(), verbs)
}

fn source(value: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "source"}, "data": {"k": value}})
}

#[tokio::test(start_paused = true)]
async fn what_nobody_needs_any_more_is_watched_no_more() {
    let world = World::with(asker("demo", "1", &[Verb::Get, Verb::List]).build()).await;
    world.load(marker_of("other").build()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.watches(), ["ConfigMap in all namespaces", "Widget.demo.dev in all namespaces"]);
    assert!(world.host().unload("demo"));
    assert_eq!(world.watches(), ["Widget.demo.dev in all namespaces"]);
    assert_eq!(world.cached("ConfigMap"), 0);
    assert!(world.host().unload("other"));
    assert_eq!(world.watches(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_gets_as_narrow_as_what_is_left_may_have_and_nothing_is_missed() {
    let world = World::with(asker("demo", "1", &[Verb::Get]).build()).await;
    world.load(asker("wide", "1", &[Verb::Get, Verb::List]).build()).await;
    world.apply(source("1")).await;
    world
        .apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "else"}}),
        )
        .await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.cached("ConfigMap"), 2);
    assert!(world.host().unload("wide"));
    world.apply(source("2")).await;
    world.settle().await;
    assert_eq!(world.watches(), ["ConfigMap in ConfigMap a/source", "Widget.demo.dev in all namespaces"]);
    assert_eq!(world.cached("ConfigMap"), 1);
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"]["source"], json!({"k": "2"}));
}

fn marker_of(name: &str) -> Native {
    Native::new(name).controller("mark", widget_kind(), |_| done(vec![])).may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_version_that_looks_after_another_kind_is_held_until_the_operator_lets_it_list_that() {
    let nosy = || marker("2.0.0").controller("peek", config_map_kind(), |_| done(vec![])).build();
    let world = World::with(marker("1.0.0").build()).await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "c"}}))
        .await;
    let held =
        world.load_with(nosy(), json!({})).await.expect_err("it is shown objects that it was not shown");
    assert!(held.to_string().contains("list ConfigMap, for its controller peek"), "{held}");
    let allowed = nosy();
    let mut permissions = Guest::manifest(&*allowed).permissions.clone();
    permissions.push(Permission { gvk: config_map_kind(), verbs: vec![Verb::List], names: vec![] });
    let grant = Some(OperatorGrant { permissions: Some(permissions), namespaces: None });
    let settings = PluginSettings { grant, ..PluginSettings::default() };
    world.host().load(allowed.clone(), settings).await.expect("the operator allows it");
    world.settle().await;
    assert!(allowed.requests().iter().any(|request| request.controller == "peek"));
}
