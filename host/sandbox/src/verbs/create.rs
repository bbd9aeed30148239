//! Creating: by POST, by a PUT or an apply of an object that is not there.

use super::decode::{Origin, decode, parse};
use super::{admit, finish};
use crate::error::ApiError;
use crate::store::object::Stored;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

/// How often another suffix is tried for a generated name.
const GENERATED_NAMES_MAX: usize = 8;

impl Turn<'_> {
    /// Creates the object of a POST body.
    pub(crate) fn create(
        &mut self,
        target: &Target,
        body: &[u8],
        yaml: bool,
    ) -> Result<Arc<Stored>, ApiError> {
        let (mut object, duplicates) = parse(target, body, yaml)?;
        decode(self, target, &mut object, duplicates, Origin::Body)?;
        admit::label_namespace(&target.resource, &mut object);
        wipe_system_fields(&mut object);
        admit::fit_namespace(target, &mut object)?;
        admit::dedup_owners(self, &mut object);
        let live = empty_like(target, &object);
        self.with_applier(target, |applier| applier.update(&live, &mut object));
        self.insert(target, object)
    }

    /// The second half of a create, from a decoded object with its managers.
    pub(crate) fn insert(&mut self, target: &Target, mut object: Value) -> Result<Arc<Stored>, ApiError> {
        let resource = &target.resource;
        let named = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        admit::create(self, target, &named)?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|text| !text.is_empty() && text != "0")
        {
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        object["metadata"]["creationTimestamp"] = json!(self.now_text);
        let uid = self.state.identities.uid();
        object["metadata"]["uid"] = json!(uid);
        let name = self.name_object(target, &mut object)?;
        self.prepare_create(target, &mut object)?;
        let errors = target.served().ty.validate_create(&object);
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.kind_subject(), &name, &errors));
        }
        self.warnings.extend(target.served().ty.warnings(&object));
        let place = Target { name: name.clone(), ..target.clone() };
        if self.find(&place).is_some() {
            let generated = named.is_empty();
            return Err(match generated {
                true => ApiError::generate_name_conflict(resource.subject(), &name),
                false => ApiError::already_exists(resource.subject(), &name),
            });
        }
        if resource.is("", "services") {
            self.state
                .addresses
                .assign(&mut object, None)
                .map_err(|errors| ApiError::invalid(resource.kind_subject(), &name, &errors))?;
            if self.options.dry_run {
                self.state.addresses.release(&object);
            }
        }
        finish::to_storage(target, &mut object);
        Ok(self.put(resource, object))
    }

    /// Gives an object with only a `generateName` a name that is free.
    fn name_object(&mut self, target: &Target, object: &mut Value) -> Result<String, ApiError> {
        let text =
            |object: &Value, key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let given = text(object, "name");
        let base = text(object, "generateName");
        if !given.is_empty() || base.is_empty() {
            return Ok(given);
        }
        let base: String = base.chars().take(58).collect();
        for _ in 0..GENERATED_NAMES_MAX {
            let name = format!("{base}{}", self.state.identities.suffix());
            object["metadata"]["name"] = json!(name);
            let place = Target { name: name.clone(), ..target.clone() };
            if self.find(&place).is_none() {
                break;
            }
        }
        admit::label_namespace(&target.resource, object);
        Ok(text(object, "name"))
    }

    fn prepare_create(&mut self, target: &Target, object: &mut Value) -> Result<(), ApiError> {
        let resource = &target.resource;
        let version = target.served();
        if resource.is_custom() {
            if version.status
                && let Some(fields) = object.as_object_mut()
            {
                fields.remove("status");
            }
        } else {
            version.ty.prepare_create(object);
        }
        if resource.traits.generation {
            finish::set_generation(object, Some(1));
        }
        Ok(())
    }
}

/// Fields that a client cannot set on a new object.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for field in
            ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            metadata.remove(field);
        }
    }
}

/// What stands for the live object where there is none. Structs that Go always writes are there already, so that nobody
/// comes to own them by leaving them empty.
pub(crate) fn empty_like(target: &Target, object: &Value) -> Value {
    let mut empty = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {}});
    target.served().ty.fill_zero(&mut empty);
    empty
}
