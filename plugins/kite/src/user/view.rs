//! What R1 reads of the cluster, and nothing more: no password, no profile image.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use evenkeel_sdk::{Condition, Kind};
use k8s_openapi::api::core::v1::Namespace;
use serde::Deserialize;

use crate::api::KiteUser;
use crate::names;

/// Parts of a user that run a pass when they change. The status is read too, but it is R1's own.
pub const PRIMARY: &[&str] = &[
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/deletionTimestamp",
    "/metadata/finalizers",
    "/spec/namespace",
];

/// The primary.
#[derive(Deserialize)]
pub(super) struct User {
    pub metadata: UserMeta,
    #[serde(default)]
    pub spec: UserSpec,
    #[serde(default)]
    pub status: UserStatus,
}
evenkeel_sdk::view!(User as KiteUser: "/metadata", "/spec/namespace", "/status");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserMeta {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    pub generation: Option<i64>,
    creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct UserSpec {
    #[serde(default)]
    pub namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UserStatus {
    pub observed_namespace: Option<String>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl User {
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().any(|finalizer| finalizer == names::USER_FINALIZER)
    }
}

impl UserMeta {
    /// Sorts by who was there first.
    pub fn age(&self) -> (&str, &str) {
        (self.creation_timestamp.as_deref().unwrap_or_default(), &self.name)
    }
}

/// Another user of the same namespace.
#[derive(Deserialize)]
pub(super) struct Claimant {
    pub metadata: UserMeta,
    #[serde(default)]
    status: UserStatus,
}
evenkeel_sdk::view!(
    Claimant as KiteUser:
    "/metadata/creationTimestamp", "/metadata/deletionTimestamp", "/spec/namespace", "/status/observedNamespace"
);

impl Claimant {
    pub fn is_live(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }

    /// Whether the namespace was accepted as this user's.
    pub fn has_taken(&self, namespace: &str) -> bool {
        self.status.observed_namespace.as_deref() == Some(namespace)
    }
}

/// The namespace wanted.
#[derive(Deserialize)]
pub(super) struct Tenant {
    metadata: TenantMeta,
}
evenkeel_sdk::view!(
    Tenant as Namespace:
    "/metadata/uid",
    "/metadata/deletionTimestamp",
    "/metadata/labels/name",
    "/metadata/labels/kite.anacnu.com~1managed-by",
    "/metadata/annotations/kite.anacnu.com~1orphaned-since"
);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantMeta {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Tenant {
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn is_managed(&self) -> bool {
        self.metadata.labels.get(names::MANAGED_BY_LABEL).is_some_and(|value| value == names::MANAGED_BY)
    }

    pub fn name_label(&self) -> Option<&str> {
        self.metadata.labels.get(names::NAME_LABEL).map(String::as_str)
    }

    pub fn orphaned_since(&self) -> Option<&str> {
        self.metadata.annotations.get(names::ORPHANED_SINCE).map(String::as_str)
    }
}

/// A policy or quota that may be deleted.
#[derive(Deserialize)]
#[serde(bound = "")]
pub(super) struct Owned<K> {
    metadata: TenantMeta,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: Kind> Kind for Owned<K> {
    fn gvk() -> evenkeel_sdk::Gvk {
        K::gvk()
    }

    fn pointers() -> &'static [&'static str] {
        &["/metadata/uid", "/metadata/labels/kite.anacnu.com~1managed-by"]
    }
}

impl<K> Owned<K> {
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub fn is_ours(&self) -> bool {
        self.metadata.labels.get(names::MANAGED_BY_LABEL).is_some_and(|value| value == names::MANAGED_BY)
    }
}
