//! Which machine something belongs to, and what its parts are called.

use std::collections::BTreeMap;

use evenkeel_sdk::{ObjectRef, reference};
use serde_json::{Value, json};

use crate::api::KiteVirtualMachine;
use crate::names;

/// One KiteVirtualMachine: its place, and the UID that tells it from a successor of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace, from the object's key and never from a text that its user wrote.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl Identity {
    /// Of an object that was read.
    pub fn of(machine: &KiteVirtualMachine) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let metadata = &machine.metadata;
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
    }

    /// The reference to the machine itself.
    pub fn reference(&self) -> ObjectRef {
        reference::<KiteVirtualMachine>((&self.namespace, &self.name))
    }

    /// Name of the DataVolume, and of the claim that CDI makes for it.
    pub fn disk(&self) -> String {
        format!("{}-disk", self.name)
    }

    /// Name of the cloud-init Secret.
    pub fn cloud_init(&self) -> String {
        format!("{}-cloud-init-userdata", self.name)
    }

    /// Name of the Secret with the password hash, which others make.
    pub fn guest_login(&self) -> String {
        format!("{}-guest-login", self.name)
    }

    /// Name of the Secret with an SSH key, which others make.
    pub fn ssh_key(&self) -> String {
        format!("{}-ssh-key", self.name)
    }

    /// The labels of every part.
    pub fn labels(&self) -> BTreeMap<String, String> {
        [
            (names::MANAGED_BY_LABEL, names::MANAGED_BY),
            (names::VM_NAME_LABEL, &self.name),
            (names::VM_NAMESPACE_LABEL, &self.namespace),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
    }

    /// The owner reference of every part.
    pub fn owner(&self) -> Value {
        json!({
            "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
            "kind": "KiteVirtualMachine",
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// The metadata of a part. Its owner reference is the host's to add, by `controlled`.
    pub fn metadata(&self, name: &str) -> Value {
        json!({ "namespace": self.namespace, "name": name, "labels": self.labels() })
    }
}
