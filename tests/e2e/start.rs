//! What a start asks the API server for.

use std::collections::BTreeSet;

use evenkeel_test_cluster::PlaneOptions;
use evenkeel_test_cluster::audit::{Asked, Audit};
use expect_test::expect;
use serde_json::json;

use crate::host::HostOptions;
use crate::kite;
use crate::world::{World, until};

/// The host's account, as the API server knows it.
const HOST: &str = "system:serviceaccount:evenkeel-system:evenkeel";

/// A group that an API server of its own is said to serve, which is not there.
async fn break_a_group(world: &World) {
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.broken.example.test"},
        "spec": {
            "group": "broken.example.test", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"namespace": "default", "name": "nobody"}, "insecureSkipTLSVerify": true,
        },
    });
    world.must("POST", "/apis/apiregistration.k8s.io/v1/apiservices", &service).await;
    until("the document tells of the group that is broken", async || {
        let document = world.aggregated("/apis").await;
        let groups = document["items"].as_array().cloned().unwrap_or_default();
        let broken = groups.iter().find(|group| group["metadata"]["name"] == "broken.example.test");
        match broken.map(|group| &group["versions"][0]["freshness"]) {
            Some(freshness) if freshness == "Stale" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// What was asked since, sorted; reviews of rights are left out, which are as many as the account has rules.
fn reads(asked: &[Asked]) -> Vec<&Asked> {
    let mut reads: Vec<_> = asked.iter().filter(|asked| asked.verb != "create").collect();
    reads.sort();
    reads
}

/// Of what a watch is: the collection, and the one name in it.
fn part(uri: &str) -> String {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let name = query.split('&').find(|word| word.starts_with("fieldSelector="));
    name.map_or_else(|| path.to_owned(), |name| format!("{path} {name}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_start_finds_its_kinds_in_one_document_and_its_objects_in_one_watch_a_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (audit, apiserver) = Audit::in_folder(folder.path(), &[HOST]).expect("a policy");
    let options = PlaneOptions { controllers: vec![], apiserver, ..PlaneOptions::default() };
    let Some(world) = World::with("what a start asks for", options).await else { return };
    kite::configure(&world).await;
    break_a_group(&world).await;
    let mut host = world.host("host", HostOptions::default());
    kite::create_all(&world, 0..5).await;
    kite::all_ready(&world, 5).await;
    kite::at_rest(&world, &host).await;

    let before = audit.requests(HOST).expect("an audit log").len();
    host.crash().await;
    host.ready().await;
    kite::at_rest(&world, &host).await;
    let asked = audit.requests(HOST).expect("an audit log").split_off(before);

    let of = |verb: &str| -> Vec<&str> {
        reads(&asked).into_iter().filter(|asked| asked.verb == verb).map(|asked| asked.uri.as_str()).collect()
    };
    // Whether it answers at all is told by the same answer.
    assert_eq!(of("get"), ["/apis"]);
    assert_eq!(of("list"), [""; 0], "everything comes as the beginning of a watch");
    let watched = of("watch");
    for uri in &watched {
        assert!(uri.contains("sendInitialEvents=true"), "{uri}");
    }
    let parts: BTreeSet<String> = watched.iter().map(|uri| part(uri)).collect();
    assert_eq!(parts.len(), watched.len(), "one each: {watched:#?}");
    let parts: Vec<_> = parts.into_iter().collect();
    // Definitions, since the kinds of KubeVirt and CDI are missing here.
    expect![[r#"
        /api/v1/namespaces
        /api/v1/namespaces/kite/configmaps fieldSelector=metadata.name%3Dkite-runtime-config
        /api/v1/resourcequotas fieldSelector=metadata.name%3Dkite-user-quota-policy
        /api/v1/services
        /apis/anacnu.com/v1/kiteusers
        /apis/anacnu.com/v1/kitevirtualmachines
        /apis/apiextensions.k8s.io/v1/customresourcedefinitions
        /apis/networking.k8s.io/v1/networkpolicies fieldSelector=metadata.name%3Ddeny-from-other-namespaces
        /apis/networking.k8s.io/v1/networkpolicies fieldSelector=metadata.name%3Dtenant-isolation-egress
    "#]]
    .assert_eq(&format!("{}\n", parts.join("\n")));
    let other =
        asked.iter().filter(|asked| !["get", "list", "watch", "create"].contains(&asked.verb.as_str()));
    assert_eq!(other.count(), 0, "nothing is written at a restart: {asked:#?}");
}
