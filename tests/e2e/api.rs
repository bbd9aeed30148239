//! What an API server does besides answering: it is busy, forgets history, replaces tokens, serves kinds and ceases to.

use std::time::Duration;

use evenkeel_test_cluster::PlaneOptions;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::host::{HostOptions, post};
use crate::kite;
use crate::world::{World, evenkeel, kite_component, until};

/// Definitions that have nothing to do with the host.
const FOREIGN_KINDS: usize = 200;
/// What so many foreign definitions may cost at the start, in MiB.
const FOREIGN_MEMORY_MAX: f64 = 16.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn an_api_server_that_sends_everybody_away_is_asked_again_when_it_says() {
    let busy = [
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=2",
        "--max-mutating-requests-inflight=1",
    ];
    let options = PlaneOptions {
        controllers: vec![],
        apiserver: busy.map(str::to_owned).to_vec(),
        ..PlaneOptions::default()
    };
    let Some(world) = World::with("an API server that is busy", options).await else { return };
    kite::configure(&world).await;
    // All at once; the administrator, who makes them, is never sent away.
    kite::create_all(&world, 0..60).await;
    let host = world.host("host", HostOptions::default());
    let took = kite::all_ready(&world, 60).await;
    let refused = host.sum("rest_client_requests_total", &["code=\"429\""]).await;
    assert!(refused >= 1.0, "nobody was sent away");
    kite::at_rest(&world, &host).await;
    eprintln!("60 users are ready after {took:?}, {refused} requests were sent away meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_watch_whose_past_is_forgotten_lists_anew_and_misses_nothing() {
    let Some(mut world) = World::start("a watch that expires").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", HostOptions::default());
    host.ready().await;
    kite::create_all(&world, 0..10).await;
    kite::all_ready(&world, 10).await;
    let lists = host.sum("evenkeel_api_requests_total", &["verb=\"list\""]).await;

    // While the host sees nothing, one goes, one comes, and etcd forgets how that was; with a new server nobody else
    // remembers it either.
    host.process().freeze();
    kite::delete(&world, &kite::name(0)).await;
    kite::create(&world, &kite::name(10)).await;
    let revision = world.must("GET", "/apis/anacnu.com/v1/kiteusers?limit=1", &Value::Null).await;
    let revision = revision["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    let compact = json!({"revision": revision, "physical": true}).to_string();
    let (code, text) =
        post(&world.plane.etcd().to_string(), "/v3/kv/compaction", &compact).await.expect("etcd");
    assert_eq!(code, 200, "{text}");
    let server = world.plane.part("kube-apiserver").expect("an API server");
    server.start_again().await.expect("it starts");
    world.plane.ready().await.expect("it is ready");
    host.process().thaw();

    let user = kite::path(&kite::name(0));
    until("who went is gone", async || match world.get(&user).await {
        Value::Null => Ok(()),
        user => Err(user.to_string()),
    })
    .await;
    kite::all_ready(&world, 10).await;
    host.ready().await;
    kite::at_rest(&world, &host).await;
    let listed = host.sum("evenkeel_api_requests_total", &["verb=\"list\""]).await - lists;
    assert!(listed >= 1.0, "no watch listed anew");
    eprintln!("{listed} lists after the past was forgotten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_token_that_is_replaced_is_taken_up() {
    let Some(world) = World::start("a token that is replaced").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", HostOptions::default());
    host.ready().await;
    // A token is for one life of its account: with another account of that name the old one is worth nothing.
    let old = std::fs::read_to_string(world.place("host.token")).expect("a token");
    let path = "/api/v1/namespaces/evenkeel-system/serviceaccounts/evenkeel";
    world.must("DELETE", path, &Value::Null).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "evenkeel"}});
    world.must("POST", "/api/v1/namespaces/evenkeel-system/serviceaccounts", &account).await;
    until("the old token is refused", async || {
        let answer = world.admin.with_token(&old).get("/api").await;
        match answer.map(|answer| answer.status.as_u16()) {
            Ok(401) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    kite::create(&world, "later").await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.get(&kite::path("later")).await["status"], Value::Null, "nobody is let in any more");
    world.kubeconfig("host", world.plane.address().port());
    let took = kite::all_ready(&world, 1).await;
    host.ready().await;
    assert!(host.process().runs(), "it is the same process");
    eprintln!("the new token was taken up after {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn kinds_come_and_go_while_it_runs_and_hundreds_of_others_cost_nothing() {
    let Some(world) = World::start("kinds that come and go").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", HostOptions::default());
    host.ready().await;
    let alone = host.memory().await;
    define_foreign(&world).await;
    host.crash().await;
    host.ready().await;
    let among = host.memory().await;
    eprintln!("at the start {alone:.1} MiB, with {FOREIGN_KINDS} other kinds {among:.1} MiB");
    assert!(among - alone < FOREIGN_MEMORY_MAX, "{alone:.1} MiB alone, {among:.1} MiB among others");

    kite::create_all(&world, 0..3).await;
    kite::all_ready(&world, 3).await;
    // The kind goes, and its users with it; nothing holds them back, since their host sees to their finalizers.
    world.kubectl(&["delete", "crd", "kiteusers.anacnu.com", "--timeout=60s"], "");
    until("the host has noticed", async || {
        let cached = host.sum("evenkeel_cache_objects", &["kind=\"KiteUser"]).await;
        if cached < 0.5 { Ok(()) } else { Err(format!("{cached} users")) }
    })
    .await;
    let (alive, text) = host.page("/livez").await.expect("it answers");
    assert_eq!(alive, 200, "{text}");
    let crds = evenkeel(&["scaffold", "crds", &kite_component().display().to_string()]);
    world.kubectl(&["apply", "--server-side", "-f", "-"], &crds);
    kite::create_all(&world, 3..6).await;
    let took = kite::all_ready(&world, 3).await;
    eprintln!("users of the kind that came back are ready after {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    host.ready().await;
}

/// Defines kinds in groups of their own.
async fn define_foreign(world: &World) {
    let definitions: Vec<Value> = (0..FOREIGN_KINDS)
        .map(|number| {
            let (group, plural) = (format!("g{number}.example.test"), format!("things{number}"));
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced",
                    "names": {"plural": plural, "singular": format!("thing{number}"), "kind": format!("Thing{number}")},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }}}],
                },
            })
        })
        .collect();
    for definition in &definitions {
        world.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
}
