//! How long requests take in process: `cargo run --release --example load -- 10000`.

use bytes::Bytes;
use evenkeel_sandbox::{ApiService, Sandbox, SandboxOptions};
use http::Request;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

fn send(service: &ApiService, method: &str, path: &str, kind: &str, body: &Value) -> u16 {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .header("user-agent", "load/1.0")
        .body(body)
        .expect("a request");
    service.answer(request).status().as_u16()
}

fn secret(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": format!("s-{index}"), "labels": {"app": "load", "n": format!("{}", index % 100)}},
        "stringData": {"user-data": "x".repeat(1500), "network": "y".repeat(200)},
    })
}

fn service_object(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": format!("svc-{index}"), "labels": {"app": "load"}},
        "spec": {"selector": {"app": "x"}, "ports": [{"name": "ssh", "port": 22, "targetPort": 22}, {"name": "web", "port": 80}]},
    })
}

fn measure(what: &str, count: usize, mut one: impl FnMut(usize) -> u16) {
    let start = Instant::now();
    let bad = (0..count).map(&mut one).filter(|code| *code >= 300).count();
    let each: Duration = start.elapsed() / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    println!("{what:<28} {each:>10.1?} each, {bad} refused");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let sandbox = Sandbox::new(SandboxOptions::default());
    let service = sandbox.service();
    let apply = "application/apply-patch+yaml";
    let merge = "application/merge-patch+json";
    let secrets = "/api/v1/namespaces/default/secrets";
    let services = "/api/v1/namespaces/default/services";
    measure("create secret", count, |at| send(&service, "POST", secrets, "application/json", &secret(at)));
    measure("apply service (new)", count, |at| {
        send(
            &service,
            "PATCH",
            &format!("{services}/svc-{at}?fieldManager=a&force=true"),
            apply,
            &service_object(at),
        )
    });
    measure("apply service (no change)", count, |at| {
        send(
            &service,
            "PATCH",
            &format!("{services}/svc-{at}?fieldManager=a&force=true"),
            apply,
            &service_object(at),
        )
    });
    measure("merge patch secret", count, |at| {
        send(
            &service,
            "PATCH",
            &format!("{secrets}/s-{at}"),
            merge,
            &json!({"metadata": {"labels": {"x": "y"}}}),
        )
    });
    measure("get secret", count, |at| send(&service, "GET", &format!("{secrets}/s-{at}"), "", &Value::Null));
    measure("list all by label", 20, |at| {
        send(&service, "GET", &format!("{secrets}?labelSelector=n%3D{at}"), "", &Value::Null)
    });
    measure("list all", 20, |_| send(&service, "GET", secrets, "", &Value::Null));
    measure("delete secret", count, |at| {
        send(&service, "DELETE", &format!("{secrets}/s-{at}"), "", &Value::Null)
    });
}
