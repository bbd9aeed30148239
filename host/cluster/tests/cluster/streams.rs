//! What there is as the beginning of a watch, where the API server offers that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use crate::world::World;

/// A world that asks for it, and the verbs of its requests for ConfigMaps.
fn streaming() -> (World, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let verbs = Arc::clone(&asked);
    let world = World::with(|options| {
        options.streaming_lists = true;
        options.on_request = Some(Arc::new(move |request| {
            verbs.lock().expect("no panic").push(request.verb.to_owned());
        }));
    });
    (world, asked)
}

fn lists_and_watches(asked: &Mutex<Vec<String>>) -> Vec<String> {
    let asked = asked.lock().expect("no panic");
    asked.iter().filter(|verb| ["list", "watch"].contains(&verb.as_str())).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn one_watch_brings_what_there_is_and_what_comes_later() {
    let (mut world, asked) = streaming();
    world.config_map("default/a v=1").await;
    world.config_map("default/b v=1").await;
    let told = world.watch("ConfigMap").await;
    expect![[r#"
        + ConfigMap default/a v=1
        + ConfigMap default/b v=1
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    world.config_map("default/b v=2").await;
    assert_eq!(world.settle().await, "~ ConfigMap default/b v=2\n");
    assert_eq!(lists_and_watches(&asked), ["watch"]);
    assert!(world.cluster.health().complaints().is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_a_kind_without_objects_it_is_known_at_once_that_there_are_none() {
    let (mut world, _) = streaming();
    assert_eq!(world.watch("ConfigMap").await, "synced ConfigMap in all namespaces\n");
    assert_eq!(world.get("default/a"), "absent");
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_goes_on_where_it_was_and_an_expired_one_is_told_what_it_missed() {
    let (mut world, asked) = streaming();
    for text in ["default/a v=1", "default/b v=1"] {
        world.config_map(text).await;
    }
    world.watch("ConfigMap").await;
    world.cut();
    world.config_map("default/a v=2").await;
    assert_eq!(world.settle().await, "~ ConfigMap default/a v=2\n");
    world.freeze();
    world.user("DELETE /api/v1/namespaces/default/configmaps/a", json!({})).await;
    world.config_map("default/c v=1").await;
    world.settle().await;
    world.thaw();
    world.sandbox.cut_watches(&evenkeel_sandbox::Cut { expire: true, ..Default::default() });
    let told = world.pass(Duration::from_secs(600)).await;
    expect![[r#"
        + ConfigMap default/c v=1
        - ConfigMap default/a v=2
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    assert!(!lists_and_watches(&asked).contains(&"list".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_it_is_asked_for_lists_from_then_on() {
    let (mut world, asked) = streaming();
    world.config_map("default/a v=1").await;
    world.fail("watch", "ConfigMap", 422, "Invalid", 1);
    let told = world.watch("ConfigMap").await;
    expect![[r#"
        + ConfigMap default/a v=1
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    world.watch("Secret").await;
    assert_eq!(lists_and_watches(&asked), ["watch", "list", "watch", "list", "watch"]);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_comes_a_list_is_asked_for_after_a_while() {
    let (mut world, asked) = streaming();
    world.config_map("default/a v=1").await;
    world.freeze();
    assert_eq!(world.watch("ConfigMap").await, "");
    let told = world.pass(Duration::from_secs(31)).await;
    expect![[r#"
        + ConfigMap default/a v=1
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    assert_eq!(lists_and_watches(&asked), ["watch", "list", "watch"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_asked_again_in_the_same_way() {
    let (mut world, asked) = streaming();
    world.config_map("default/a v=1").await;
    world.fail("watch", "ConfigMap", 503, "ServiceUnavailable", 2);
    assert_eq!(world.watch("ConfigMap").await, "");
    assert_eq!(
        world.pass(Duration::from_secs(10)).await,
        "+ ConfigMap default/a v=1\nsynced ConfigMap in all namespaces\n"
    );
    assert_eq!(lists_and_watches(&asked), ["watch"; 3]);
}
