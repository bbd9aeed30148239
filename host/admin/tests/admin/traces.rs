//! Spans as a collector gets them.

use std::time::Duration;

use evenkeel_admin::traces::{self, Service};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::plugin::{Copier, config_map, sandbox};

/// One request as a collector reads it: head and body.
async fn request(stream: &mut TcpStream) -> (String, Value) {
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.expect("a request");
        assert!(count > 0, "it ended early");
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().split("content-length: ").nth(1).map(str::to_owned);
        let length: usize =
            length.and_then(|rest| rest.lines().next()?.trim().parse().ok()).expect("a length");
        if body.len() >= length {
            return (head.to_owned(), serde_json::from_str(body).expect("JSON"));
        }
    }
}

fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|one| one["key"] == key);
    found.map(|one| one["value"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_pass_is_a_span_with_what_it_was_about_and_how_it_ended() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let sandbox = sandbox(jiff::Timestamp::now);
    let host =
        Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default"))).expect("a host");
    let service = Service { version: "1.2.3".into(), instance: "one".into() };
    let endpoint = format!("http://{address}").parse().expect("an endpoint");
    let _exporting = traces::export(host.journal().subscribe(), endpoint, service, 7);
    host.load(Copier::new(), PluginSettings::default()).await.expect("a plugin that loads");
    sandbox.put(config_map("x", "plain")).expect("an object");

    let (mut stream, _) = listener.accept().await.expect("the exporter comes");
    let (head, body) = request(&mut stream).await;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.expect("it takes the answer");
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    let resource = &body["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), json!({"stringValue": "evenkeel"}));
    assert_eq!(attribute(resource, "service.instance.id"), json!({"stringValue": "one"}));
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
    let of_x = |span: &&Value| attribute(span, "evenkeel.object.name") == json!({"stringValue": "x"});
    let span = spans.iter().find(of_x).unwrap_or_else(|| panic!("no span of x: {spans:#?}"));
    assert_eq!(span["name"], "pass");
    assert_eq!(span["traceId"].as_str().map(str::len), Some(32));
    assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
    assert_eq!(attribute(span, "evenkeel.outcome"), json!({"stringValue": "concluded"}));
    assert_eq!(attribute(span, "evenkeel.actions.sent"), json!({"intValue": "1"}));
    let time =
        |member: &str| span[member].as_str().and_then(|text| text.parse::<u128>().ok()).expect("a time");
    assert!(time("startTimeUnixNano") > 1_700_000_000_000_000_000);
    assert!(time("endTimeUnixNano") >= time("startTimeUnixNano"));
    host.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_collector_that_is_away_delays_nothing() {
    let sandbox = sandbox(jiff::Timestamp::now);
    let host =
        Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default"))).expect("a host");
    let endpoint = "http://127.0.0.1:1".parse().expect("an endpoint");
    let _exporting = traces::export(host.journal().subscribe(), endpoint, Service::default(), 7);
    host.load(Copier::new(), PluginSettings::default()).await.expect("a plugin that loads");
    sandbox.put(config_map("x", "plain")).expect("an object");
    for _ in 0..200 {
        if sandbox.get("v1", "ConfigMap", "a", "copy-x").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the copy never came");
}
