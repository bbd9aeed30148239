//! Crashes at every point.

use super::*;
use bytes::Bytes;
use http::Request;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

fn options() -> SandboxOptions {
    SandboxOptions::new(Arc::new(|| "2026-01-01T00:00:00Z".parse().expect("a time")))
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sandbox-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn send(sandbox: &Sandbox, method: &str, path: &str, body: &Value) -> u16 {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
    sandbox.service().answer(request.expect("a request")).status().as_u16()
}

/// Requests that write in all ways, among them a kind that comes and goes.
fn story() -> Vec<(&'static str, &'static str, Value)> {
    let configs = "/api/v1/namespaces/default/configmaps";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let things = "/apis/t.test/v1/namespaces/default/things";
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 4}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.t.test"},
        "spec": {"group": "t.test", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let thing = |name: &str| json!({"apiVersion": "t.test/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {}});
    vec![
        ("POST", configs, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})),
        ("PATCH", "/api/v1/namespaces/default/configmaps/a", json!({"data": {"k": "w"}})),
        ("POST", definitions, definition.clone()),
        ("POST", things, thing("x")),
        (
            "POST",
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        ("POST", configs, json!({"metadata": {"generateName": "made-", "finalizers": ["t.test/hold"]}})),
        ("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.t.test", Value::Null),
        ("POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})),
        ("POST", "/api/v1/namespaces/n/configmaps", json!({"metadata": {"name": "b"}})),
        ("POST", definitions, definition),
        ("POST", things, thing("y")),
        ("DELETE", "/api/v1/namespaces/n", Value::Null),
        ("DELETE", configs, Value::Null),
    ]
}

#[test]
fn a_crash_at_any_point_loses_no_write_that_was_answered_and_shows_no_half_of_one() {
    let folder = Folder::new("crash");
    let path = folder.file("data");
    let sandbox = Sandbox::open(options(), &path).expect("a new file");
    let mut answered = vec![(fs::metadata(&path).expect("a file").len(), sandbox.dump(), sandbox.revision())];
    for (method, path_of, body) in story() {
        let code = send(&sandbox, method, path_of, &body);
        assert!(code < 300, "{method} {path_of}: {code}");
        answered.push((fs::metadata(&path).expect("a file").len(), sandbox.dump(), sandbox.revision()));
    }
    let text = fs::read(&path).expect("a file");
    let first = usize::try_from(answered[0].0).expect("a length");
    // Some lengths within each line, and those next to the end of a line.
    let ends: Vec<usize> = answered.iter().filter_map(|(length, ..)| usize::try_from(*length).ok()).collect();
    let near = |cut: &usize| ends.iter().any(|end| cut.abs_diff(*end) <= 1);
    for cut in (first..=text.len()).filter(|cut| cut % 97 == 0 || near(cut)) {
        let copy = folder.file("cut");
        fs::write(&copy, &text[..cut]).expect("a copy");
        let back = Sandbox::open(options(), &copy).expect("a torn end is no damage");
        let (_, dump, revision) =
            answered.iter().rev().find(|(length, ..)| *length <= cut as u64).expect("the first state");
        assert_eq!((&back.dump(), back.revision()), (dump, *revision), "cut after {cut} bytes");
    }
}

#[test]
fn what_comes_back_goes_on_as_if_nothing_had_happened() {
    let folder = Folder::new("goes-on");
    let whole = Sandbox::new(options());
    let mut kept = Sandbox::open(options(), &folder.file("data")).expect("a new file");
    for (method, path, body) in story() {
        drop(kept);
        kept = Sandbox::open(options(), &folder.file("data")).expect("the file of before");
        assert_eq!(send(&kept, method, path, &body), send(&whole, method, path, &body), "{method} {path}");
        assert_eq!((kept.dump(), kept.revision()), (whole.dump(), whole.revision()), "{method} {path}");
    }
}

#[test]
fn a_file_that_is_no_sandbox_or_is_damaged_is_told_and_left_alone() {
    let folder = Folder::new("foreign");
    let foreign = folder.file("letter");
    fs::write(&foreign, "Dear Sir,\nyours\n").expect("a file");
    assert!(matches!(Sandbox::open(options(), &foreign), Err(OpenError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&foreign).expect("a file"), "Dear Sir,\nyours\n");
    let path = folder.file("data");
    let sandbox = Sandbox::open(options(), &path).expect("a new file");
    assert!(
        matches!(Sandbox::open(options(), &path), Err(OpenError::Locked { .. })),
        "one process at a time"
    );
    send(&sandbox, "POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "a"}}));
    send(&sandbox, "POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "b"}}));
    drop(sandbox);
    let mut text = fs::read(&path).expect("a file");
    let at = text.len() - 400;
    text[at] ^= 1;
    let middle = text.iter().rposition(|byte| *byte == b'\n').expect("lines");
    let line = text[..middle].iter().filter(|byte| **byte == b'\n').count() + 1;
    text.extend_from_slice(b"more\n");
    fs::write(&path, &text).expect("a file");
    let damaged = Sandbox::open(options(), &path).expect_err("it is damaged").to_string();
    assert!(damaged.contains("is damaged in line"), "{damaged} (line {line})");
    assert_eq!(fs::read(&path).expect("a file"), text);
}
