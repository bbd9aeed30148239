//! Replacing an object, and what PUT and PATCH share.

use super::decode::{Origin, decode, parse};
use super::{admit, create, finish};
use crate::apply::managers::keep_times;
use crate::error::ApiError;
use crate::json;
use crate::schema::FieldError;
use crate::store::object::Stored;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// A written object and whether it is new.
pub(crate) struct Written {
    pub stored: Arc<Stored>,
    pub created: bool,
}

impl Turn<'_> {
    /// Replaces the object (or a part of it, by subresource) with a PUT body.
    pub(crate) fn replace(&mut self, target: &Target, body: &[u8], yaml: bool) -> Result<Written, ApiError> {
        let (mut object, duplicates) = parse(target, body, yaml)?;
        decode(self, target, &mut object, duplicates, Origin::Body)?;
        admit::label_namespace(&target.resource, &mut object);
        admit::fit_namespace(target, &mut object)?;
        admit::fit_name(target, &mut object)?;
        admit::dedup_owners(self, &mut object);
        let Some(live) = self.find(target) else {
            if !target.creates_on_update() {
                return Err(target.not_found());
            }
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            if !uid.is_empty() {
                return Err(self.uid_mismatch(target, uid, ""));
            }
            create::wipe_system_fields(&mut object);
            let empty = create::empty_like(target);
            self.with_applier(target, |applier| applier.update(&empty, &mut object));
            let stored = self.insert(target, object)?;
            return Ok(Written { stored, created: true });
        };
        let old = finish::in_version(target, &live);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && *uid != *live.head.uid {
            return Err(self.uid_mismatch(target, uid, &live.head.uid));
        }
        self.with_applier(target, |applier| applier.update(&old, &mut object));
        self.store_update(target, &live, old, object)
    }

    fn uid_mismatch(&self, target: &Target, given: &str, live: &str) -> ApiError {
        let resource = &target.resource;
        let root = if self.options.dry_run { "" } else { "/registry" };
        let prefix = match (resource.is_custom(), resource.group.as_str(), resource.plural.as_str()) {
            (true, group, plural) => format!("{root}/{group}/{plural}"),
            (_, "", "services") => format!("{root}/services/specs"),
            (_, "", "endpoints") => format!("{root}/services/endpoints"),
            (_, "", "nodes") => format!("{root}/minions"),
            (_, "", "replicationcontrollers") => format!("{root}/controllers"),
            (_, "networking.k8s.io", "ingresses") => format!("{root}/ingress"),
            (_, _, plural) => format!("{root}/{plural}"),
        };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {prefix}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {given}, UID in object meta: {live}",
            target.key()
        );
        ApiError::conflict(target.resource.subject(), &target.name, &why)
    }

    /// Stores the new state of a live object: version check, preparation, validation, and nothing where nothing changed.
    pub(crate) fn store_update(
        &mut self,
        target: &Target,
        live: &Arc<Stored>,
        old: Value,
        mut object: Value,
    ) -> Result<Written, ApiError> {
        let resource = &target.resource;
        self.check_revision(target, live, &object)?;
        object["metadata"]["resourceVersion"] = json!(live.head.revision.to_string());
        self.prepare_update(target, &mut object, &old);
        if matches!(target.subresource.as_str(), "" | "scale") {
            let emptied = resource.traits.generation_by_empties && self.says_empty("spec");
            finish::count_generation(resource, &mut object, &old, emptied);
        } else {
            finish::copy_metadata(&mut object, &old, "generation");
        }
        self.keep_system_fields(&mut object, &old);
        let subresource = (!target.subresource.is_empty()).then_some(target.subresource.as_str());
        let service = resource.is("", "services") && subresource.is_none();
        let before = service.then(|| self.state.addresses.clone());
        if service {
            self.state
                .addresses
                .assign(&mut object, Some(&old))
                .map_err(|errors| ApiError::invalid(resource.kind_subject(), &target.name, &errors))?;
        }
        let errors = target.served().ty.validate_update(&object, &old, subresource);
        if let Some(before) = before.filter(|_| self.options.dry_run || !errors.is_empty()) {
            self.state.addresses = before;
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.kind_subject(), &target.name, &self.as_given(errors)));
        }
        json::whole_numbers(&mut object);
        if resource.is("", "services") || object["metadata"]["generation"] != old["metadata"]["generation"] {
            self.warnings.extend(target.served().ty.warnings(&object));
        }
        keep_times(&mut object, &old);
        if self.is_to_go(resource, &object) {
            self.remove(resource, &live.key());
            // The client sees the object as it wanted it, under the revision that it had.
            if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                metadata.extend(std::mem::take(&mut self.unclean));
            }
            finish::to_storage(target, &mut object);
            let stored = Arc::new(Stored::freeze(&object, live.head.revision));
            return Ok(Written { stored, created: false });
        }
        let unclean = !std::mem::take(&mut self.unclean).is_empty();
        if object == old && unclean == self.state.unclean.contains(&live.head.uid) {
            return Ok(Written { stored: live.clone(), created: false });
        }
        finish::to_storage(target, &mut object);
        let stored = self.put(resource, object);
        self.note_unclean(&stored, unclean);
        Ok(Written { stored, created: false })
    }

    fn check_revision(&self, target: &Target, live: &Stored, object: &Value) -> Result<(), ApiError> {
        let resource = &target.resource;
        let given = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if given.is_empty() || given == "0" {
            let unconditional = resource.traits.unconditional_update && !resource.is_custom();
            if unconditional {
                return Ok(());
            }
            let error = FieldError {
                detail: "must be specified for an update".into(),
                ..FieldError::invalid("metadata.resourceVersion", 0, "")
            };
            return Err(ApiError::invalid(resource.subject(), &target.name, &[error]));
        }
        let Ok(given) = given.parse::<u64>() else {
            let quoted = crate::error::go_quote(given);
            return Err(ApiError::new(
                500,
                "",
                format!("strconv.ParseUint: parsing {quoted}: invalid syntax"),
            ));
        };
        if given != live.head.revision {
            return Err(ApiError::modified(resource.subject(), &target.name));
        }
        Ok(())
    }

    /// Puts back what this endpoint does not change.
    fn prepare_update(&mut self, target: &Target, object: &mut Value, old: &Value) {
        let version = target.served();
        match target.subresource.as_str() {
            "" if target.resource.is_custom() && version.status => finish::copy_field(object, old, "status"),
            "" if target.resource.is_custom() => {}
            "" => {
                version.ty.prepare_update(object, old);
                if target.resource.is("", "services") {
                    crate::services::prepare_update(object, old);
                }
            }
            "finalize" => {
                let finalizers = object["spec"]["finalizers"].clone();
                let managed = object["metadata"].get("managedFields").cloned();
                *object = old.clone();
                if finalizers.as_array().is_none_or(Vec::is_empty) {
                    object["spec"] = json!({});
                } else {
                    object["spec"]["finalizers"] = finalizers;
                }
                set_managed(object, managed);
            }
            "status" if target.resource.is_custom() => {
                let status = object.get("status").cloned();
                let managed = object["metadata"].get("managedFields").cloned();
                *object = old.clone();
                match (status, object.as_object_mut()) {
                    (Some(status), Some(fields)) => fields.insert("status".into(), status),
                    (None, Some(fields)) => fields.remove("status"),
                    (_, None) => None,
                };
                set_managed(object, managed);
            }
            "status" => self.prepare_native_status(target, object, old),
            _ => {}
        }
    }

    /// Built-in kinds keep their spec, and let most of the metadata through.
    fn prepare_native_status(&mut self, target: &Target, object: &mut Value, old: &Value) {
        let kept: Vec<String> = old
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .filter(|key| !matches!(key.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
            .collect();
        let mine: Vec<String> =
            object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        for key in kept.iter().chain(&mine) {
            if !matches!(key.as_str(), "metadata" | "status" | "apiVersion" | "kind") {
                finish::copy_field(object, old, key);
            }
        }
        let resource = &target.resource;
        if resource.is("", "pods") {
            finish::copy_metadata(object, old, "ownerReferences");
        }
        if resource.is("apps", "deployments") {
            finish::copy_metadata(object, old, "labels");
        }
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            let managed = object["metadata"].get("managedFields").cloned();
            finish::copy_field(object, old, "metadata");
            set_managed(object, managed);
        }
    }

    /// What an update can never change.
    fn keep_system_fields(&self, object: &mut Value, old: &Value) {
        if object["metadata"]["uid"].as_str().unwrap_or_default().is_empty() {
            finish::copy_metadata(object, old, "uid");
        }
        finish::copy_metadata(object, old, "creationTimestamp");
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            if !old["metadata"][field].is_null() {
                finish::copy_metadata(object, old, field);
            }
        }
    }
}

fn set_managed(object: &mut Value, managed: Option<Value>) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        match managed {
            Some(managed) => metadata.insert("managedFields".into(), managed),
            None => metadata.remove("managedFields"),
        };
    }
}
