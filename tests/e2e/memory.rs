//! Thousands of events, and the memory of the host.

use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::host::HostOptions;
use crate::kite;
use crate::world::World;

const USERS: usize = 20;
/// Changes in each of the two halves.
const CHANGES: usize = 2_000;
/// What the second half may add, in MiB: allocators do not give everything back, and the journal fills up to its bound.
const GROWTH_MAX: f64 = 40.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn thousands_of_events_leave_the_memory_as_it_is() {
    let Some(world) = World::start("thousands of events").await else { return };
    kite::configure(&world).await;
    let host = world.host("host", HostOptions::default());
    host.ready().await;
    kite::create_all(&world, 0..USERS).await;
    kite::all_ready(&world, USERS).await;

    change(&world, 0).await;
    kite::at_rest(&world, &host).await;
    let before = host.memory().await;
    change(&world, CHANGES).await;
    kite::at_rest(&world, &host).await;
    let after = host.memory().await;
    eprintln!("after {CHANGES} changes {before:.1} MiB, after as many more {after:.1} MiB");
    assert!(after - before < GROWTH_MAX, "it grew from {before:.1} to {after:.1} MiB");
    let cached = host.sum("evenkeel_cache_objects", &["kind=\"KiteUser"]).await;
    assert!((cached - USERS as f64).abs() < 0.5, "{cached} users in the cache");
}

/// Changes users, each change one that a pass rests on: with the generation the status has to change.
async fn change(world: &World, from: usize) {
    let changes = stream::iter(from..from + CHANGES);
    changes
        .for_each_concurrent(8, |number| async move {
            let user = kite::path(&kite::name(number % USERS));
            let patch = json!({"spec": {"username": format!("named-{number}")}});
            world.must("PATCH", &user, &patch).await;
        })
        .await;
}
