//! The scale subresource: the replicas of an object as an `autoscaling/v1` Scale.

use super::patch::PatchKind;
use super::update::Written;
use super::{admit, finish};
use crate::apply::managers::Managers;
use crate::apply::scale::SCALE_VERSION;
use crate::apply::set::FieldSet;
use crate::apply::{self, Applier};
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
        let (before, mut after) = (self.as_scaled(target, &old)?, self.as_scaled(target, &object)?);
        strip(&mut after);
        self.with_scale_applier(target, |applier| applier.update(&before, &mut after));
        self.note_scalers(target, &old, &after, &mut object)?;
        self.store_update(target, live, old, object)
    }

    /// The object with nothing but its replicas, and with those who manage them.
    fn as_scaled(&self, target: &Target, object: &Value) -> Result<Value, ApiError> {
        let path = &definition(target)?.spec_replicas;
        let mut scaled = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"uid": object["metadata"]["uid"]}});
        // A Scale of none does not write the number, so nobody comes to own it.
        if let Some(replicas) = at(object, path).filter(|replicas| **replicas != 0) {
            set(&mut scaled, path, replicas.clone());
        }
        let managers = Managers::of(object).unwrap_or_default();
        apply::scale::of_scale(&managers, &replicas_path(path)).write(&mut scaled);
        Ok(scaled)
    }

    /// Takes who manages the replicas from `scaled` over into the object.
    fn note_scalers(
        &self,
        target: &Target,
        old: &Value,
        scaled: &Value,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let replicas = replicas_path(&definition(target)?.spec_replicas);
        let parent = Managers::of(old).unwrap_or_default();
        let scale = Managers::of(scaled).unwrap_or_default();
        let version = &target.served().api_version;
        apply::scale::of_parent(&parent, scale, &replicas, version).write(object);
        Ok(())
    }

    /// Calls `work` with the field manager of the Scale.
    fn with_scale_applier<R>(&self, target: &Target, work: impl FnOnce(&Applier<'_>) -> R) -> R {
        work(&Applier {
            schema: target.served().ty.schema(),
            api_version: SCALE_VERSION,
            manager: &self.options.manager,
            subresource: &target.subresource,
            now: &self.now_text,
            ignored: &FieldSet::default(),
            empty: &|| json!({"apiVersion": target.served().api_version, "kind": target.resource.kind, "metadata": {}}),
        })
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
        let mut config =
            json!({"apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": {"name": target.name}});
        let path = &definition(target)?.spec_replicas;
        if let Some(replicas) = applied["spec"].get("replicas") {
            set(&mut config, path, replicas.clone());
        }
        let before = self.as_scaled(target, &old)?;
        let custom = target.resource.is_custom();
        if custom && before["metadata"].get("managedFields").is_none() {
            return Err(not_convertible(
                "failed to create manager for existing fields: failed to convert live object (/",
            ));
        }
        let scaled =
            self.with_scale_applier(target, |applier| applier.apply(&before, &config, self.options.force))?;
        if custom && at(&scaled, path) != at(&before, path) {
            let place = format!("{}/{}", target.namespace, target.name);
            return Err(not_convertible(&format!("failed to convert new object ({place}")));
        }
        let mut object = old.clone();
        set(&mut object, path, at(&scaled, path).cloned().unwrap_or(json!(0)));
        self.note_scalers(target, &old, &scaled, &mut object)?;
        let mut named = applied.clone();
        admit::fit_name(target, &mut named)?;
        let scale = scale_of(target, &object)?;
        checked_replicas(target, live, &scale)?;
        self.store_update(target, live, old, object)
    }
}

/// Upstream cannot make the Scale of a custom kind out of what was applied.
fn not_convertible(what: &str) -> ApiError {
    let why = "request to convert CR to an invalid group/version: autoscaling/v1";
    ApiError::new(500, "", format!("{what}; autoscaling/v1, Kind=Scale) to proper version: {why}"))
}

fn replicas_path(path: &str) -> FieldSet {
    let steps: Vec<&str> = path.split('.').collect();
    FieldSet::of_fields(&[&steps])
}

fn strip(scaled: &mut Value) {
    if let Some(metadata) = scaled["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
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
