use std::time::Duration;

use evenkeel_cluster::{Depth, Lookup, Scope, Served};
use evenkeel_core::contract::ObjectRef;
use expect_test::expect;
use serde_json::{Value, json};

use crate::world::{World, gvk};

pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": { "kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }
            }]
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_and_goes_is_told_and_its_objects_with_it() {
    let mut world = World::new();
    let thing = gvk("Thing.example.com");
    let x = ObjectRef::new(thing.clone(), None, "x");
    world.cluster.want(&thing, Scope::All, Depth::Whole);
    let told = world.settle().await;
    assert!(told.contains("serving Thing.example.com: false"), "{told}");
    assert!(matches!(world.cluster.get(&x), Lookup::Unserved));
    assert!(world.cluster.is_settled(&thing, &Scope::All, Depth::Whole));

    world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    world.pass(Duration::from_secs(1)).await;
    assert!(matches!(world.cluster.get(&x), Lookup::Absent), "{:?}", world.cluster.get(&x));
    let body = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "x" } });
    world.user("POST /apis/example.com/v1/things", body).await;
    assert_eq!(world.settle().await, "+ Thing x\n");

    world
        .user("DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com", json!({}))
        .await;
    let told = world.pass(Duration::from_secs(1)).await;
    assert!(told.contains("- Thing x\n") && told.contains("serving Thing.example.com: false\n"), "{told}");
    assert!(matches!(world.cluster.get(&x), Lookup::Unserved));

    world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    let told = world.pass(Duration::from_secs(1)).await;
    assert!(told.contains("serving Thing.example.com: true\n"), "{told}");
    assert!(told.ends_with("synced Thing.example.com in all namespaces\n"), "{told}");
}

/// Whether the kind is served within this time, asked for every 50 ms as whoever installs a definition does.
async fn served_within(world: &World, kind: &str, time: Duration) -> bool {
    let served = async {
        while !world.cluster.resolve(&gvk(kind)).await.expect("an answer").is_yes() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(time, served).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn who_asks_all_the_time_whether_a_kind_is_served_is_told_soon_after_it_is() {
    let world = World::new();
    world.serve_belatedly(3);
    assert!(!world.cluster.resolve(&gvk("Thing.example.com")).await.expect("an answer").is_yes());
    world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    assert!(served_within(&world, "Thing.example.com", Duration::from_secs(2)).await);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_still_looked_for_soon_after_another_group_has_got_one() {
    let world = World::new();
    world.serve_belatedly(3);
    for kind in ["Thing.example.com", "Thing.example.org"] {
        assert!(!world.cluster.resolve(&gvk(kind)).await.expect("an answer").is_yes());
    }
    let mut other = definition();
    other["metadata"]["name"] = "things.example.org".into();
    other["spec"]["group"] = "example.org".into();
    for definition in [definition(), other] {
        world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(served_within(&world, "Thing.example.org", Duration::from_millis(100)).await);
    assert!(served_within(&world, "Thing.example.com", Duration::from_secs(2)).await);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_first_asked_for_after_its_definition_came_is_looked_for_soon_too() {
    let world = World::new();
    assert!(!world.cluster.resolve(&gvk("Other.example.org")).await.expect("an answer").is_yes());
    world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    world.serve_belatedly(2);
    assert!(!world.cluster.resolve(&gvk("Thing.example.com")).await.expect("an answer").is_yes());
    assert!(served_within(&world, "Thing.example.com", Duration::from_secs(2)).await);
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_resolved_once() {
    let world = World::new();
    for _ in 0..3 {
        let served = world.cluster.resolve(&gvk("ConfigMap")).await.expect("an answer");
        let Served::Yes { plural, namespaced, verbs } = served else { panic!("it is built in") };
        assert_eq!((&*plural, namespaced), ("configmaps", true));
        assert!(verbs.iter().any(|verb| verb == "watch"));
        assert!(world.cluster.resolve(&gvk("Secret")).await.expect("an answer").is_yes());
        assert!(!world.cluster.resolve(&gvk("Nothing.example.com")).await.expect("an answer").is_yes());
    }
    let requests = world.cluster.stats().requests;
    // The second is the one about CustomResourceDefinitions, which may bring what is not there.
    assert_eq!(requests.get(&("get", 200)), Some(&2), "one question a group and version: {requests:?}");
    assert_eq!(requests.get(&("get", 404)), Some(&1), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_watched_says_so() {
    let mut world = World::new();
    let review = gvk("TokenReview.authentication.k8s.io");
    world.cluster.want(&review, Scope::All, Depth::Whole);
    world.settle().await;
    let trouble = world.cluster.trouble(&review, &Scope::All, Depth::Whole).expect("it says why");
    expect!["TokenReview.authentication.k8s.io cannot be watched: the API server does not offer list"]
        .assert_eq(&trouble.message);
}
