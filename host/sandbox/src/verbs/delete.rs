//! Deleting: preconditions, finalizers, propagation, grace, and what the answer is.

use super::admit;
use crate::error::{ApiError, Subject};
use crate::json;
use crate::lifecycle::{CLEANUP, FOREGROUND, ORPHAN};
use crate::request::Query;
use crate::resources::Resource;
use crate::store::object::{Stored, strings};
use crate::turn::{Target, Turn, second};
use serde_json::{Value, json};
use std::sync::Arc;

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion, from its body or its query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub propagation: Option<Propagation>,
    /// The older way to say it.
    pub orphan: Option<bool>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub grace: Option<i64>,
    pub dry_run: bool,
}

/// What a deletion leaves.
pub(crate) enum Deleted {
    /// The object is gone; its last state.
    Gone(Arc<Stored>),
    /// It waits for finalizers or its grace period.
    Pending(Arc<Stored>),
}

impl DeleteOptions {
    /// Reads the body, or the query where there is none.
    pub(crate) fn read(body: &[u8], query: &Query) -> Result<DeleteOptions, ApiError> {
        let object = if body.iter().all(u8::is_ascii_whitespace) {
            from_query(query)?
        } else {
            json::parse(body).map_err(ApiError::bad_request)?.0
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(kind) = object["kind"].as_str().filter(|kind| !matches!(*kind, "" | "DeleteOptions")) {
            let version =
                object["apiVersion"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            let why = format!("converting ({version}.{kind}) to (v1.DeleteOptions): unknown conversion");
            return Err(ApiError::bad_request(why));
        }
        let mut errors = Vec::new();
        let propagation = match object["propagationPolicy"].as_str() {
            None | Some("") => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(crate::schema::FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        let orphan = object["orphanDependents"].as_bool();
        if orphan.is_some() && propagation.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(crate::schema::FieldError::invalid(
                "propagationPolicy",
                object["propagationPolicy"].clone(),
                why,
            ));
        }
        let dry_runs: Vec<String> = strings(object.get("dryRun"));
        if dry_runs.iter().any(|value| value != "All") {
            errors.push(crate::schema::FieldError::not_supported("dryRun", json!(dry_runs), &["All"]));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid(
                Subject { group: "meta.k8s.io", kind: "DeleteOptions" },
                "",
                &errors,
            ));
        }
        Ok(DeleteOptions {
            propagation,
            orphan,
            uid: text(&object["preconditions"]["uid"]),
            resource_version: text(&object["preconditions"]["resourceVersion"]),
            grace: object["gracePeriodSeconds"].as_i64().map(|grace| if grace < 0 { 1 } else { grace }),
            dry_run: !dry_runs.is_empty(),
        })
    }

    /// The policy that applies: what the client says, else what the object's finalizers say, else the kind's own.
    fn policy(&self, finalizers: &[String]) -> Propagation {
        if let Some(orphan) = self.orphan {
            return if orphan { Propagation::Orphan } else { Propagation::Background };
        }
        let from_finalizers = finalizers.iter().find_map(|finalizer| match finalizer.as_str() {
            ORPHAN => Some(Propagation::Orphan),
            FOREGROUND => Some(Propagation::Foreground),
            _ => None,
        });
        self.propagation.or(from_finalizers).unwrap_or(Propagation::Background)
    }
}

fn from_query(query: &Query) -> Result<Value, ApiError> {
    let mut object = json!({});
    if let Some(policy) = query.get("propagationPolicy") {
        object["propagationPolicy"] = json!(policy);
    }
    if let Some(grace) = query.number("gracePeriodSeconds")? {
        object["gracePeriodSeconds"] = json!(grace);
    }
    if query.has("orphanDependents") {
        object["orphanDependents"] = json!(query.flag("orphanDependents"));
    }
    let dry_run: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if !dry_run.is_empty() {
        object["dryRun"] = json!(dry_run);
    }
    Ok(object)
}

impl Turn<'_> {
    /// Deletes the object of a request.
    pub(crate) fn delete(&mut self, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let stored = self.live(target)?;
        self.options.dry_run = options.dry_run;
        admit::delete(target)?;
        check_preconditions(target, &stored, options)?;
        Ok(self.delete_with(&target.resource, &stored, options))
    }

    /// Deletes an object on behalf of a controller.
    pub(crate) fn delete_stored(
        &mut self,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
        propagation: Propagation,
    ) {
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.delete_with(resource, stored, &options);
    }

    fn delete_with(
        &mut self,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
        options: &DeleteOptions,
    ) -> Deleted {
        let mut object = stored.value();
        let pending_grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        let shortened = options.grace.is_some_and(|grace| grace < pending_grace);
        if stored.head.deleting && pending_grace > 0 && !shortened {
            return Deleted::Pending(stored.clone());
        }
        let special = self.mark_special(resource, &mut object);
        let grace = grace_of(resource, &object, options);
        let finalizers = finalizers_for(options, &strings(object["metadata"].get("finalizers")), resource);
        set_finalizers(&mut object, &finalizers);
        let held = !finalizers.is_empty() || special;
        if !held && grace == 0 {
            return match self.remove(resource, &stored.key()) {
                Some(last) => Deleted::Gone(last),
                None => Deleted::Gone(stored.clone()),
            };
        }
        self.mark_deleting(resource, &mut object, grace);
        if object == stored.value() {
            return Deleted::Pending(stored.clone());
        }
        Deleted::Pending(self.put(resource, object))
    }

    /// Namespaces wait for their content, definitions for their objects.
    fn mark_special(&mut self, resource: &Resource, object: &mut Value) -> bool {
        if resource.is("", "namespaces") {
            let held = object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
            if held {
                object["status"]["phase"] = json!("Terminating");
            }
            return held;
        }
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions")
            && object["metadata"]["deletionTimestamp"].is_null()
        {
            let mut finalizers = strings(object["metadata"].get("finalizers"));
            finalizers.push(CLEANUP.to_owned());
            object["metadata"]["finalizers"] = json!(finalizers);
            let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let now = self.now_text.clone();
            crate::lifecycle::set_condition(
                &mut conditions,
                &now,
                "Terminating",
                "True",
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            );
            object["status"]["conditions"] = Value::Array(conditions);
        }
        false
    }

    fn mark_deleting(&mut self, resource: &Resource, object: &mut Value, grace: i64) {
        let new = object["metadata"]["deletionTimestamp"].is_null();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        let quiet = matches!(resource.plural.as_str(), "namespaces" | "customresourcedefinitions")
            && !resource.is_custom();
        if new && generation > 0 && !quiet {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let until = self.now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(self.now);
        if new || grace < object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() {
            object["metadata"]["deletionTimestamp"] = json!(second(until));
        }
        if !quiet {
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        }
    }
}

/// Only pods that run somewhere get time to stop.
fn grace_of(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if !resource.is("", "pods") {
        return 0;
    }
    let runs = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !runs || over {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    options.grace.unwrap_or(own)
}

/// The finalizers with those of the policy.
fn finalizers_for(options: &DeleteOptions, old: &[String], resource: &Resource) -> Vec<String> {
    if resource.is("", "events") {
        return old.to_vec();
    }
    let mut new: Vec<String> =
        old.iter().filter(|one| *one != ORPHAN && *one != FOREGROUND).cloned().collect();
    match options.policy(old) {
        Propagation::Orphan => new.push(ORPHAN.to_owned()),
        Propagation::Foreground => new.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    let (mut a, mut b) = (old.to_vec(), new.clone());
    a.sort();
    b.sort();
    if a == b { old.to_vec() } else { new }
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) else { return };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

fn check_preconditions(target: &Target, stored: &Stored, options: &DeleteOptions) -> Result<(), ApiError> {
    let subject = Subject { group: &target.resource.group, kind: &target.resource.kind };
    let head = &stored.head;
    if let Some(uid) = options.uid.as_ref().filter(|uid| ***uid != *head.uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
             and then recreated",
            head.uid
        );
        return Err(ApiError::conflict(subject, &target.name, &why));
    }
    let version = head.revision.to_string();
    if let Some(given) = options.resource_version.as_ref().filter(|given| **given != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record ({version}). The \
             object might have been modified"
        );
        return Err(ApiError::conflict(subject, &target.name, &why));
    }
    Ok(())
}

/// The `Status` that answers a deletion.
pub(crate) fn success(target: &Target, uid: &str) -> Value {
    let mut details = json!({"name": target.name, "kind": target.resource.plural, "uid": uid});
    if !target.resource.group.is_empty() {
        details["group"] = json!(target.resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
