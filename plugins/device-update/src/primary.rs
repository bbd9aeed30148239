//! The Device object, as far as a pass reads it.

use std::collections::BTreeMap;

use evenkeel_sdk::{Condition, kind};
use serde::Deserialize;
use serde_json::Value;

use crate::names;

/// The parts that matter: a change elsewhere runs no pass.
pub const VIEW: &[&str] = &[
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/annotations",
    "/metadata/labels",
    "/spec",
    "/status/conditions",
];

/// A Device object.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    uid: String,
    generation: i64,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

kind!(Object = names::GROUP, names::VERSION, "Device");

/// What a pass knows of it.
#[derive(Clone, Debug, Default)]
pub struct Primary {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its spec as it is written.
    pub spec: Value,
    /// The conditions that it has.
    pub conditions: Vec<Condition>,
}

impl Primary {
    /// From the object.
    pub fn new(name: &str, object: Object) -> Self {
        let Object { metadata: Metadata { uid, generation, annotations, labels }, spec, status } = object;
        Self {
            name: name.to_owned(),
            uid,
            generation,
            annotations,
            labels,
            spec,
            conditions: status.conditions,
        }
    }

    /// The failed version that an operator wants tried once more.
    pub fn retried(&self) -> Option<&str> {
        self.annotations.get(names::RETRY_FAILED).map(String::as_str).filter(|version| !version.is_empty())
    }
}
