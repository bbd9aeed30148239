//! CustomResourceDefinitions: a new one is served at once, one that goes takes its objects along.

use crate::resources::{Resource, Scale, Traits, Version, api_version, version_rank};
use crate::schema::crd::{self, Crd};
use crate::store::object::{Key, Stored};
use crate::turn::Turn;
use crate::verbs::delete::Propagation;
use serde_json::{Value, json};
use std::sync::Arc;

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Turn<'_> {
    /// Brings what is served in line with a definition.
    pub(super) fn establish(&mut self, key: &Key) {
        let Some(definitions) =
            self.state.registry.find("apiextensions.k8s.io", "customresourcedefinitions").cloned()
        else {
            return;
        };
        let Some(stored) = self.state.store.get(definitions.table, key).cloned() else { return };
        if stored.head.deleting {
            self.clean_up(&definitions, &stored);
            return;
        }
        let object = stored.value();
        let Ok(compiled) = crd::compile(&object) else {
            tracing::error!(name = %stored.head.name, "a stored CustomResourceDefinition does not compile");
            return;
        };
        self.serve(&compiled, &stored, &object["spec"]);
        self.tell_established(&definitions, &stored, &compiled);
    }

    /// Serves what a definition with this `spec` defines; writes nothing.
    pub(crate) fn serve(&mut self, compiled: &Crd, stored: &Stored, spec: &Value) {
        let old = self.state.registry.find(&compiled.group, &compiled.plural).cloned();
        let table = match &old {
            Some(old) if old.definition.as_deref() == Some(&*stored.head.name) => old.table,
            // A built-in resource of that name stays what it is.
            Some(_) => return,
            None => {
                let table = self.state.registry.new_table();
                self.state.store.add_table(table);
                table
            }
        };
        let resource = self.state.registry.add(resource_of(compiled, table, stored, spec));
        if old.is_some_and(|old| old.shape != resource.shape) {
            let ty = &resource.storage_version().ty;
            self.state.store.reshape(table, |object| {
                // What no longer fits stays as it is, as on the real server.
                if ty.decode(object).is_ok() {
                    ty.default(object);
                }
            });
            // The real server serves it by another storage from here on, and the watches of the one before end with it.
            self.state.store.cut(table);
        }
    }

    fn tell_established(&mut self, definitions: &Arc<Resource>, stored: &Arc<Stored>, compiled: &Crd) {
        let now = self.now_text.clone();
        self.edit(definitions, stored, |object| {
            let names = object["spec"]["names"].clone();
            let status = &mut object["status"];
            if !status.is_object() {
                *status = json!({});
            }
            status["acceptedNames"] = names;
            let mut versions = status["storedVersions"].as_array().cloned().unwrap_or_default();
            if !versions.iter().any(|one| *one == json!(compiled.storage)) {
                versions.push(json!(compiled.storage));
            }
            status["storedVersions"] = Value::Array(versions);
            let list = status["conditions"].as_array().cloned().unwrap_or_default();
            let mut conditions = list;
            set_condition(
                &mut conditions,
                &now,
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found",
            );
            set_condition(
                &mut conditions,
                &now,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            );
            status["conditions"] = Value::Array(conditions);
        });
    }

    /// Deletes the objects of a definition that is being deleted; lets it go when none is left.
    fn clean_up(&mut self, definitions: &Arc<Resource>, stored: &Arc<Stored>) {
        if !stored.head.finalizers.iter().any(|one| one == CLEANUP) {
            return;
        }
        let served = self
            .state
            .registry
            .all()
            .find(|one| one.definition.as_deref() == Some(&*stored.head.name))
            .cloned();
        if let Some(resource) = served {
            let objects: Vec<Arc<Stored>> = self
                .state
                .store
                .table(resource.table)
                .map(|table| table.objects.values().cloned().collect())
                .unwrap_or_default();
            for object in objects.iter().filter(|object| !object.head.deleting) {
                self.delete_stored(&resource, object, Propagation::Background);
            }
            let left = self.state.store.table(resource.table).is_some_and(|table| !table.objects.is_empty());
            if left {
                let now = self.now_text.clone();
                self.edit(definitions, stored, |object| {
                    let mut conditions =
                        object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    set_condition(
                        &mut conditions,
                        &now,
                        "Terminating",
                        "True",
                        "InstanceDeletionInProgress",
                        "CustomResource deletion is in progress",
                    );
                    object["status"]["conditions"] = Value::Array(conditions);
                });
                return;
            }
        }
        self.drop_finalizer(definitions, stored, CLEANUP);
    }

    /// Stops to serve what a definition that is gone defined.
    pub(crate) fn unserve(&mut self, name: &str, group: &str, plural: &str) {
        let found = self.state.registry.find(group, plural);
        let ours = found.is_some_and(|resource| resource.definition.as_deref() == Some(name));
        if ours && let Some(resource) = self.state.registry.remove(group, plural) {
            self.state.store.remove_table(resource.table);
        }
    }
}

fn resource_of(compiled: &Crd, table: crate::store::TableId, stored: &Stored, spec: &Value) -> Resource {
    let versions: Vec<Version> = compiled
        .versions
        .iter()
        .map(|version| Version {
            name: version.name.clone(),
            api_version: api_version(&compiled.group, &version.name),
            served: version.served,
            ty: version.ty.clone(),
            status: version.status,
            scale: version.scale.as_ref().map(|scale| Scale {
                spec_replicas: scale.spec_path.trim_start_matches('.').to_owned(),
                status_replicas: scale.status_path.trim_start_matches('.').to_owned(),
                selector: scale.selector_path.as_ref().map(|path| path.trim_start_matches('.').to_owned()),
            }),
            columns: version.columns.clone(),
            selectable: version.selectable.clone(),
            deprecation: version.deprecated.then(|| {
                version.deprecation_warning.clone().unwrap_or_else(|| deprecation(compiled, &version.name))
            }),
        })
        .collect();
    let storage = compiled.versions.iter().position(|version| version.storage).unwrap_or_default();
    Resource {
        table,
        group: compiled.group.clone(),
        plural: compiled.plural.clone(),
        singular: compiled.singular.clone(),
        kind: compiled.kind.clone(),
        list_kind: compiled.list_kind.clone(),
        short_names: compiled.short_names.clone(),
        categories: compiled.categories.clone(),
        namespaced: compiled.namespaced,
        versions,
        storage,
        traits: Traits { generation: true, returns_deleted: false, ..Traits::default() },
        definition: Some(stored.head.name.to_string()),
        shape: spec.to_string().into(),
    }
}

/// What is told of a deprecated version, and of the best one that is not.
fn deprecation(compiled: &Crd, name: &str) -> String {
    let (group, kind) = (&compiled.group, &compiled.kind);
    let better = compiled.versions.iter().filter(|one| one.served && !one.deprecated);
    let better = better.filter(|one| version_rank(&one.name) > version_rank(name));
    match better.max_by_key(|one| version_rank(&one.name)) {
        Some(best) => format!("{group}/{name} {kind} is deprecated; use {group}/{} {kind}", best.name),
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

/// Sets a condition; its time moves only with its status.
pub(crate) fn set_condition(
    list: &mut Vec<Value>,
    now: &str,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let found = list.iter().position(|one| one["type"] == kind);
    let since = found
        .map(|at| &list[at])
        .filter(|one| one["status"] == status)
        .map_or(json!(now), |one| one["lastTransitionTime"].clone());
    let new = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
    match found {
        Some(at) => list[at] = new,
        None => list.push(new),
    }
}
