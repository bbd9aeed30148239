//! Level-triggered, nothing missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};
use serde_json::json;

use crate::support::*;

/// Copies the data of `source` into a ConfigMap `copy` for each Widget, if there is a source.
fn copier() -> Native {
    Native::new("demo")
        .controller("copy", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let Some(source) = call.view(&config_map("source"), &["/data"])? else { return done(vec![]) };
            let name = format!("{}-copy", primary["metadata"]["name"].as_str().expect("a name"));
            done(vec![apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": name}, "data": source["data"],
            }))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

fn source(value: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "source"}, "data": {"k": value}})
}

#[tokio::test(start_paused = true)]
async fn an_absent_object_that_appears_wakes_those_who_asked_for_it() {
    let world = World::with(copier().build()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.writes(), [""; 0]);
    world.apply(source("1")).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/w-copy"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_answer_wakes_those_who_asked_and_nobody_else() {
    let plugin = copier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.apply(source("2")).await;
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1);
    world
        .apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "other"}}),
        )
        .await;
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1, "nobody asked for that one");
    assert_eq!(world.object(&config_map("w-copy")).await.expect("a copy")["data"], json!({"k": "2"}));
}

#[tokio::test(start_paused = true)]
async fn a_change_outside_the_view_wakes_nobody() {
    let plugin = copier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let (calls, elided) = (plugin.calls(), world.controller("copy").elided);
    world.merge(&config_map("source"), json!({"metadata": {"labels": {"colour": "red"}}})).await;
    world.settle().await;
    assert_eq!(plugin.calls(), calls);
    assert_eq!(world.controller("copy").elided, elided, "nor was there anything for the memo to say no to");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_comes_to_match_a_list_wakes_those_who_listed() {
    let plugin = Native::new("demo")
        .controller("count", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let red = call.list(list(config_map_kind(), |query| query.labels = "colour=red".into()))?;
            done(vec![apply_status(status_of(&primary, json!({"red": red.len()})))])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.apply(source("1")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"red": 0}));
    world.merge(&config_map("source"), json!({"metadata": {"labels": {"colour": "red"}}})).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"red": 1}));
    world.delete(&config_map("source")).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"red": 0}));
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_every_primary_is_considered_once() {
    let plugin = copier().build();
    let mut world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    world.settle().await;
    world.restart().await;
    let before = plugin.requests().len();
    world.load(plugin.clone()).await;
    world.settle().await;
    let last: Vec<_> = plugin.requests().split_off(before);
    let concluded: Vec<_> = last
        .iter()
        .filter(|request| !request.observations.is_empty())
        .map(|request| request.key.name.to_string())
        .collect();
    assert_eq!(concluded, ["v", "w"]);
    assert_eq!(world.writes_of_this_run(), [""; 0], "all was in place already");
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_the_host_was_down_is_made_good() {
    let plugin = copier().build();
    let mut world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.stop().await;
    world.apply(source("2")).await;
    world.start().await;
    world.load(plugin).await;
    world.settle().await;
    assert_eq!(world.object(&config_map("w-copy")).await.expect("a copy")["data"], json!({"k": "2"}));
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_the_watches_were_cut_is_made_good() {
    let world = World::with(copier().build()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.cut_watches();
    world.apply(source("2")).await;
    world.apply(widget("late")).await;
    world.advance(30).await;
    assert_eq!(world.object(&config_map("w-copy")).await.expect("a copy")["data"], json!({"k": "2"}));
    assert_eq!(world.object(&config_map("late-copy")).await.expect("a copy")["data"], json!({"k": "2"}));
}

#[tokio::test(start_paused = true)]
async fn after_a_relist_every_primary_is_considered_once() {
    let plugin = copier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    world.settle().await;
    let (calls, elided) = (plugin.calls(), world.controller("copy").elided);
    // Nothing has changed, but who knows after that?
    world.expire_watches("Widget");
    world.advance(30).await;
    assert_eq!(plugin.calls(), calls);
    assert_eq!(world.controller("copy").elided, elided + 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_swap_every_primary_is_considered_once() {
    let world = World::with(copier().build()).await;
    world.apply(source("1")).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    world.settle().await;
    let next = copier().digest("sha256:2").build();
    world.load(next.clone()).await;
    world.settle().await;
    let names: Vec<_> = next.requests().iter().map(|request| request.key.name.to_string()).collect();
    assert_eq!(names, ["v", "w"], "one call each: their answers were known");
}

#[tokio::test(start_paused = true)]
async fn a_resync_considers_every_primary_without_a_call() {
    let plugin = copier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let (calls, elided) = (plugin.calls(), world.controller("copy").elided);
    world.host().resync();
    world.settle().await;
    assert_eq!(plugin.calls(), calls);
    assert_eq!(world.controller("copy").elided, elided + 1);
}

#[tokio::test(start_paused = true)]
async fn a_primary_that_goes_is_told_with_what_was_last_seen_of_it() {
    let plugin = copier().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.delete(&widget_ref("w")).await;
    world.settle().await;
    let last = plugin.requests().pop().expect("a call");
    assert_eq!(last.primary, None);
    let seen = parse(&last.last_seen.expect("what was last seen"));
    assert_eq!(seen["metadata"]["name"], "w");
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_is_another_object() {
    let plugin = copier().manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()]).build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = plugin.calls();
    world.cut_watches();
    world.delete(&widget_ref("w")).await;
    world.apply(widget("w")).await;
    world.advance(30).await;
    assert!(plugin.calls() > before, "the same spec, another UID");
}

#[tokio::test(start_paused = true)]
async fn only_primaries_that_match_the_selector_are_looked_after() {
    let plugin = copier().manifest(|manifest| manifest.controllers[0].labels = "tier=gold".into()).build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(plugin.calls(), 0);
    world.merge(&widget_ref("w"), json!({"metadata": {"labels": {"tier": "gold"}}})).await;
    world.settle().await;
    assert!(plugin.calls() > 0);
    let before = plugin.calls();
    world.merge(&widget_ref("w"), json!({"metadata": {"labels": {"tier": "tin"}}})).await;
    world.settle().await;
    world.host().resync();
    world.settle().await;
    assert_eq!(plugin.calls(), before, "it is somebody else's now");
}

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_left_alone_until_it_is_released() {
    let plugin = copier().manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()]).build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    let mut paused = widget("w");
    paused["metadata"]["annotations"] = json!({"evenkeel.dev/paused": "true"});
    world.apply(paused).await;
    world.settle().await;
    assert_eq!(plugin.calls(), 0);
    assert_eq!(world.controller("copy").paused, 1);
    world.merge(&widget_ref("w"), json!({"metadata": {"annotations": {"evenkeel.dev/paused": null}}})).await;
    world.settle().await;
    assert_eq!(world.writes(), ["apply ConfigMap a/w-copy"]);
    assert_eq!(world.controller("copy").paused, 0);
}

#[tokio::test(start_paused = true)]
async fn an_enqueue_crosses_controllers() {
    let plugin = Native::new("demo")
        .controller("first", widget_kind(), |call| {
            if call.primary().is_none_or(|primary| primary["metadata"]["name"] != "w") {
                return done(vec![]);
            }
            done(vec![enqueue("second", &config_map("source"))])
        })
        .controller("second", config_map_kind(), |_| done(vec![]))
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(source("1")).await;
    world.settle().await;
    let considered = |world: &World| {
        let second = world.controller("second");
        second.passes + second.elided
    };
    let before = considered(&world);
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(considered(&world), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stands_still_is_made_good_and_shown() {
    let world = World::with(copier().build()).await;
    world.apply(source("1")).await;
    world.apply(widget("w")).await;
    // By now the API server has told of its progress, so that its silence means something.
    world.advance(65).await;
    assert!(world.host().status().ready);
    world.hold_watches("configmaps");
    world.apply(source("2")).await;
    world.advance(200).await;
    assert_eq!(world.object(&config_map("w-copy")).await.expect("a copy")["data"], json!({"k": "2"}));
    let status = world.host().status();
    assert_eq!(status.complaints, ["watch of ConfigMap in all namespaces stands still"]);
    assert!(!status.ready);
    world.release_watches();
    world.advance(65).await;
    assert_eq!(world.host().status().complaints, [""; 0]);
}

/// Takes ten seconds for each call, and counts how many run at once.
struct Counting {
    inner: Arc<Native>,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Guest for Counting {
    fn manifest(&self) -> &Manifest {
        Guest::manifest(&*self.inner)
    }

    fn digest(&self) -> &str {
        Guest::digest(&*self.inner)
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(10)).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.inner.reconcile(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_left_and_taken_up_again_during_its_pass_has_no_second_pass_beside_it() {
    let inner = Native::new("demo")
        .controller("look", widget_kind(), |_| done(vec![]))
        .manifest(|manifest| manifest.controllers[0].labels = "ours=yes".into())
        .may_all(widget_kind())
        .build();
    let plugin = Arc::new(Counting { inner, running: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let world = World::with(plugin.clone()).await;
    let mut object = widget("w");
    object["metadata"]["labels"] = json!({"ours": "yes"});
    world.apply(object).await;
    world.advance(1).await;
    for ours in ["no", "yes"] {
        world.merge(&widget_ref("w"), json!({"metadata": {"labels": {"ours": ours}}})).await;
        world.advance(1).await;
    }
    world.advance(60).await;
    // Nor one after it: in the end the object is as it was.
    assert_eq!((plugin.most.load(Ordering::SeqCst), plugin.inner.calls()), (1, 1));
}
