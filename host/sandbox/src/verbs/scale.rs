//! The scale subresource: the replicas of an object as an `autoscaling/v1` Scale.

use super::finish;
use super::patch::PatchKind;
use super::update::Written;
use crate::error::ApiError;
use crate::json;
use crate::patch::{json_patch, merge_patch};
use crate::resources::Scale;
use crate::schema::FieldError;
use crate::store::object::Stored;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// The Scale of an object.
pub(crate) fn read(target: &Target, stored: &Stored) -> Result<Value, ApiError> {
    let scale = definition(target)?;
    let object = stored.value();
    let metadata = &object["metadata"];
    let mut kept = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            kept[field] = value.clone();
        }
    }
    let number = |path: &str| at(&object, path).and_then(Value::as_i64);
    let mut spec = json!({});
    if let Some(replicas) = number(&scale.spec_replicas).filter(|replicas| *replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": number(&scale.status_replicas).unwrap_or_default()});
    let selector = match &scale.selector {
        Some(path) => at(&object, path).and_then(Value::as_str).map(str::to_owned),
        None => selector_text(&object["spec"]["selector"]),
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = json!(selector);
    }
    Ok(
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": status}),
    )
}

fn definition(target: &Target) -> Result<&Scale, ApiError> {
    target.served().scale.as_ref().ok_or_else(|| target.not_found())
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

fn selector_text(selector: &Value) -> Option<String> {
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let mut pairs: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.sort();
    Some(pairs.join(","))
}

impl Turn<'_> {
    /// Replaces or patches the Scale of an object.
    pub(crate) fn write_scale(
        &mut self,
        target: &Target,
        patch: Option<PatchKind>,
        body: &[u8],
    ) -> Result<Written, ApiError> {
        let live = self.live(target)?;
        let current = read(target, &live)?;
        let (body, _) =
            json::parse(body).or_else(|_| json::parse_yaml(body)).map_err(ApiError::bad_request)?;
        let scale = match patch {
            None => body,
            Some(PatchKind::Json) => json_patch::apply(&current, &body)?,
            Some(_) => merge_patch::apply(&current, &body),
        };
        self.store_scale(target, &live, &scale)
    }

    fn store_scale(
        &mut self,
        target: &Target,
        live: &Arc<Stored>,
        scale: &Value,
    ) -> Result<Written, ApiError> {
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            let subject = crate::error::Subject { group: "autoscaling", kind: "Scale" };
            return Err(ApiError::invalid(subject, &target.name, &[error]));
        }
        let old = finish::in_version(target, live);
        let mut object = old.clone();
        set(&mut object, &definition(target)?.spec_replicas, json!(replicas));
        if let Some(version) = scale["metadata"].get("resourceVersion") {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        self.with_applier(target, |applier| applier.update(&old, &mut object));
        self.store_update(target, live, old, object)
    }
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for key in path.split('.') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[key];
    }
    *at = value;
}
