//! Patching: JSON patch, merge patch, strategic merge patch, and server-side apply.

use super::decode::{Origin, decode};
use super::update::Written;
use super::{admit, create, finish};
use crate::error::ApiError;
use crate::json;
use crate::patch::{json_patch, merge_patch, strategic};
use crate::turn::{FieldValidation, Target, Turn};
use serde_json::Value;

/// The media types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(crate) fn of(content_type: &str) -> Option<PatchKind> {
        match content_type {
            "application/json-patch+json" => Some(PatchKind::Json),
            "application/merge-patch+json" => Some(PatchKind::Merge),
            "application/strategic-merge-patch+json" => Some(PatchKind::Strategic),
            "application/apply-patch+yaml" => Some(PatchKind::Apply),
            _ => None,
        }
    }
}

impl Turn<'_> {
    pub(crate) fn patch(
        &mut self,
        target: &Target,
        kind: PatchKind,
        body: &[u8],
    ) -> Result<Written, ApiError> {
        if kind == PatchKind::Apply {
            return self.apply(target, body);
        }
        let live = self.live(target)?;
        let old = finish::in_version(target, &live);
        let mut object = self.patched(target, kind, &old, body)?;
        let origin = match kind {
            PatchKind::Strategic => Origin::StrategicPatch(body),
            _ => Origin::Patch,
        };
        decode(self, target, &mut object, Vec::new(), origin)?;
        admit::label_namespace(&target.resource, &mut object);
        self.with_applier(target, |applier| applier.update(&old, &mut object));
        admit::fit_namespace(target, &mut object)?;
        admit::fit_name(target, &mut object)?;
        admit::dedup_owners(self, &mut object);
        self.store_update(target, &live, old, object)
    }

    fn patched(
        &mut self,
        target: &Target,
        kind: PatchKind,
        old: &Value,
        body: &[u8],
    ) -> Result<Value, ApiError> {
        let strict = self.options.validation != FieldValidation::Ignore;
        let (mut patch, duplicates) = json::parse(body).map_err(|why| match kind {
            PatchKind::Strategic => ApiError::bad_request(why),
            _ => ApiError::bad_request(format!("error decoding patch: {why}")),
        })?;
        if strict && !duplicates.is_empty() {
            let faults: Vec<String> = match kind {
                PatchKind::Json => duplicates.iter().map(|fault| format!("json patch {fault}")).collect(),
                _ => duplicates,
            };
            if self.options.validation == FieldValidation::Strict {
                let why = format!("strict decoding error: {}", faults.join(", "));
                let error = crate::schema::FieldError::invalid("patch", patch.to_string(), why);
                return Err(ApiError::invalid(crate::error::Subject { group: "", kind: "" }, "", &[error]));
            }
            faults.into_iter().for_each(|fault| self.warn(fault));
        }
        match kind {
            PatchKind::Json => json_patch::apply(old, &patch),
            PatchKind::Merge if patch.is_object() => Ok(merge_patch::apply(old, &patch)),
            PatchKind::Merge => Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json::type_name(&patch)
            ))),
            PatchKind::Strategic | PatchKind::Apply => {
                json::whole_numbers(&mut patch);
                strategic::apply(old, &patch, target.served().ty.schema())
            }
        }
    }

    /// Server-side apply.
    fn apply(&mut self, target: &Target, body: &[u8]) -> Result<Written, ApiError> {
        let parsed = json::parse(body).or_else(|_| json::parse_yaml(body));
        let (mut applied, duplicates) =
            parsed.map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
        json::whole_numbers(&mut applied);
        if !applied.is_object() {
            return Err(ApiError::bad_request("error decoding YAML: the patch is no object"));
        }
        let live = self.find(target);
        if live.is_none() && !target.subresource.is_empty() && !target.creates_on_update() {
            return Err(target.not_found());
        }
        self.check_applied(target, &applied)?;
        if applied["metadata"].get("managedFields").is_some_and(|list| !list.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        drop_nulls_of_metadata(&mut applied);
        let old = match &live {
            Some(live) => finish::in_version(target, live),
            None => create::empty_like(target),
        };
        let mut object =
            self.with_applier(target, |applier| applier.apply(&old, &applied, self.options.force))?;
        self.report_duplicates(duplicates)?;
        let managed = object["metadata"].get("managedFields").cloned();
        if target.resource.is_custom() {
            self.unclean = empty_parts(&object["metadata"]);
        }
        let named = |key: &str| applied["metadata"][key].as_str().unwrap_or_default().to_owned();
        let place = format!("{}/{}", named("namespace"), named("name"));
        decode(self, target, &mut object, Vec::new(), Origin::Apply(&place))?;
        if let Some(managed) = managed {
            object["metadata"]["managedFields"] = managed;
        }
        admit::label_namespace(&target.resource, &mut object);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if live.is_none() && !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(target.resource.subject(), &target.name, &why));
        }
        admit::fit_namespace(target, &mut object)?;
        admit::fit_name(target, &mut object)?;
        admit::dedup_owners(self, &mut object);
        match live {
            Some(live) => self.store_update(target, &live, old, object),
            None => Ok(Written { stored: self.insert(target, object)?, created: true }),
        }
    }

    fn check_applied(&self, target: &Target, applied: &Value) -> Result<(), ApiError> {
        let text = |key: &str| applied[key].as_str().unwrap_or_default();
        let (given, expected) = (text("apiVersion"), &target.served().api_version);
        if given == expected && text("kind") == target.resource.kind {
            return Ok(());
        }
        let group_version = match given.split_once('/') {
            Some((group, version)) => format!("{group}/{version}"),
            None => format!("/{given}"),
        };
        Err(ApiError::bad_request(format!("invalid object type: {group_version}, Kind={}", text("kind"))))
    }

    fn report_duplicates(&mut self, duplicates: Vec<String>) -> Result<(), ApiError> {
        match self.options.validation {
            _ if duplicates.is_empty() => Ok(()),
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Strict => {
                Err(ApiError::bad_request(format!("error strict decoding YAML: {}", duplicates.join(", "))))
            }
            FieldValidation::Warn => {
                duplicates.into_iter().for_each(|fault| self.warn(fault));
                Ok(())
            }
        }
    }
}

/// Upstream stores an applied custom resource with the empty lists and maps of its metadata, and no longer has them when it
/// reads it.
fn empty_parts(metadata: &Value) -> serde_json::Map<String, Value> {
    let empty = |value: &Value| {
        value.as_object().is_some_and(serde_json::Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    let parts = metadata.as_object().into_iter().flatten().filter(|(_, value)| empty(value));
    parts.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `creationTimestamp: null` and the like say nothing.
fn drop_nulls_of_metadata(applied: &mut Value) {
    if let Some(metadata) = applied.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
}
