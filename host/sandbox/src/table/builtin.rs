//! Columns of built-in kinds.

use super::Heading;
use crate::resources::Resource;
use jiff::Timestamp;
use serde_json::{Value, json};

const DEFAULT: &[Heading] = &[
    Heading { name: "Name", kind: "string", format: "name", priority: 0 },
    Heading { name: "Age", kind: "string", format: "", priority: 0 },
];

pub(super) fn headings(_resource: &Resource) -> &'static [Heading] {
    DEFAULT
}

pub(super) fn cells(_resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    vec![object["metadata"]["name"].clone(), json!(age(object, now))]
}

/// How long ago an object was created, as kubectl writes it.
fn age(object: &Value, now: Timestamp) -> String {
    let created =
        object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    created.map_or("<unknown>".to_owned(), |created| {
        crate::schema::columns::human_duration(now.as_second() - created.as_second())
    })
}
