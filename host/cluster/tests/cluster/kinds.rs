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
    comes_and_goes(World::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_comes_and_goes_in_the_same_way_where_a_start_asked_for_the_documents_of_all_kinds() {
    comes_and_goes(World::with(|options| options.aggregated_discovery = true)).await;
}

async fn comes_and_goes(mut world: World) {
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

#[tokio::test(start_paused = true)]
async fn that_a_kind_goes_which_was_served_from_the_start_is_noticed_without_a_watch_of_definitions() {
    let mut world = World::with(|options| options.aggregated_discovery = true);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.user(&format!("POST {definitions}"), definition()).await;
    let thing = gvk("Thing.example.com");
    world.cluster.want(&thing, Scope::All, Depth::Whole);
    world.settle().await;
    let watches = |world: &World| -> u64 {
        world.cluster.stats().requests.iter().filter(|((verb, _), _)| *verb == "watch").map(|(_, n)| n).sum()
    };
    assert_eq!(watches(&world), 1, "that of things: {:?}", world.cluster.stats().requests);
    let object = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "x" } });
    world.user("POST /apis/example.com/v1/things", object.clone()).await;
    assert_eq!(world.settle().await, "+ Thing x\n");

    world.user(&format!("DELETE {definitions}/things.example.com"), json!({})).await;
    let told = world.pass(Duration::from_secs(1)).await;
    assert!(told.contains("- Thing x\n") && told.contains("serving Thing.example.com: false\n"), "{told}");

    // From now on definitions are watched, so that it is found as soon as it comes again.
    world.user(&format!("POST {definitions}"), definition()).await;
    let told = world.pass(Duration::from_secs(1)).await;
    assert!(told.contains("serving Thing.example.com: true\n"), "{told}");
    world.user("POST /apis/example.com/v1/things", object).await;
    assert_eq!(world.settle().await, "+ Thing x\n");
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
        assert!(world.cluster.resolve(&gvk("Deployment.apps")).await.expect("an answer").is_yes());
        assert!(world.cluster.resolve(&gvk("StatefulSet.apps")).await.expect("an answer").is_yes());
        assert!(!world.cluster.resolve(&gvk("Nothing.example.com")).await.expect("an answer").is_yes());
    }
    let requests = world.cluster.stats().requests;
    // Nobody is asked for the core group.
    assert_eq!(requests.get(&("get", 200)), Some(&1), "one question a group and version: {requests:?}");
    assert_eq!(requests.get(&("get", 404)), Some(&1), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_finds_the_kinds_of_all_groups_in_one_document() {
    let mut world = World::with(|options| options.aggregated_discovery = true);
    let kinds = [
        "ConfigMap",
        "Secret",
        "Deployment.apps",
        "Job.batch",
        "CustomResourceDefinition.apiextensions.k8s.io",
    ];
    for kind in kinds {
        world.cluster.want(&gvk(kind), Scope::All, Depth::Whole);
    }
    world.settle().await;
    for kind in kinds {
        assert!(world.cluster.is_in_step(&gvk(kind), &Scope::All, Depth::Whole), "{kind}");
    }
    let Some(Served::Yes { plural, namespaced, verbs }) = world.cluster.known(&gvk("Deployment.apps")) else {
        panic!("it is built in")
    };
    assert_eq!((&*plural, namespaced), ("deployments", true));
    assert!(verbs.iter().any(|verb| verb == "watch"), "{verbs:?}");
    let requests = world.cluster.stats().requests;
    let asked: u64 = requests.iter().filter(|((verb, _), _)| *verb == "get").map(|(_, count)| count).sum();
    assert_eq!(asked, 1, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_part_in_a_namespace_of_a_kind_that_lies_in_none_is_empty_and_nobody_is_asked_for_it() {
    let mut world = World::new();
    let (kind, a) = (gvk("Namespace"), Scope::Namespace("default".into()));
    world.cluster.want(&kind, a.clone(), Depth::Whole);
    assert_eq!(world.settle().await, "synced Namespace in namespace default\n");
    assert!(world.cluster.is_in_step(&kind, &a, Depth::Whole));
    assert!(world.cluster.health().complaints().is_empty(), "{:?}", world.cluster.health());
    let requests = world.cluster.stats().requests;
    assert!(requests.is_empty(), "{requests:?}");

    // The kind may become another one.
    let thing = gvk("Thing.example.com");
    world.user("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    world.cluster.want(&thing, a.clone(), Depth::Whole);
    let told = world.pass(Duration::from_secs(1)).await;
    assert!(told.starts_with("synced Thing.example.com in namespace default\n"), "{told}");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.user(&format!("DELETE {path}/things.example.com"), json!({})).await;
    world.pass(Duration::from_secs(1)).await;
    let mut namespaced = definition();
    namespaced["spec"]["scope"] = "Namespaced".into();
    world.user(&format!("POST {path}"), namespaced).await;
    world.pass(Duration::from_secs(1)).await;
    let body = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "x" } });
    world.user("POST /apis/example.com/v1/namespaces/default/things", body).await;
    assert_eq!(world.settle().await, "+ Thing default/x\n");
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
