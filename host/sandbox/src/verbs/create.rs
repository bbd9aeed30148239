//! Creating: by POST, by a PUT or an apply of an object that is not there.

use super::decode::{Origin, decode, parse};
use super::{admit, finish};
use crate::error::{ApiError, go_quote};
use crate::json;
use crate::schema::FieldError;
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
        let live = empty_like(target);
        self.with_applier(target, |applier| applier.update(&live, &mut object));
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|text| !text.is_empty() && text != "0")
        {
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        self.insert(target, object)
    }

    /// The second half of a create, from a decoded object with its managers.
    pub(crate) fn insert(&mut self, target: &Target, mut object: Value) -> Result<Arc<Stored>, ApiError> {
        let resource = &target.resource;
        let named = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        admit::create(self, target, &named)?;
        object["metadata"]["creationTimestamp"] = json!(self.now_text);
        let uid = self.state.identities.uid();
        object["metadata"]["uid"] = json!(uid);
        let name = self.name_object(target, &mut object)?;
        // Upstream's status endpoint creates too, and hands out nothing.
        let service = resource.is("", "services") && target.subresource.is_empty();
        if service {
            self.give_addresses(target, &name, &mut object)?;
        }
        let checked = self.check_new(target, &name, named.is_empty(), &mut object);
        if service && checked.is_err() && !self.options.dry_run {
            self.state.addresses.release(&object);
        }
        checked?;
        json::whole_numbers(&mut object);
        finish::to_storage(target, &mut object);
        // A status that was taken away again may have defaults: they are there for whoever reads it, but not stored.
        let completed = resource.is_custom() && finish::default_as_read(resource, &mut object);
        let stored = self.put(resource, object);
        let unclean = !std::mem::take(&mut self.unclean).is_empty() || completed;
        self.note_unclean(&stored, unclean);
        Ok(stored)
    }

    /// What a new object must be; its warnings are told.
    fn check_new(
        &mut self,
        target: &Target,
        name: &str,
        generated: bool,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let resource = &target.resource;
        if resource.is("", "pods") {
            self.admit_pod(target, object)?;
        }
        self.prepare_create(target, object)?;
        if resource.is("", "pods") {
            super::pods::hold_back(object, &self.now_text);
        }
        let errors = target.served().ty.validate_create(object);
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource.kind_subject(), name, &self.as_given(errors)));
        }
        self.warnings.extend(target.served().ty.warnings(object));
        let place = Target { name: name.to_owned(), ..target.clone() };
        let Some(live) = self.find(&place) else { return Ok(()) };
        let mut error = match generated {
            true => ApiError::generate_name_conflict(resource.subject(), name),
            false => ApiError::already_exists(resource.subject(), name),
        };
        if live.head.deleting && !generated {
            error.message = format!("object is being deleted: {}", error.message);
        }
        Err(error)
    }

    /// Gives a Service its addresses, before it is validated: an address is an object of its own that names the Service.
    fn give_addresses(&mut self, target: &Target, name: &str, object: &mut Value) -> Result<(), ApiError> {
        let refused =
            |errors: &[FieldError]| Err(ApiError::invalid(target.resource.kind_subject(), name, errors));
        let wanted = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        let before = object["spec"]["clusterIPs"].clone();
        let service = object.clone();
        let given = match self.options.dry_run {
            true => self.state.addresses.pretend(object),
            false => self.state.addresses.assign(object, None),
        };
        if let Err(errors) = given {
            return refused(&errors);
        }
        let ip = object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() && !self.options.dry_run && !matches!(ip.as_str(), "" | "None") {
            self.state.addresses.release(object);
            *object = service;
            let given = if wanted.is_empty() { String::new() } else { format!(" {wanted}") };
            let why = format!(
                "failed to allocate IP{given}: IPAddress.networking.k8s.io {} is invalid: spec.parentRef.name: Required value",
                go_quote(&ip)
            );
            let shown = if wanted.is_empty() { json!([""]) } else { before };
            return refused(&[FieldError::invalid("spec.clusterIPs", shown, why)]);
        }
        Ok(())
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
pub(crate) fn empty_like(target: &Target) -> Value {
    let mut empty =
        json!({"apiVersion": target.served().api_version, "kind": target.resource.kind, "metadata": {}});
    target.served().ty.fill_zero(&mut empty);
    empty
}
