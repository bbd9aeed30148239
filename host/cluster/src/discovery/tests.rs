//! What is asked of an API server to find a start's kinds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use http::{Request, Response};
use kube::client::Body;

use super::*;

/// The kinds that a start asks for.
const KINDS: [&str; 6] = [
    "/v1/Pod",
    "apps/v1/Deployment",
    "apps/v1/DaemonSet",
    "broken.dev/v1/Thing",
    "new.dev/v1/Thing",
    "nowhere.dev/v1/Thing",
];

fn gvk(text: &str) -> Gvk {
    let mut parts = text.split('/');
    let mut next = || parts.next().expect("group/version/kind");
    Gvk::new(next(), next(), next())
}

/// A server that answers these paths as it is told, and that was asked for what stands in the list.
fn server(answers: &[(&str, u16, &str)]) -> (Rest, Arc<Mutex<Vec<String>>>) {
    let answers: BTreeMap<String, (u16, String)> =
        answers.iter().map(|(path, code, body)| ((*path).to_owned(), (*code, (*body).to_owned()))).collect();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let (code, body) = answers.get(&path).cloned().unwrap_or((404, "404 page not found".into()));
        lock(&log).push(format!("{path} {code}"));
        std::future::ready(Response::builder().status(code).body(Body::from(body.into_bytes())))
    });
    (Rest::new(kube::Client::new(service, "default"), Duration::from_secs(5), None), asked)
}

/// What becomes of the kinds of a start, and what was asked for them.
async fn start(discovery: &Discovery, (rest, asked): &(Rest, Arc<Mutex<Vec<String>>>)) -> String {
    let mut text = String::new();
    for kind in KINDS {
        let found = match discovery.resolve(rest, &gvk(kind)).await {
            Ok(Served::Yes { plural, namespaced, .. }) => format!("{plural}, namespaced: {namespaced}"),
            Ok(Served::No) => "not served".to_owned(),
            Err(error) => error.to_string(),
        };
        let _ = writeln!(text, "{kind}: {found}");
    }
    let _ = writeln!(text, "asked: {}", std::mem::take(&mut *lock(asked)).join(", "));
    text
}

async fn check(answers: &[(&str, u16, &str)], expected: Expect) {
    expected.assert_eq(&start(&Discovery::new(true), &server(answers)).await);
}

/// One of whose groups an API server of its own serves, which does not answer.
const NAMED: &str = r#"{"kind": "APIGroupDiscoveryList", "items": [
    {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        {"resource": "deployments", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Deployment"}},
        {"resource": "daemonsets", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "DaemonSet"}}]}]},
    {"metadata": {"name": "new.dev"}, "versions": [{"version": "v1", "freshness": "Current"}]},
    {"metadata": {"name": "broken.dev"}, "versions": [{"version": "v1", "freshness": "Stale"}]}]}"#;

const APPS_ALONE: &str = r#"{"kind": "APIResourceList", "resources": [
    {"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": ["get"]},
    {"name": "daemonsets", "kind": "DaemonSet", "namespaced": true, "verbs": ["get"]}]}"#;
const NEW_ALONE: &str = r#"{"kind": "APIResourceList", "resources": [
    {"name": "things", "kind": "Thing", "namespaced": false, "verbs": ["get"]}]}"#;

#[tokio::test]
async fn a_start_asks_for_one_document_and_by_itself_only_for_what_it_lacks() {
    let answers = [
        ("/apis", 200, NAMED),
        ("/apis/broken.dev/v1", 503, "no endpoints available"),
        // Established after the document was made.
        ("/apis/new.dev/v1", 200, NEW_ALONE),
    ];
    let expected = expect![[r#"
        /v1/Pod: pods, namespaced: true
        apps/v1/Deployment: deployments, namespaced: true
        apps/v1/DaemonSet: daemonsets, namespaced: true
        broken.dev/v1/Thing: the API server answered 503: no endpoints available
        new.dev/v1/Thing: things, namespaced: false
        nowhere.dev/v1/Thing: not served
        asked: /apis 200, /apis/broken.dev/v1 503, /apis/new.dev/v1 200
    "#]];
    check(&answers, expected).await;
}

#[tokio::test]
async fn a_server_without_a_document_is_asked_group_by_group_from_then_on() {
    let old = r#"{"kind": "APIGroupList", "groups": []}"#;
    let found = "\
        /v1/Pod: pods, namespaced: true\n\
        apps/v1/Deployment: deployments, namespaced: true\n\
        apps/v1/DaemonSet: daemonsets, namespaced: true\n\
        broken.dev/v1/Thing: not served\n\
        new.dev/v1/Thing: not served\n\
        nowhere.dev/v1/Thing: not served\n";
    let groups = "/apis/apps/v1 200, /apis/broken.dev/v1 404, /apis/new.dev/v1 404, /apis/nowhere.dev/v1 404";
    for (code, body) in
        [(406, ""), (200, old), (403, ""), (404, ""), (500, ""), (200, "{"), (200, "not JSON")]
    {
        let answers = [("/apis", code, body), ("/apis/apps/v1", 200, APPS_ALONE)];
        let told = start(&Discovery::new(true), &server(&answers)).await;
        let asked = format!("asked: /apis {code}, {groups}\n");
        assert_eq!(told, format!("{found}{asked}"), "{code} {body}");
    }
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_asked_for_its_document_again() {
    let (discovery, deployment) = (Discovery::new(true), gvk("apps/v1/Deployment"));
    for code in [401, 429, 503] {
        let busy = server(&[("/apis", code, "wait"), ("/apis/apps/v1", 200, APPS_ALONE)]);
        let error = discovery.resolve(&busy.0, &deployment).await.expect_err("it has to wait");
        assert_eq!((error.code(), lock(&busy.1).len()), (Some(code), 1));
        assert_eq!(discovery.reach(&busy.0).await.expect_err("it has to wait").code(), Some(code));
    }
    let well = server(&[("/apis", 200, NAMED)]);
    assert!(discovery.resolve(&well.0, &deployment).await.expect("an answer").is_yes());
    assert_eq!(*lock(&well.1), ["/apis 200"]);
}

#[tokio::test]
async fn whether_a_server_answers_is_found_out_by_what_the_start_needs_anyway() {
    let well = server(&[("/apis", 200, NAMED)]);
    let discovery = Discovery::new(true);
    for _ in 0..2 {
        discovery.reach(&well.0).await.expect("it answers");
    }
    assert!(discovery.resolve(&well.0, &gvk("apps/v1/Deployment")).await.expect("an answer").is_yes());
    assert_eq!(*lock(&well.1), ["/apis 200"]);
    // One that forbids it, or has none, answers all the same.
    for code in [403, 404] {
        let other = server(&[("/apis", code, "")]);
        Discovery::new(true).reach(&other.0).await.expect("it answers");
    }
    let sandbox = server(&[("/version", 200, "{}")]);
    Discovery::new(false).reach(&sandbox.0).await.expect("it answers");
    assert_eq!(*lock(&sandbox.1), ["/version 200"]);
}

#[tokio::test]
async fn a_kind_of_the_core_group_that_is_not_served_after_all_is_believed_to_be_gone_once_its_server_says_so()
 {
    let discovery = Discovery::new(true);
    let (pod, service) = (gvk("/v1/Pod"), gvk("/v1/Service"));
    let odd = server(&[("/api/v1", 200, r#"{"resources": [{"name": "services", "kind": "Service"}]}"#)]);
    assert!(discovery.resolve(&odd.0, &pod).await.expect("an answer").is_yes());
    assert!(discovery.resolve(&odd.0, &service).await.expect("an answer").is_yes());
    // As a watch does that finds the collection gone.
    let changed = discovery.recheck(&odd.0, |gvk, _| *gvk == pod).await.expect("an answer");
    assert_eq!(changed, [(pod.clone(), false)]);
    assert!(!discovery.resolve(&odd.0, &pod).await.expect("an answer").is_yes());
    assert!(discovery.resolve(&odd.0, &service).await.expect("an answer").is_yes());
    assert_eq!(*lock(&odd.1), ["/api/v1 200"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_first_asked_for_after_the_start_is_asked_for_by_itself_but_for_what_kubernetes_itself_has() {
    let document = NAMED.replace(r#""name": "new.dev"}, "versions": [{"version": "v1", "freshness": "Current""#,
        r#""name": "new.dev"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [{"resource": "things",
            "scope": "Cluster", "verbs": ["get"], "responseKind": {"kind": "Thing"}}]"#);
    let world = server(&[("/apis", 200, &document), ("/apis/new.dev/v1", 200, NEW_ALONE)]);
    let discovery = Discovery::new(true);
    discovery.reach(&world.0).await.expect("it answers");
    tokio::time::sleep(Duration::from_secs(11)).await;
    for (kind, served) in [
        ("apps/v1/Deployment", true),
        ("new.dev/v1/Thing", true),
        // It may have come since.
        ("apps/v1/StatefulSet", false),
        ("nowhere.dev/v1/Thing", false),
    ] {
        assert_eq!(
            discovery.resolve(&world.0, &gvk(kind)).await.expect("an answer").is_yes(),
            served,
            "{kind}"
        );
    }
    assert_eq!(
        *lock(&world.1),
        ["/apis 200", "/apis/new.dev/v1 200", "/apis/apps/v1 404", "/apis/nowhere.dev/v1 404"]
    );
}

#[tokio::test]
async fn twenty_who_ask_at_once_are_told_by_one_answer() {
    let (discovery, world) = (Discovery::new(true), server(&[("/apis", 200, NAMED)]));
    let all = ["/v1/Pod", "apps/v1/Deployment", "apps/v1/DaemonSet"].map(gvk);
    let asking = (0..20).map(|number| discovery.resolve(&world.0, &all[number % all.len()]));
    for served in futures::future::join_all(asking).await {
        assert!(served.expect("an answer").is_yes());
    }
    assert_eq!(*lock(&world.1), ["/apis 200"]);
}

#[tokio::test]
async fn where_it_is_not_wanted_no_document_is_asked_for() {
    let world = server(&[("/apis", 200, NAMED), ("/apis/apps/v1", 200, APPS_ALONE)]);
    let served = Discovery::new(false).resolve(&world.0, &gvk("apps/v1/Deployment")).await;
    assert!(served.expect("an answer").is_yes());
    assert_eq!(*lock(&world.1), ["/apis/apps/v1 200"]);
}
