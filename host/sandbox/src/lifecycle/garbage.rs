//! Garbage collection by owner references: background, foreground and orphaning.

use super::{FOREGROUND, ORPHAN};
use crate::resources::Resource;
use crate::store::TableId;
use crate::store::object::{Key, Owner, Stored};
use crate::turn::Turn;
use crate::verbs::delete::Propagation;
use serde_json::Value;
use std::sync::Arc;

/// How an owner reference stands.
#[derive(PartialEq, Eq)]
enum Standing {
    /// The owner is there.
    Solid,
    /// The owner is there and waits for its dependents to go.
    Waiting,
    /// There is no such owner.
    Dangling,
}

impl Turn<'_> {
    /// Looks at everything that named an owner which is gone.
    pub(super) fn owner_gone(&mut self, uid: &str) {
        for (table, dependent) in self.state.store.dependents(uid) {
            self.collect(table, &dependent.key());
        }
    }

    /// Looks at a written object's owners: one that nobody owns any more goes.
    pub(super) fn check_owners(&mut self, table: TableId, key: &Key) {
        self.collect(table, key);
    }

    /// Deletes an object whose owners are all gone or waiting for it; drops references to some that are gone.
    fn collect(&mut self, table: TableId, key: &Key) {
        let Some(resource) = self.resource_of(table) else { return };
        let Some(stored) = self.state.store.get(table, key).cloned() else { return };
        if stored.head.owners.is_empty() || stored.head.deleting {
            return;
        }
        let standings: Vec<Standing> =
            stored.head.owners.iter().map(|owner| self.standing(&stored, owner)).collect();
        let has = |wanted: Standing| standings.contains(&wanted);
        if has(Standing::Solid) {
            if has(Standing::Waiting) || has(Standing::Dangling) {
                let mut kept = standings.iter();
                self.edit(&resource, &stored, |object| {
                    retain_owners(object, |_| {
                        kept.next().is_none_or(|standing| *standing == Standing::Solid)
                    });
                });
            }
            return;
        }
        let has_dependents = !self.state.store.dependents(&stored.head.uid).is_empty();
        let finalizers = &stored.head.finalizers;
        let propagation = if has(Standing::Waiting) && has_dependents {
            Propagation::Foreground
        } else if finalizers.iter().any(|one| one == ORPHAN) {
            Propagation::Orphan
        } else if finalizers.iter().any(|one| one == FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        self.delete_stored(&resource, &stored, propagation);
    }

    fn standing(&self, dependent: &Stored, owner: &Owner) -> Standing {
        let Some((table, found)) = self.state.store.by_uid(&owner.uid) else {
            // Of a kind that nobody serves, nobody can say that it is gone.
            let served = self.state.registry.find_kind(&owner.api_version, &owner.kind).is_some();
            return if served { Standing::Dangling } else { Standing::Solid };
        };
        let fits = self.state.registry.of_table(table).is_some_and(|resource| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let reachable = !resource.namespaced || found.head.namespace == dependent.head.namespace;
            resource.group == group
                && resource.kind == owner.kind
                && *owner.name == *found.head.name
                && reachable
        });
        match fits {
            false => Standing::Dangling,
            true if found.head.deleting && found.head.finalizers.iter().any(|one| one == FOREGROUND) => {
                Standing::Waiting
            }
            true => Standing::Solid,
        }
    }

    /// An owner that is being deleted in the foreground, or is to be parted from its dependents.
    pub(super) fn see_to_dependents(&mut self, table: TableId, key: &Key) {
        let Some(resource) = self.resource_of(table) else { return };
        let Some(owner) = self.state.store.get(table, key).cloned() else { return };
        if !owner.head.deleting {
            return;
        }
        let uid = owner.head.uid.clone();
        if owner.head.finalizers.iter().any(|one| one == ORPHAN) {
            for (table, dependent) in self.state.store.dependents(&uid) {
                let Some(resource) = self.resource_of(table) else { continue };
                self.edit(&resource, &dependent, |object| {
                    retain_owners(object, |owner| owner["uid"] != *uid)
                });
            }
            self.drop_finalizer(&resource, &owner, ORPHAN);
        } else if owner.head.finalizers.iter().any(|one| one == FOREGROUND) {
            for (table, dependent) in self.state.store.dependents(&uid) {
                self.collect(table, &dependent.key());
            }
            let dependents = self.state.store.dependents(&uid);
            let blocked = dependents.iter().any(|(_, dependent)| {
                dependent.head.owners.iter().any(|owner| owner.uid == uid && owner.blocks)
            });
            if !blocked {
                self.drop_finalizer(&resource, &owner, FOREGROUND);
            }
        }
    }

    pub(super) fn drop_finalizer(&mut self, resource: &Arc<Resource>, stored: &Arc<Stored>, finalizer: &str) {
        self.edit(resource, stored, |object| {
            if let Some(list) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
                list.retain(|one| one != finalizer);
            }
            drop_if_empty(object, "finalizers");
        });
    }

    /// A write by a controller: changes the stored object as it is, and removes it where that was all that kept it.
    pub(super) fn edit(
        &mut self,
        resource: &Arc<Resource>,
        stored: &Arc<Stored>,
        change: impl FnOnce(&mut Value),
    ) {
        let Some(current) = self.state.store.get(resource.table, &stored.key()).cloned() else { return };
        let old = current.value();
        let mut object = old.clone();
        change(&mut object);
        if object == old {
            return;
        }
        self.note_controller(resource, &old, &mut object);
        if self.is_to_go(resource, &object) {
            self.remove(resource, &current.key());
        } else {
            self.put(resource, object);
        }
    }
}

fn retain_owners(object: &mut Value, mut keep: impl FnMut(&Value) -> bool) {
    if let Some(list) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        list.retain(|owner| keep(owner));
    }
    drop_if_empty(object, "ownerReferences");
}

fn drop_if_empty(object: &mut Value, field: &str) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut)
        && metadata.get(field).and_then(Value::as_array).is_some_and(Vec::is_empty)
    {
        metadata.remove(field);
    }
}
