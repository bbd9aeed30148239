//! Watches.

use super::lifecycle::{THINGS, definition, thing};
use super::{CONFIGS, Client, config};
use bytes::Bytes;
use evenkeel_sandbox::{ApiBody, Cut};
use http_body::Body;
use serde_json::{Value, json};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// An open watch, read as far as there is something.
struct Watch(Pin<Box<ApiBody>>);

impl Watch {
    fn open(client: &Client, path: &str) -> Watch {
        let request = http::Request::builder().uri(path).body(Bytes::new()).unwrap();
        Watch(Box::pin(client.sandbox.service().answer(request).into_body()))
    }

    /// What came, as `TYPE name@relative-revision`; `END` where the stream ended.
    fn read(&mut self) -> Vec<Value> {
        let mut context = Context::from_waker(Waker::noop());
        let mut events = Vec::new();
        loop {
            match self.0.as_mut().poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let data = frame.into_data().unwrap();
                    let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                    events.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
                }
                Poll::Ready(_) => {
                    events.push(json!({"type": "END"}));
                    return events;
                }
                Poll::Pending => return events,
            }
        }
    }

    fn names(&mut self) -> Vec<String> {
        let events = self.read();
        let shown = events.iter().map(|event| {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            format!("{} {name}", event["type"].as_str().unwrap()).trim().to_owned()
        });
        shown.collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_is_there_and_then_what_happens() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let mut watch = Watch::open(&client, &format!("{CONFIGS}?watch=1"));
    assert_eq!(watch.names(), ["ADDED a"]);
    client.ok("POST", CONFIGS, "", &config("b", json!({})));
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &json!({"data": {"x": "1"}}));
    client.ok("DELETE", &format!("{CONFIGS}/b"), "", &Value::Null);
    assert_eq!(watch.names(), ["ADDED b", "MODIFIED a", "DELETED b"]);
    client.sandbox.cut_watches(&Cut::default());
    assert_eq!(watch.names(), ["END"]);
}

#[tokio::test(start_paused = true)]
async fn a_selector_turns_changes_into_arrivals_and_departures() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let mut watch = Watch::open(&client, &format!("{CONFIGS}?watch=1&labelSelector=on"));
    let label = |value: Value| json!({"metadata": {"labels": {"on": value}}});
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &label(json!("yes")));
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &label(json!("still")));
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &label(Value::Null));
    client.ok("DELETE", &format!("{CONFIGS}/a"), "", &Value::Null);
    assert_eq!(watch.names(), ["ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_a_revision_unless_it_is_forgotten() {
    let client = Client::new();
    let made = client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap();
    client.ok("POST", CONFIGS, "", &config("b", json!({})));
    let path = format!("{CONFIGS}?watch=1&resourceVersion={revision}");
    assert_eq!(Watch::open(&client, &path).names(), ["ADDED b"]);
    client.sandbox.cut_watches(&Cut { expire: true, ..Cut::default() });
    let events = Watch::open(&client, &path).read();
    assert_eq!(events[0]["object"]["reason"], "Expired");
    assert_eq!((&events[0]["object"]["code"], &events[1]["type"]), (&json!(410), &json!("END")));
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events = Watch::open(&client, &format!("{CONFIGS}?{query}")).read();
    assert_eq!(events[0]["type"], "ADDED");
    assert_eq!(events[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_by_the_minute_and_the_timeout_ends_the_watch() {
    let client = Client::new();
    let mut watch =
        Watch::open(&client, &format!("{CONFIGS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=90"));
    assert_eq!(watch.names(), Vec::<String>::new());
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(watch.names(), ["BOOKMARK"]);
    tokio::time::advance(std::time::Duration::from_secs(30)).await;
    assert_eq!(watch.names(), ["END"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_metadata_shows_nothing_else() {
    let client = Client::new();
    client.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", &definition());
    client.ok("POST", THINGS, "", &thing("a", json!({"size": 5})));
    let request = http::Request::builder()
        .uri(format!("{THINGS}?watch=1"))
        .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .body(Bytes::new())
        .unwrap();
    let mut watch = Watch(Box::pin(client.sandbox.service().answer(request).into_body()));
    let event = watch.read().remove(0);
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!((event["object"].get("spec"), &event["object"]["metadata"]["name"]), (None, &json!("a")));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_shows_its_objects_go_first() {
    let client = Client::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.ok("POST", definitions, "", &definition());
    client.ok("POST", THINGS, "", &thing("a", json!({"size": 5})));
    let mut watch = Watch::open(&client, &format!("{THINGS}?watch=1"));
    assert_eq!(watch.names(), ["ADDED a"]);
    client.ok("DELETE", &format!("{definitions}/things.example.com"), "", &Value::Null);
    assert_eq!(watch.names(), ["DELETED a", "END"]);
}

/// Counts how often a watch is woken.
#[derive(Default)]
struct Wakes(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_sleeps_while_others_are_written() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let mut watch = Watch::open(&client, &format!("{CONFIGS}?watch=1&fieldSelector=metadata.name%3Da"));
    assert_eq!(watch.names(), ["ADDED a"]);
    let wakes = std::sync::Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    assert!(watch.0.as_mut().poll_frame(&mut Context::from_waker(&waker)).is_pending());
    for name in ["b", "c", "d"] {
        client.ok("POST", CONFIGS, "", &config(name, json!({})));
    }
    let woken = || wakes.0.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(woken(), 0, "nothing happened to a");
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &json!({"data": {"x": "1"}}));
    assert_eq!(woken(), 1);
    client.ok("DELETE", &format!("{CONFIGS}/a"), "", &Value::Null);
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    assert_eq!(watch.names(), ["MODIFIED a", "DELETED a", "ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_object_is_cut_and_expires_like_any_other() {
    let client = Client::new();
    let made = client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let version = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let query = format!("watch=1&fieldSelector=metadata.name%3Da&resourceVersion={version}");
    let mut watch = Watch::open(&client, &format!("{CONFIGS}?{query}"));
    assert_eq!(watch.names(), [""; 0]);
    client.ok("POST", CONFIGS, "", &config("b", json!({})));
    client.sandbox.cut_watches(&Cut { kind: None, expire: true });
    assert_eq!(watch.names(), ["END"]);
    let mut late = Watch::open(&client, &format!("{CONFIGS}?{query}"));
    assert_eq!(late.names(), ["ERROR", "END"]);
}
