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
    "/v1/Service",
    "apps/v1/Deployment",
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

const CORE: &str = r#"{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": [
    {"version": "v1", "freshness": "Current", "resources": [
        {"resource": "pods", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Pod"}},
        {"resource": "services", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Service"}}]}]}]}"#;

/// One of whose groups an API server of its own serves, which does not answer.
const NAMED: &str = r#"{"kind": "APIGroupDiscoveryList", "items": [
    {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        {"resource": "deployments", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Deployment"}}]}]},
    {"metadata": {"name": "new.dev"}, "versions": [{"version": "v1", "freshness": "Current"}]},
    {"metadata": {"name": "broken.dev"}, "versions": [{"version": "v1", "freshness": "Stale"}]}]}"#;

const CORE_ALONE: &str = r#"{"kind": "APIResourceList", "resources": [
    {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get"]},
    {"name": "services", "kind": "Service", "namespaced": true, "verbs": ["get"]}]}"#;
const APPS_ALONE: &str = r#"{"kind": "APIResourceList", "resources": [
    {"name": "deployments", "kind": "Deployment", "namespaced": true, "verbs": ["get"]}]}"#;
const NEW_ALONE: &str = r#"{"kind": "APIResourceList", "resources": [
    {"name": "things", "kind": "Thing", "namespaced": false, "verbs": ["get"]}]}"#;

#[tokio::test]
async fn a_start_asks_for_two_documents_and_by_itself_only_for_what_they_lack() {
    let answers = [
        ("/api", 200, CORE),
        ("/apis", 200, NAMED),
        ("/apis/broken.dev/v1", 503, "no endpoints available"),
        // Established after the document was made.
        ("/apis/new.dev/v1", 200, NEW_ALONE),
    ];
    let expected = expect![[r#"
        /v1/Pod: pods, namespaced: true
        /v1/Service: services, namespaced: true
        apps/v1/Deployment: deployments, namespaced: true
        broken.dev/v1/Thing: the API server answered 503: no endpoints available
        new.dev/v1/Thing: things, namespaced: false
        nowhere.dev/v1/Thing: not served
        asked: /api 200, /apis 200, /apis/broken.dev/v1 503, /apis/new.dev/v1 200
    "#]];
    check(&answers, expected).await;
}

#[tokio::test]
async fn a_server_without_documents_is_asked_group_by_group_from_then_on() {
    let alone = [("/api/v1", 200, CORE_ALONE), ("/apis/apps/v1", 200, APPS_ALONE)];
    let old = r#"{"kind": "APIGroupList", "groups": []}"#;
    let found = "\
        /v1/Pod: pods, namespaced: true\n\
        /v1/Service: services, namespaced: true\n\
        apps/v1/Deployment: deployments, namespaced: true\n\
        broken.dev/v1/Thing: not served\n\
        new.dev/v1/Thing: not served\n\
        nowhere.dev/v1/Thing: not served\n";
    let groups = "/apis/apps/v1 200, /apis/broken.dev/v1 404, /apis/new.dev/v1 404, /apis/nowhere.dev/v1 404";
    for (code, body) in
        [(406, ""), (200, old), (403, ""), (404, ""), (500, ""), (200, "{"), (200, "not JSON")]
    {
        let answers = [("/api", code, body), ("/apis", code, body), alone[0], alone[1]];
        let told = start(&Discovery::new(true), &server(&answers)).await;
        let asked = format!("asked: /api {code}, /api/v1 200, /apis {code}, {groups}\n");
        assert_eq!(told, format!("{found}{asked}"), "{code} {body}");
    }
}

#[tokio::test]
async fn a_server_that_asks_to_wait_is_asked_for_its_documents_again() {
    let discovery = Discovery::new(true);
    for code in [401, 429, 503] {
        let busy = server(&[("/api", code, "wait"), ("/api/v1", 200, CORE_ALONE)]);
        let error = discovery.resolve(&busy.0, &gvk(KINDS[0])).await.expect_err("it has to wait");
        assert_eq!((error.code(), lock(&busy.1).len()), (Some(code), 1));
    }
    let well = server(&[("/api", 200, CORE)]);
    assert!(discovery.resolve(&well.0, &gvk(KINDS[0])).await.expect("an answer").is_yes());
    assert_eq!(*lock(&well.1), ["/api 200"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_first_asked_for_after_the_start_is_asked_for_by_itself() {
    let discovery = Discovery::new(true);
    let world = server(&[
        ("/api", 200, CORE),
        ("/api/v1", 200, CORE_ALONE),
        ("/apis", 200, NAMED),
        ("/apis/apps/v1", 200, APPS_ALONE),
    ]);
    assert!(discovery.resolve(&world.0, &gvk("/v1/Pod")).await.expect("an answer").is_yes());
    assert!(!discovery.resolve(&world.0, &gvk("new.dev/v1/Thing")).await.expect("an answer").is_yes());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(discovery.resolve(&world.0, &gvk("/v1/Pod")).await.expect("an answer").is_yes());
    assert!(discovery.resolve(&world.0, &gvk("apps/v1/Deployment")).await.expect("an answer").is_yes());
    assert_eq!(*lock(&world.1), ["/api 200", "/apis 200", "/apis/new.dev/v1 404", "/apis/apps/v1 200"]);
}

#[tokio::test]
async fn twenty_who_ask_at_once_are_told_by_one_answer() {
    let (discovery, world) = (Discovery::new(true), server(&[("/api", 200, CORE), ("/apis", 200, NAMED)]));
    let all = ["/v1/Pod", "/v1/Service", "apps/v1/Deployment"].map(gvk);
    let asking = (0..20).map(|number| discovery.resolve(&world.0, &all[number % all.len()]));
    for served in futures::future::join_all(asking).await {
        assert!(served.expect("an answer").is_yes());
    }
    let mut asked = lock(&world.1).clone();
    asked.sort();
    assert_eq!(asked, ["/api 200", "/apis 200"]);
}

#[tokio::test]
async fn where_it_is_not_wanted_no_document_is_asked_for() {
    let world = server(&[("/api", 200, CORE), ("/api/v1", 200, CORE_ALONE)]);
    assert!(Discovery::new(false).resolve(&world.0, &gvk("/v1/Pod")).await.expect("an answer").is_yes());
    assert_eq!(*lock(&world.1), ["/api/v1 200"]);
}
