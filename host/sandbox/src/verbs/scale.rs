//! The scale subresource: the replicas of an object as an `autoscaling/v1` Scale.

use super::patch::PatchKind;
use super::update::Written;
use super::{admit, finish};
use crate::error::ApiError;
use crate::json;
use crate::patch::{json_patch, merge_patch};
use crate::resources::Scale;
use crate::schema::FieldError;
use crate::store::object::Stored;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// What stands for replicas that an object does not have, while its Scale is being changed.
const NO_REPLICAS: i64 = i32::MIN as i64;

/// The Scale of an object; an error where it does not say how many replicas it wants.
pub(crate) fn read(target: &Target, stored: &Stored) -> Result<Value, ApiError> {
    let scale = scale_of(target, &stored.value())?;
    if scale["spec"]["replicas"] == NO_REPLICAS {
        let path = &definition(target)?.spec_replicas;
        return Err(ApiError::internal(&format!("the spec replicas field \".{path}\" does not exist")));
    }
    Ok(scale)
}

fn scale_of(target: &Target, object: &Value) -> Result<Value, ApiError> {
    let scale = definition(target)?;
    let metadata = &object["metadata"];
    let mut kept = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            kept[field] = value.clone();
        }
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64);
    let mut spec = json!({});
    let absent = if target.resource.is_custom() { NO_REPLICAS } else { 0 };
    let replicas = number(&scale.spec_replicas).unwrap_or(absent);
    if replicas != 0 {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({"replicas": number(&scale.status_replicas).unwrap_or_default()});
    let selector = match &scale.selector {
        Some(path) => at(object, path).and_then(Value::as_str).map(str::to_owned),
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
    /// Replaces, patches or applies the Scale of an object.
    pub(crate) fn write_scale(
        &mut self,
        target: &Target,
        patch: Option<PatchKind>,
        body: &[u8],
        yaml: bool,
    ) -> Result<Written, ApiError> {
        let live = self.live(target)?;
        let parsed = match patch {
            None if yaml => json::parse_yaml(body),
            Some(PatchKind::Apply) => json::parse(body).or_else(|_| json::parse_yaml(body)),
            _ => json::parse(body),
        };
        let (mut body, _) = parsed.map_err(ApiError::bad_request)?;
        if patch == Some(PatchKind::Apply) {
            return self.apply_scale(target, &live, &body);
        }
        let current = scale_of(target, &finish::in_version(target, &live))?;
        let scale = match patch {
            None => {
                admit::fit_name(target, &mut body)?;
                body
            }
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
        let old = finish::in_version(target, live);
        let mut object = old.clone();
        set(&mut object, &definition(target)?.spec_replicas, json!(checked_replicas(target, live, scale)?));
        if let Some(version) = scale["metadata"].get("resourceVersion") {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        // Replicas that nobody manages stay so, and of custom kinds upstream does not note who scales them.
        if !target.resource.is_custom() && self.replicas_are_managed(target, &old) {
            self.with_applier(target, |applier| applier.update(&old, &mut object));
        }
        self.store_update(target, live, old, object)
    }

    /// Upstream cannot apply the Scale of a custom kind.
    fn not_convertible(&self, target: &Target, object: &Value) -> ApiError {
        let kind = "autoscaling/v1, Kind=Scale";
        let why = "request to convert CR to an invalid group/version: autoscaling/v1";
        let text = match self.replicas_are_managed(target, object) {
            true => {
                let place = format!("{}/{}", target.namespace, target.name);
                format!("failed to convert live object ({place}; {kind}) to proper version: {why}")
            }
            false => format!(
                "failed to create manager for existing fields: failed to convert live object (/; {kind}) to proper version: {why}"
            ),
        };
        ApiError::new(500, "", text)
    }

    fn replicas_are_managed(&self, target: &Target, object: &Value) -> bool {
        let Ok(scale) = definition(target) else { return false };
        let keys: Vec<String> = scale.spec_replicas.split('.').map(|key| format!("f:{key}")).collect();
        let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        managers
            .map(|entry| &entry["fieldsV1"])
            .any(|fields| keys.iter().try_fold(fields, |fields, key| fields.get(key)).is_some())
    }

    /// Applies a Scale: of the object, the replicas are applied, by a manager of the subresource.
    fn apply_scale(
        &mut self,
        target: &Target,
        live: &Arc<Stored>,
        applied: &Value,
    ) -> Result<Written, ApiError> {
        let text = |key: &str| applied[key].as_str().unwrap_or_default();
        if text("apiVersion") != "autoscaling/v1" || text("kind") != "Scale" {
            let (version, kind) = (text("apiVersion"), text("kind"));
            return Err(ApiError::bad_request(format!("invalid object type: {version}, Kind={kind}")));
        }
        let old = finish::in_version(target, live);
        if target.resource.is_custom() {
            return Err(self.not_convertible(target, &old));
        }
        let mut config =
            json!({"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": {"name": target.name}});
        let path = &definition(target)?.spec_replicas;
        if let Some(replicas) = applied["spec"].get("replicas") {
            set(&mut config, path, replicas.clone());
        }
        let own = format!("using {}", target.served().api_version);
        let object = self
            .with_applier(target, |applier| applier.apply(&old, &config, self.options.force))
            .map_err(|error| as_told_of_scales(error, &own))?;
        let mut named = applied.clone();
        admit::fit_name(target, &mut named)?;
        let scale = scale_of(target, &object)?;
        checked_replicas(target, live, &scale)?;
        self.store_update(target, live, old, object)
    }
}

/// Conflicts are told in the version of the Scale.
fn as_told_of_scales(mut error: ApiError, own: &str) -> ApiError {
    error.message = error.message.replace(own, "using autoscaling/v1");
    for cause in error.details.iter_mut().flat_map(|details| &mut details.causes) {
        cause.message = cause.message.replace(own, "using autoscaling/v1");
    }
    error
}

/// The replicas that a Scale asks for.
fn checked_replicas(target: &Target, live: &Stored, scale: &Value) -> Result<i64, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas == NO_REPLICAS {
        let path = &definition(target)?.spec_replicas;
        return Err(ApiError::bad_request(format!("the spec replicas field \".{path}\" cannot be empty")));
    }
    // Of a custom kind, its own rules say so.
    if replicas < 0 && !target.resource.is_custom() {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        let subject = crate::error::Subject { group: "autoscaling", kind: "Scale" };
        return Err(ApiError::invalid(subject, &target.name, &[error]));
    }
    let uid = scale["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && *uid != *live.head.uid {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", live.head.uid);
        return Err(ApiError::conflict(target.resource.subject(), &target.name, &why));
    }
    Ok(replicas)
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
