//! One pass per key at a time, changes before resyncs, thrashing keys slowed down, hostile numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};
use serde_json::json;

use crate::support::*;

/// Takes a second for each call and counts how many run at once, of one key and of all.
struct Counting {
    inner: Arc<Native>,
    running: std::sync::Mutex<std::collections::BTreeMap<String, usize>>,
    most_of_one: AtomicUsize,
    most_of_all: AtomicUsize,
}

impl Counting {
    fn new(inner: Native) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.build(),
            running: Default::default(),
            most_of_one: AtomicUsize::new(0),
            most_of_all: AtomicUsize::new(0),
        })
    }

    fn note(&self, key: &str, start: bool) {
        let mut running = self.running.lock().expect("no panic holds it");
        let count = running.entry(key.to_owned()).or_default();
        if start {
            *count += 1
        } else {
            *count -= 1
        }
        self.most_of_one.fetch_max(*count, Ordering::SeqCst);
        self.most_of_all.fetch_max(running.values().sum(), Ordering::SeqCst);
    }
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
            let key = request.key.to_string();
            self.note(&key, true);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.note(&key, false);
            self.inner.reconcile(request).await
        })
    }
}

fn idle_plugin() -> Native {
    Native::new("demo").controller("look", widget_kind(), |_| done(vec![])).may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn one_pass_per_key_at_a_time_and_different_keys_in_parallel() {
    let plugin = Counting::new(idle_plugin());
    let world = World::with(plugin.clone()).await;
    for name in ["v", "w"] {
        world.apply(widget(name)).await;
    }
    for turn in 0..20 {
        world.merge(&widget_ref("w"), json!({"spec": {"turn": turn}})).await;
        world.advance_ms(300).await;
    }
    world.advance(10).await;
    assert_eq!(plugin.most_of_one.load(Ordering::SeqCst), 1);
    assert_eq!(plugin.most_of_all.load(Ordering::SeqCst), 2);
    let last = plugin.inner.requests().pop().expect("a call");
    assert_eq!(parse(&last.primary.expect("w"))["spec"]["turn"], 19, "the last change was not lost");
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_before_a_resync() {
    let slow = idle_plugin().manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()]);
    let plugin = Counting::new(slow);
    let world = World::with_workers(plugin.clone(), 1).await;
    for number in 0..30 {
        world.apply(widget(&format!("w{number:02}"))).await;
    }
    world.advance(60).await;
    let before = plugin.inner.requests().len();
    // A swap considers every primary; a user's change comes in the middle of it.
    world.load(Counting::new(idle_plugin().digest("sha256:2"))).await;
    world.load(plugin.clone()).await;
    world.advance(2).await;
    world.merge(&widget_ref("w25"), json!({"spec": {"by": "user"}})).await;
    world.advance(4).await;
    let after: Vec<_> = plugin
        .inner
        .requests()
        .split_off(before)
        .iter()
        .map(|request| request.key.name.to_string())
        .collect();
    assert!(after.contains(&"w25".to_owned()), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thrashing_key_is_slowed_down_and_named() {
    let plugin = Native::new("demo")
        .controller("thrash", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            // Its own status is part of what it looks at, and never twice the same.
            let turn = primary["status"]["turn"].as_u64().unwrap_or(0) + 1;
            done(vec![apply_status(status_of(&primary, json!({"turn": turn})))])
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.advance(10).await;
    let slowed = world.controller("thrash").slowed;
    assert_eq!(slowed.len(), 1);
    assert_eq!(slowed[0].woken_by.as_ref().map(ToString::to_string), Some("Widget a/w".to_owned()));
    let before = plugin.calls();
    world.advance(60).await;
    assert!(plugin.calls() - before < 200, "{} calls in a minute", plugin.calls() - before);
}

#[tokio::test(start_paused = true)]
async fn requeue_after_without_end_and_without_pause_are_both_survived() {
    for (requeue, most) in [(u64::MAX, 4), (0, 5_000)] {
        let plugin = Native::new("demo")
            .controller("again", widget_kind(), move |call| {
                call.now()?;
                let mut outcome = done(vec![]);
                if let Ok(conclusion) = &mut outcome {
                    conclusion.requeue_after = Some(requeue);
                }
                outcome
            })
            .may_all(widget_kind())
            .build();
        let world = World::with(plugin.clone()).await;
        world.apply(widget("w")).await;
        world.advance(3_600).await;
        assert!(plugin.calls() <= most, "{requeue}: {} calls", plugin.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_with_a_resync_considers_each_primary_that_often() {
    let plugin = idle_plugin().manifest(|manifest| manifest.controllers[0].resync = Some(180_000)).build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let before = world.controller("look").elided;
    world.advance(3_600).await;
    let considered = world.controller("look").elided - before;
    assert!((18..=24).contains(&considered), "{considered}");
    assert_eq!(plugin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_means_that_nothing_is_left_to_do() {
    let plugin = Counting::new(idle_plugin());
    let world = World::with(plugin).await;
    world.settle().await;
    assert!(world.host().idle());
    world.apply(widget("w")).await;
    world.advance_ms(10).await;
    assert!(!world.host().idle(), "a pass is under way");
    world.advance(3).await;
    assert!(world.host().idle());
}

#[tokio::test(start_paused = true)]
async fn a_slow_plugin_leaves_some_workers_to_the_others() {
    let slow = Counting::new(idle_plugin());
    let world = World::with(slow.clone()).await;
    for number in 0..200 {
        world.apply(widget(&format!("w{number:03}"))).await;
    }
    world.advance(10).await;
    assert_eq!(slow.most_of_all.load(Ordering::SeqCst), 4, "alone it has all workers");
    let quick =
        Native::new("quick").controller("look", widget_kind(), |_| done(vec![])).may_all(widget_kind());
    let quick = quick.build();
    world.load(quick.clone()).await;
    // A second until one of the slow passes ends, and hardly any time for the quick ones.
    world.advance(2).await;
    assert_eq!(quick.calls(), 200);
    let others = slow.running.lock().expect("no panic holds it").values().sum::<usize>();
    assert_eq!(others, 3);
    world.advance(100).await;
    assert_eq!(slow.inner.calls(), 200, "and the slow one gets all of its own done");
}
