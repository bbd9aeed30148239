//! Create, read, update, delete, list.

use super::{CONFIGS, Client, config, message};
use serde_json::{Value, json};

#[test]
fn an_object_is_created_read_replaced_and_deleted() {
    let client = Client::new();
    let made = client.ok("POST", CONFIGS, "", &config("a", json!({"x": "1"})));
    let metadata = &made["metadata"];
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(metadata["managedFields"][0]["manager"], "test");
    assert_eq!(metadata["managedFields"][0]["fieldsV1"], json!({"f:data": {".": {}, "f:x": {}}}));
    let path = format!("{CONFIGS}/a");
    assert_eq!(client.get(&path).1, made);
    let mut new = made.clone();
    new["data"]["x"] = json!("2");
    let replaced = client.ok("PUT", &path, "", &new);
    assert_ne!(replaced["metadata"]["resourceVersion"], metadata["resourceVersion"]);
    let stale = client.send("PUT", &path, "", &new);
    assert_eq!(
        message(&stale),
        "409 Conflict Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    let gone = client.ok("DELETE", &path, "", &Value::Null);
    assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps", "uid": metadata["uid"]}));
    assert_eq!(message(&client.get(&path)), "404 NotFound configmaps \"a\" not found");
}

#[test]
fn a_write_without_a_change_makes_no_revision() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({"x": "1"})));
    let before = client.sandbox.revision();
    client.ok("PATCH", &format!("{CONFIGS}/a"), "merge", &json!({"data": {"x": "1"}}));
    assert_eq!(client.sandbox.revision(), before);
}

#[test]
fn refusals_use_kubernetes_words() {
    let client = Client::new();
    client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let twice = client.send("POST", CONFIGS, "", &config("a", json!({})));
    assert_eq!(message(&twice), "409 AlreadyExists configmaps \"a\" already exists");
    let nowhere =
        client.send("POST", "/api/v1/namespaces/nowhere/configmaps", "", &json!({"metadata": {"name": "a"}}));
    assert_eq!(message(&nowhere), "404 NotFound namespaces \"nowhere\" not found");
    let other = client.send("POST", "/api/v1/namespaces/kube-system/configmaps", "", &config("a", json!({})));
    assert_eq!(
        message(&other),
        "400 BadRequest the namespace of the provided object does not match the namespace sent on the request"
    );
    let nameless = client.send("POST", CONFIGS, "", &json!({"metadata": {}}));
    assert!(
        message(&nameless).contains("metadata.name: Required value: name or generateName is required"),
        "{nameless:?}"
    );
}

#[test]
fn lists_are_paged_and_selected() {
    let client = Client::new();
    for name in ["a", "b", "c"] {
        let mut object = config(name, json!({}));
        object["metadata"]["labels"] = json!({"n": name});
        client.ok("POST", CONFIGS, "", &object);
    }
    let first = client.get(&format!("{CONFIGS}?limit=2")).1;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    client.ok("POST", CONFIGS, "", &config("d", json!({})));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{CONFIGS}?limit=2&continue={token}")).1;
    let names: Vec<&Value> =
        second["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["c"], "the page is of the revision of the first");
    let chosen =
        client.get(&format!("{CONFIGS}?labelSelector=n%20in%20(a,c)&fieldSelector=metadata.name!=a")).1;
    assert_eq!(chosen["items"][0]["metadata"]["name"], "c");
    assert_eq!(chosen["items"][0].get("kind"), None, "built-in items do not repeat their kind");
}
