//! Namespaces, owners, finalizers, definitions.

use super::{CONFIGS, Client, config, message};
use serde_json::{Value, json};

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn owned(name: &str, owner: &Value, extra: Value) -> Value {
    let mut reference = json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    });
    for (key, value) in extra.as_object().unwrap() {
        reference[key] = value.clone();
    }
    let mut object = config(name, json!({}));
    object["metadata"]["ownerReferences"] = json!([reference]);
    object
}

#[test]
fn a_namespace_takes_its_content_along() {
    let client = Client::new();
    let made = client.ok("POST", "/api/v1/namespaces", "", &namespace("team"));
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    assert_eq!(
        (&made["spec"]["finalizers"], &made["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    client.ok("POST", "/api/v1/namespaces/team/configmaps", "", &json!({"metadata": {"name": "a"}}));
    let answer = client.ok("DELETE", "/api/v1/namespaces/team", "", &Value::Null);
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(client.get("/api/v1/namespaces/team").0, 404);
    assert_eq!(client.get("/api/v1/namespaces/team/configmaps/a").0, 404);
}

#[test]
fn a_namespace_waits_for_finalizers_and_takes_nothing_new() {
    let client = Client::new();
    client.ok("POST", "/api/v1/namespaces", "", &namespace("team"));
    let held = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    client.ok("POST", "/api/v1/namespaces/team/configmaps", "", &held);
    client.ok("DELETE", "/api/v1/namespaces/team", "", &Value::Null);
    let live = client.get("/api/v1/namespaces/team").1;
    let remaining = live["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "NamespaceFinalizersRemaining");
    assert_eq!(
        remaining.unwrap()["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    let refused =
        client.send("POST", "/api/v1/namespaces/team/configmaps", "", &json!({"metadata": {"name": "b"}}));
    assert_eq!(
        message(&refused),
        "403 Forbidden configmaps \"b\" is forbidden: unable to create new content in namespace team because it is being terminated"
    );
    assert_eq!(refused.1["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let free = json!({"metadata": {"finalizers": null}});
    client.ok("PATCH", "/api/v1/namespaces/team/configmaps/a", "merge", &free);
    assert_eq!(client.get("/api/v1/namespaces/team").0, 404);
}

#[test]
fn the_namespaces_of_the_system_stay() {
    let client = Client::new();
    let refused = client.send("DELETE", "/api/v1/namespaces/default", "", &Value::Null);
    assert_eq!(
        message(&refused),
        "403 Forbidden namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let client = Client::new();
    let mut object = config("a", json!({}));
    object["metadata"]["finalizers"] = json!(["x.io/a", "x.io/b"]);
    client.ok("POST", CONFIGS, "", &object);
    let path = format!("{CONFIGS}/a");
    let pending = client.ok("DELETE", &path, "", &Value::Null);
    assert_eq!(pending["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(pending["metadata"]["deletionGracePeriodSeconds"], 0);
    let revision = client.sandbox.revision();
    client.ok("DELETE", &path, "", &Value::Null);
    assert_eq!(client.sandbox.revision(), revision, "deleting it again changes nothing");
    client.ok("PATCH", &path, "merge", &json!({"metadata": {"finalizers": ["x.io/b"]}}));
    assert_eq!(client.get(&path).0, 200);
    let added =
        client.send("PATCH", &path, "merge", &json!({"metadata": {"finalizers": ["x.io/b", "x.io/c"]}}));
    assert_eq!(added.0, 422, "{added:?}");
    client.ok("PATCH", &path, "json", &json!([{"op": "remove", "path": "/metadata/finalizers/0"}]));
    assert_eq!(client.get(&path).0, 404);
}

#[test]
fn dependents_follow_their_owner() {
    let client = Client::new();
    let owner = client.ok("POST", CONFIGS, "", &config("owner", json!({})));
    client.ok("POST", CONFIGS, "", &owned("child", &owner, json!({})));
    client.ok("DELETE", &format!("{CONFIGS}/owner"), "", &Value::Null);
    assert_eq!(client.get(&format!("{CONFIGS}/child")).0, 404);
}

#[test]
fn an_object_whose_owner_never_was_is_collected() {
    let client = Client::new();
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "gone"}});
    client.ok("POST", CONFIGS, "", &owned("child", &nobody, json!({})));
    assert_eq!(client.get(&format!("{CONFIGS}/child")).0, 404);
}

#[test]
fn orphans_lose_their_reference_only() {
    let client = Client::new();
    let owner = client.ok("POST", CONFIGS, "", &config("owner", json!({})));
    client.ok("POST", CONFIGS, "", &owned("child", &owner, json!({})));
    client.ok("DELETE", &format!("{CONFIGS}/owner?propagationPolicy=Orphan"), "", &Value::Null);
    assert_eq!(client.get(&format!("{CONFIGS}/owner")).0, 404);
    assert_eq!(client.get(&format!("{CONFIGS}/child")).1["metadata"].get("ownerReferences"), None);
}

#[test]
fn a_foreground_deletion_waits_for_blocking_dependents() {
    let client = Client::new();
    let owner = client.ok("POST", CONFIGS, "", &config("owner", json!({})));
    let mut child = owned("child", &owner, json!({"blockOwnerDeletion": true}));
    child["metadata"]["finalizers"] = json!(["x.io/a"]);
    client.ok("POST", CONFIGS, "", &child);
    client.ok("DELETE", &format!("{CONFIGS}/owner"), "", &json!({"propagationPolicy": "Foreground"}));
    let waiting = client.get(&format!("{CONFIGS}/owner")).1;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    client.ok("PATCH", &format!("{CONFIGS}/child"), "merge", &json!({"metadata": {"finalizers": null}}));
    assert_eq!(client.get(&format!("{CONFIGS}/owner")).0, 404);
}

#[test]
fn preconditions_guard_a_deletion() {
    let client = Client::new();
    let made = client.ok("POST", CONFIGS, "", &config("a", json!({})));
    let path = format!("{CONFIGS}/a");
    let other = client.send("DELETE", &path, "", &json!({"preconditions": {"uid": "other"}}));
    assert_eq!(other.0, 409);
    assert!(
        message(&other).contains("the UID in the precondition (other) does not match the UID in record"),
        "{other:?}"
    );
    let stale = client.send("DELETE", &path, "", &json!({"preconditions": {"resourceVersion": "1"}}));
    assert_eq!(stale.0, 409);
    let exact = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}});
    client.ok("DELETE", &path, "", &exact);
}

pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "size": {"type": "integer", "minimum": 1, "default": 3},
                            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        }},
                        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                    },
                }},
            }],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

pub(crate) fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn a_definition_is_served_at_once_and_takes_its_objects_along() {
    let client = Client::new();
    assert_eq!(client.get(THINGS).0, 404);
    client.ok("POST", DEFINITIONS, "", &definition());
    let live = client.get(&format!("{DEFINITIONS}/things.example.com")).1;
    let types: Vec<&Value> =
        live["status"]["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(types, ["NamesAccepted", "Established"]);
    let made = client.ok("POST", THINGS, "", &thing("a", json!({"tags": ["x"], "unknown": 1})));
    assert_eq!(made["spec"], json!({"size": 3, "tags": ["x"]}), "defaulted and pruned");
    assert_eq!(made["metadata"]["generation"], 1);
    let bad = client.send("POST", THINGS, "", &thing("b", json!({"size": 0})));
    assert_eq!(bad.0, 422, "{bad:?}");
    client.ok("DELETE", &format!("{DEFINITIONS}/things.example.com"), "", &Value::Null);
    assert_eq!(client.get(&format!("{DEFINITIONS}/things.example.com")).0, 404);
    assert_eq!(client.get(THINGS).0, 404);
}

#[test]
fn status_and_spec_are_written_apart() {
    let client = Client::new();
    client.ok("POST", DEFINITIONS, "", &definition());
    let mut object = thing("a", json!({"size": 1}));
    object["status"] = json!({"phase": "ignored"});
    let made = client.ok("POST", THINGS, "", &object);
    assert_eq!(made.get("status"), None);
    let path = format!("{THINGS}/a");
    let status = client.ok(
        "PATCH",
        &format!("{path}/status"),
        "merge",
        &json!({"status": {"phase": "Ready"}, "spec": {"size": 9}}),
    );
    assert_eq!((&status["status"]["phase"], &status["spec"]["size"]), (&json!("Ready"), &json!(1)));
    assert_eq!(status["metadata"]["generation"], 1);
    let managed = status["metadata"]["managedFields"].as_array().unwrap();
    let of_status = managed.iter().find(|one| one["subresource"] == "status").unwrap();
    assert_eq!(of_status["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
    let spec = client.ok("PATCH", &path, "merge", &json!({"status": {"phase": "x"}, "spec": {"size": 2}}));
    assert_eq!((&spec["status"]["phase"], &spec["metadata"]["generation"]), (&json!("Ready"), &json!(2)));
    let (code, applied) = client.apply("me", &format!("{path}/status"), &json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "status": {"phase": "Ready"}}));
    assert_eq!((code, &applied["status"]["phase"]), (200, &json!("Ready")));
}

#[test]
fn a_fork_begins_as_its_origin_is_and_from_then_on_neither_knows_of_the_other() {
    let origin = Client::new();
    origin.ok("POST", DEFINITIONS, "", &definition());
    origin.ok("POST", THINGS, "", &thing("kept", json!({})));
    let fork = Client { sandbox: origin.sandbox.fork(std::sync::Arc::new(jiff::Timestamp::now)) };
    assert_eq!(fork.sandbox.dump(), origin.sandbox.dump());
    assert_eq!(fork.sandbox.revision(), origin.sandbox.revision());

    // What comes next has the same identity in both, and shows in one of them alone.
    let [theirs, ours] =
        [&origin, &fork].map(|client| client.ok("POST", THINGS, "", &thing("new", json!({}))));
    assert_eq!(theirs["metadata"]["uid"], ours["metadata"]["uid"]);
    fork.ok("DELETE", &format!("{THINGS}/kept"), "", &Value::Null);
    origin.ok("PATCH", &format!("{THINGS}/kept"), "merge", &json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(origin.ok("GET", &format!("{THINGS}/kept"), "", &Value::Null)["metadata"]["labels"]["a"], "b");

    // So do kinds, and what is owned by what.
    origin.ok("DELETE", &format!("{DEFINITIONS}/things.example.com"), "", &Value::Null);
    let names = |client: &Client| -> Vec<String> {
        let things = client.sandbox.dump().into_iter().filter(|object| object["kind"] == "Thing");
        things.map(|thing| thing["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!((names(&origin), names(&fork)), (vec![], vec!["new".to_owned()]));
    assert!(origin.sandbox.writes(0).len() > fork.sandbox.writes(0).len(), "each has a log of its own");
}
