//! What R2 reads of a namespace: metadata alone.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::names;

/// Parts of a namespace that run a pass when they change.
pub const PRIMARY: &[&str] = &[
    "/metadata/uid",
    "/metadata/deletionTimestamp",
    "/metadata/labels/kite.anacnu.com~1managed-by",
    "/metadata/annotations/kite.anacnu.com~1orphaned-since",
    "/metadata/annotations/kite.anacnu.com~1retain",
];

/// A namespace that may have lost its users.
#[derive(Deserialize)]
pub(super) struct Orphan {
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Orphan {
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub fn is_managed(&self) -> bool {
        self.metadata.labels.get(names::MANAGED_BY_LABEL).is_some_and(|value| value == names::MANAGED_BY)
    }

    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn is_retained(&self) -> bool {
        self.metadata.annotations.get(names::RETAIN).is_some_and(|value| value == "true")
    }

    pub fn orphaned_since(&self) -> Option<&str> {
        self.metadata.annotations.get(names::ORPHANED_SINCE).map(String::as_str)
    }
}
