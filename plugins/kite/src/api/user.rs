//! `KiteUser`: a person (or a team) with a namespace of their own.

use evenkeel_sdk::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hidden::Hidden;

/// Who the user is, and the namespace that they get.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anacnu.com",
    version = "v1",
    kind = "KiteUser",
    plural = "kiteusers",
    singular = "kiteuser",
    shortname = "ku",
    category = "kite",
    status = "KiteUserStatus",
    doc = "A user of Kite, with a namespace of their own.",
    printcolumn = r#"{"name": "USER", "type": "string", "jsonPath": ".spec.username"}"#,
    printcolumn = r#"{"name": "NAMESPACE", "type": "string", "jsonPath": ".spec.namespace"}"#,
    printcolumn = r#"{"name": "LEVEL", "type": "integer", "jsonPath": ".spec.access_level"}"#,
    printcolumn = r#"{"name": "PHASE", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"NamespaceReady\")].status"}"#,
    printcolumn = r#"{"name": "MESSAGE", "type": "string", "jsonPath": ".status.message"}"#
)]
pub struct KiteUserSpec {
    /// Name shown and used to log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub username: Option<String>,
    /// Login key, whatever its case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub email: Option<String>,
    /// A hash of the password, never the password. No reconciler reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub password: Option<Hidden>,
    /// The user's namespace, created and isolated by Kite. Several users may share one.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    pub namespace: String,
    /// Profile image, base64.
    #[serde(default, rename = "profile_image", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262144))]
    pub profile_image: Option<String>,
    /// 0 read-only, 1 user, 2 manager, 3 administrator.
    #[serde(default, rename = "access_level", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3))]
    pub access_level: Option<i64>,
}

/// What became of the user's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KiteUserStatus {
    /// `Pending`, `Ready`, `Failed` or `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The generation that was processed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The namespace that was last accepted as this user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_namespace: Option<String>,
    /// The same text as the condition's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// One condition: `NamespaceReady`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
