use evenkeel_core::contract::{GetQuery, Query};
use serde_json::json;

use crate::world::{World, all, config_map, gvk};

fn get(place: &str) -> Query {
    Query::Get(GetQuery { object: config_map(place), view: vec![] })
}

/// A world whose watches have just stopped to say anything.
async fn deaf(objects: &[&str]) -> World {
    let mut world = World::new();
    for text in objects {
        world.config_map(text).await;
    }
    world.watch("ConfigMap").await;
    world.freeze();
    world
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_on_one_object_is_found_out_and_mended() {
    let mut world = deaf(&["default/x v=1", "default/y v=1"]).await;
    let queries = [get("default/x"), get("default/y"), get("default/z"), Query::Clock];
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true));
    world.config_map("default/x v=2").await;
    world.config_map("default/z v=1").await;
    world.user("DELETE /api/v1/namespaces/default/configmaps/y", json!({})).await;
    assert_eq!(world.cluster.fresh(&queries).await, Ok(false));
    assert_eq!(world.list(""), "default/x v=2, default/z v=1");
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true));
    assert_eq!(
        world.settle().await,
        "~ ConfigMap default/x v=2\n- ConfigMap default/y v=1\n+ ConfigMap default/z v=1\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_on_a_list_is_found_out_and_mended() {
    let world = deaf(&["default/x v=1", "default/y v=1", "default/other w=1"]).await;
    let queries = [Query::List(all("ConfigMap", "v"))];
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true));
    world.config_map("default/other w=2").await;
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true), "nobody asked about that one");
    world.config_map("default/x w=1").await;
    world.config_map("default/new v=1").await;
    world.user("DELETE /api/v1/namespaces/default/configmaps/y", json!({})).await;
    assert_eq!(world.cluster.fresh(&queries).await, Ok(false));
    assert_eq!(world.list("v"), "default/new v=1");
    assert_eq!(world.list(""), "default/new v=1, default/other w=1, default/x w=1");
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true));
    assert_eq!(world.cluster.fresh(&[Query::List(all("ConfigMap", ""))]).await, Ok(false));
    assert_eq!(world.cluster.fresh(&[Query::List(all("ConfigMap", ""))]).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_asked_for_anew() {
    let world = World::new();
    let queries = [Query::List(all("Thing.example.com", ""))];
    world.cluster.resolve(&gvk("Thing.example.com")).await.expect("an answer");
    assert_eq!(world.cluster.fresh(&queries).await, Ok(true));
    world.sandbox.put(crate::kinds::definition()).expect("a definition");
    assert_eq!(world.cluster.fresh(&queries).await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_a_failure_and_not_an_answer() {
    let world = deaf(&["default/x v=1"]).await;
    world.fail("get", "ConfigMap", 500, "InternalError", 1);
    let failure = world.cluster.fresh(&[get("default/x")]).await.expect_err("nobody knows");
    assert_eq!(failure.message, "cannot get ConfigMap default/x: InternalError on demand (500)");
}
