//! Binding a Pod to a node: what a scheduler posts. Nothing of the order is stored but what it does to the Pod.

use super::admit;
use super::decode::{Origin, decode, parse};
use crate::error::{ApiError, Subject};
use crate::resources::Offers;
use crate::schema::{FieldError, aggregate};
use crate::turn::{Target, Turn};
use serde_json::{Value, json};

/// What a scheduler is answered.
pub(crate) const DONE: &str =
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;

/// Whether a request is such an order: in a collection of its own, or below the Pod that it is about.
pub(crate) fn is_for(target: &Target) -> bool {
    target.resource.traits.offers == Offers::Posts || target.subresource == "binding"
}

impl Turn<'_> {
    /// Puts a Pod on the node that the body names; returns the Pod's name.
    pub(crate) fn bind(&mut self, target: &Target, body: &[u8], yaml: bool) -> Result<String, ApiError> {
        let (orders, pods) = (self.core("bindings", target)?, self.core("pods", target)?);
        let (mut order, duplicates) = parse(&orders, body, yaml)?;
        decode(self, &orders, &mut order, duplicates, Origin::Body)?;
        admit::fit_namespace(target, &mut order)?;
        let name = order["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        admit::create(self, target, &name)?;
        if !target.name.is_empty() && target.name != name {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        check(&order)?;
        let pod = Target { name: name.clone(), ..pods };
        let stored = self.live(&pod)?;
        let mut object = stored.value();
        let refused =
            |why: String| Err(ApiError::conflict(Subject { group: "", kind: "pods/binding" }, &name, &why));
        check_preconditions(&order, &object).or_else(refused)?;
        is_free(&object).or_else(refused)?;
        assign(&mut object, &order, &self.now_text);
        self.put(&pod.resource, object);
        Ok(name)
    }

    /// A resource of the core group, in the namespace of a target.
    fn core(&self, plural: &str, target: &Target) -> Result<Target, ApiError> {
        let resource = self.state.registry.find("", plural).cloned().ok_or_else(ApiError::no_resource)?;
        let namespace = target.namespace.clone();
        Ok(Target { resource, version: 0, namespace, name: String::new(), subresource: String::new() })
    }
}

/// Refuses an order that names no node.
fn check(order: &Value) -> Result<(), ApiError> {
    let text = |field: &str| order["target"][field].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", text("kind"), &["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::new(500, "", aggregate(&errors))) }
}

/// An order may name the very Pod, and the very version of it, that it is for.
fn check_preconditions(order: &Value, pod: &Value) -> Result<(), String> {
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (asked, found) = (order["metadata"][field].as_str(), pod["metadata"][field].as_str());
        let (asked, found) = (asked.unwrap_or_default(), found.unwrap_or_default());
        if !asked.is_empty() && asked != found {
            return Err(format!(
                "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
            ));
        }
    }
    Ok(())
}

/// Why a Pod cannot be put on a node.
fn is_free(pod: &Value) -> Result<(), String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {}", crate::error::go_quote(node)));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn assign(pod: &mut Value, order: &Value, now: &str) {
    pod["spec"]["nodeName"] = order["target"]["name"].clone();
    for (key, value) in order["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": now,
    });
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|one| one["type"] != "PodScheduled");
    conditions.push(condition);
    pod["status"]["conditions"] = Value::Array(conditions);
}
