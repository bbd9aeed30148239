//! Short words for the kinds and objects that the tests are about.

use evenkeel_core::contract::{Action, Enqueue, Event, EventType, Gvk, ListQuery, ObjectRef, Patch};
use serde_json::{Value, json};

pub fn config_map_kind() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

pub fn secret_kind() -> Gvk {
    Gvk::new("", "v1", "Secret")
}

pub fn widget_kind() -> Gvk {
    Gvk::new("demo.dev", "v1", "Widget")
}

pub fn config_map(name: &str) -> ObjectRef {
    ObjectRef::new(config_map_kind(), Some("a"), name)
}

pub fn secret(name: &str) -> ObjectRef {
    ObjectRef::new(secret_kind(), Some("a"), name)
}

pub fn widget_ref(name: &str) -> ObjectRef {
    ObjectRef::new(widget_kind(), Some("a"), name)
}

/// A Widget without a spec.
pub fn widget(name: &str) -> Value {
    json!({"apiVersion": "demo.dev/v1", "kind": "Widget", "metadata": {"namespace": "a", "name": name}})
}

/// What to apply so that an object has this status.
pub fn status_of(object: &Value, status: Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"namespace": object["metadata"]["namespace"], "name": object["metadata"]["name"]},
        "status": status,
    })
}

/// A definition of a namespaced kind of the group `demo.dev` that takes anything.
pub fn crd(kind: &str, plural: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.demo.dev")},
        "spec": {
            "group": "demo.dev", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

/// A question for objects of a kind in the namespace `a`.
pub fn list(gvk: Gvk, change: impl FnOnce(&mut ListQuery)) -> ListQuery {
    let mut query = ListQuery {
        gvk,
        namespace: Some("a".into()),
        labels: String::new(),
        fields: vec![],
        controlled_by: None,
        view: vec![],
    };
    change(&mut query);
    query
}

pub fn patch(object: &ObjectRef, merge: Value) -> Action {
    Action::Patch(Patch { object: object.clone(), merge: merge.to_string().into() })
}

pub fn enqueue(controller: &str, object: &ObjectRef) -> Action {
    Action::Enqueue(Enqueue { controller: controller.into(), object: object.clone() })
}

pub fn publish(about: &ObjectRef, reason: &str, message: &str) -> Action {
    Action::Publish(Event {
        about: about.clone(),
        severity: EventType::Normal,
        reason: reason.into(),
        message: message.into(),
    })
}

/// An apply of a text as it is.
pub fn raw_apply(object: &str) -> Action {
    Action::Apply(evenkeel_core::contract::Apply { object: object.into(), force: false, controlled: false })
}
