//! The part of the kind that its reconciler reads and writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Names the namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "anacnu.com",
    version = "v1",
    kind = "KiteUser",
    status = "KiteUserStatus",
    schema = "disabled"
)]
pub struct KiteUserSpec {
    /// The user's namespace.
    #[serde(default)]
    pub namespace: String,
}

/// Says how far the namespace got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KiteUserStatus {
    /// `Pending`, `Ready` or `Failed`.
    pub phase: Option<String>,
    /// The generation that was processed last.
    pub observed_generation: Option<i64>,
    /// The namespace that was last accepted as this user's.
    pub observed_namespace: Option<String>,
    /// The condition's message.
    pub message: Option<String>,
    /// One condition, `NamespaceReady`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
