//! What controllers do on a cluster: collect garbage, empty namespaces, establish and clean up custom resources.
//!
//! They run within the request that gives them work, before it is answered, each write under a revision of its own: no
//! background task, no timing, the same history every time.

mod definitions;
mod garbage;
mod namespaces;

use crate::resources::Resource;
use crate::store::TableId;
use crate::store::object::{Key, Stored};
use crate::turn::Turn;
use std::sync::Arc;

pub(crate) use definitions::{CLEANUP, set_condition};
pub(crate) use namespaces::{DEFAULT_NAMESPACES, PROTECTED_NAMESPACES};

/// Chores a request may cause; past this an object graph keeps making work for itself.
const CHORES_MAX: usize = 1_000_000;

/// The finalizer of a foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of a deletion that leaves the dependents.
pub(crate) const ORPHAN: &str = "orphan";

/// Something that a controller has to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chore {
    /// An owner is gone: see to the objects that name it.
    OwnerGone(Arc<str>),
    /// An object names owners: are they there?
    CheckOwners(TableId, Key),
    /// An object waits for its dependents, or to be parted from them.
    Dependents(TableId, Key),
    /// A namespace is being deleted.
    Namespace(Arc<str>),
    /// A CustomResourceDefinition changed.
    Definition(Key),
    /// A CustomResourceDefinition is gone: its name, group and plural.
    DefinitionGone(Key, String, String),
}

impl Turn<'_> {
    /// Notes what a write leaves to do.
    pub(crate) fn written(&mut self, resource: &Arc<Resource>, stored: &Arc<Stored>) {
        let head = &stored.head;
        let table = resource.table;
        if head.deleting {
            if head.finalizers.iter().any(|one| one == FOREGROUND || one == ORPHAN) {
                self.chore(Chore::Dependents(table, stored.key()));
            }
            self.look_at_waiting_owners(stored);
        }
        if !head.owners.is_empty() {
            self.chore(Chore::CheckOwners(table, stored.key()));
        }
        if resource.is("", "namespaces") && head.deleting {
            self.chore(Chore::Namespace(head.name.clone()));
        }
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            self.chore(Chore::Definition(stored.key()));
        }
    }

    /// Notes what a removal leaves to do.
    pub(crate) fn removed(&mut self, resource: &Arc<Resource>, last: &Arc<Stored>) {
        self.chore(Chore::OwnerGone(last.head.uid.clone()));
        self.look_at_waiting_owners(last);
        if !last.head.namespace.is_empty() {
            self.chore(Chore::Namespace(last.head.namespace.clone()));
        }
        if resource.is("", "services") {
            self.state.addresses.release(&last.value());
        }
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            let object = last.value();
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) = (text(&object["spec"]["group"]), text(&object["spec"]["names"]["plural"]));
            self.chore(Chore::DefinitionGone(last.key(), group, plural));
        } else if let Some(definition) = &resource.definition {
            let key: Key = definition.as_str().into();
            self.chore(Chore::Definition(key));
        }
    }

    fn look_at_waiting_owners(&mut self, stored: &Stored) {
        for owner in &stored.head.owners {
            let waiting = self.state.store.by_uid(&owner.uid).filter(|(_, owner)| owner.head.deleting);
            if let Some((table, key)) = waiting.map(|(table, owner)| (table, owner.key())) {
                self.chore(Chore::Dependents(table, key));
            }
        }
    }

    fn chore(&mut self, chore: Chore) {
        if self.pending.insert(chore.clone()) {
            self.chores.push_back(chore);
        }
    }

    /// Lets the controllers work until there is nothing left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..CHORES_MAX {
            let Some(chore) = self.chores.pop_front() else { return };
            self.pending.remove(&chore);
            match chore {
                Chore::OwnerGone(uid) => self.owner_gone(&uid),
                Chore::CheckOwners(table, key) => self.check_owners(table, &key),
                Chore::Dependents(table, key) => self.see_to_dependents(table, &key),
                Chore::Namespace(name) => self.empty_namespace(&name),
                Chore::Definition(key) => self.establish(&key),
                Chore::DefinitionGone(name, group, plural) => self.unserve(&name, &group, &plural),
            }
        }
        tracing::error!("the sandbox's controllers gave up: an object graph keeps making work for itself");
        self.forget_chores();
    }

    /// Leaves undone what is to be done.
    pub(crate) fn forget_chores(&mut self) {
        self.chores.clear();
        self.pending.clear();
    }
}
