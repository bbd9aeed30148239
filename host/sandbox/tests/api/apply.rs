//! Server-side apply.

use super::{CONFIGS, Client, config, message};
use serde_json::json;

#[test]
fn two_managers_share_a_map_and_quarrel_over_a_key() {
    let client = Client::new();
    let path = format!("{CONFIGS}/a");
    let (code, _) = client.apply("one", &path, &config("a", json!({"x": "1", "y": "1"})));
    assert_eq!(code, 201);
    let (code, both) = client.apply("two", &path, &config("a", json!({"z": "2"})));
    assert_eq!((code, &both["data"]), (200, &json!({"x": "1", "y": "1", "z": "2"})));
    let quarrel = client.apply("two", &path, &config("a", json!({"x": "2"})));
    assert_eq!(
        message(&quarrel),
        "409 Conflict Apply failed with 1 conflict: conflict with \"one\": .data.x"
    );
    assert_eq!(
        quarrel.1["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"}])
    );
    let forced = client.apply("two&force=true", &path, &config("a", json!({"x": "2"})));
    assert_eq!(forced.1["data"], json!({"x": "2", "y": "1"}), "z is no longer applied by anybody");
    let (_, left) = client.apply("one", &path, &config("a", json!({"y": "1"})));
    assert_eq!(left["data"], json!({"x": "2", "y": "1"}));
}

#[test]
fn applying_again_changes_nothing() {
    let client = Client::new();
    let path = format!("{CONFIGS}/a");
    client.apply("one", &path, &config("a", json!({"x": "1"})));
    let before = client.sandbox.revision();
    client.apply("one", &path, &config("a", json!({"x": "1"})));
    assert_eq!(client.sandbox.revision(), before);
}

#[test]
fn ports_are_told_apart_by_port_and_protocol() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/services/s";
    let service = |ports: serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": ports}});
    let (code, made) = client.apply("one", path, &service(json!([{"port": 80}, {"name": "x", "port": 90}])));
    assert_eq!(code, 422, "several ports need names: {made}");
    let (code, made) =
        client.apply("one", path, &service(json!([{"name": "w", "port": 80}, {"name": "x", "port": 90}])));
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["ports"][0],
        json!({"name": "w", "port": 80, "protocol": "TCP", "targetPort": 80})
    );
    let (_, fewer) = client.apply("one", path, &service(json!([{"name": "x", "port": 90}])));
    assert_eq!(
        fewer["spec"]["ports"],
        json!([{"name": "x", "port": 90, "protocol": "TCP", "targetPort": 90}])
    );
}

#[test]
fn a_service_goes_back_to_a_cluster_ip() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/services/s";
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"type": "ClusterIP", "selector": {"a": "b"}, "ports": [{"port": 80}]},
    });
    let (_, made) = client.apply("one", path, &service);
    let lifted = client.ok("PATCH", path, "merge", &json!({"spec": {"type": "LoadBalancer"}}));
    assert_eq!(lifted["spec"]["ports"][0]["nodePort"], 30000);
    let (code, back) = client.apply("one&force=true", path, &service);
    assert_eq!((code, &back["spec"]), (200, &made["spec"]), "{back}");
    let mut bare = back.clone();
    bare["spec"].as_object_mut().unwrap().remove("clusterIP");
    bare["spec"].as_object_mut().unwrap().remove("clusterIPs");
    let replaced = client.ok("PUT", path, "", &bare);
    assert_eq!(replaced["spec"], made["spec"], "an update that names no address keeps the one it had");
}
