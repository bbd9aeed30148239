//! The API as a client sees it: requests in, answers out.

use bytes::Bytes;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use http::Request;
use serde_json::{Value, json};
use std::sync::Arc;

mod apply;
mod basics;
mod lifecycle;
mod watching;

/// A client with a fixed clock.
pub(crate) struct Client {
    pub(crate) sandbox: Sandbox,
}

impl Client {
    pub(crate) fn new() -> Client {
        let options = SandboxOptions::new(Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap()));
        Client { sandbox: Sandbox::new(options) }
    }

    /// Sends a request; `kind` is the content type (`""` for JSON). The answer's code and body.
    pub(crate) fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let kind = match kind {
            "" => "application/json",
            "merge" => "application/merge-patch+json",
            "json" => "application/json-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => other,
        };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .header("user-agent", "test/1.0")
            .body(body)
            .unwrap();
        let response = self.sandbox.service().answer(request);
        let code = response.status().as_u16();
        let bytes = response.body().bytes().expect("no watch").to_vec();
        let value = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        (code, value)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "", &Value::Null)
    }

    /// A request that must succeed.
    pub(crate) fn ok(&self, method: &str, path: &str, kind: &str, body: &Value) -> Value {
        let (code, value) = self.send(method, path, kind, body);
        assert!(code < 300, "{method} {path}: {code} {value}");
        value
    }

    pub(crate) fn apply(&self, manager: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send("PATCH", &format!("{path}?fieldManager={manager}"), "apply", body)
    }
}

/// The message of a refusal.
pub(crate) fn message((code, value): &(u16, Value)) -> String {
    format!(
        "{code} {} {}",
        value["reason"].as_str().unwrap_or_default(),
        value["message"].as_str().unwrap_or_default()
    )
}

/// A ConfigMap.
pub(crate) fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}

pub(crate) const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
