//! One stored object: its JSON text, cut so that the usual answers are slices of it, and a parsed head.

use bytes::Bytes;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where an object stands in its table: `namespace/name`, or `name` for a cluster-scoped one. Sorts as the real
/// server's storage does.
pub(crate) type Key = Arc<str>;

/// The key of an object.
pub(crate) fn key_of(namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// An owner that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: Arc<str>,
    pub blocks: bool,
}

/// What the server looks at without parsing the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub revision: u64,
    pub labels: BTreeMap<String, String>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    pub owners: Vec<Owner>,
}

/// An object as it is kept and sent. Immutable; a write makes a new one.
#[derive(Debug)]
pub(crate) struct Stored {
    pub head: Head,
    /// `{"kind":…,"apiVersion":…,"metadata":{…},…}`, in the storage version.
    pub json: Bytes,
    /// Offset of `"metadata"`, that is what comes after kind and version.
    pub rest: usize,
    /// Offset after the value of `metadata`.
    pub metadata_end: usize,
}

const METADATA: &str = "\"metadata\":";

impl Stored {
    /// Freezes an object. The caller has set its resource version to `revision` (nothing where that is 0).
    pub(crate) fn freeze(object: &Value, revision: u64) -> Stored {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let mut json = Vec::with_capacity(1024);
        json.extend_from_slice(b"{\"kind\":");
        append(&mut json, fields.get("kind").unwrap_or(&Value::Null));
        json.extend_from_slice(b",\"apiVersion\":");
        append(&mut json, fields.get("apiVersion").unwrap_or(&Value::Null));
        json.push(b',');
        let rest = json.len();
        json.extend_from_slice(METADATA.as_bytes());
        match fields.get("metadata") {
            Some(metadata) => append(&mut json, metadata),
            None => json.extend_from_slice(b"{}"),
        }
        let metadata_end = json.len();
        for (key, value) in fields {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                json.push(b',');
                append(&mut json, &Value::String(key.clone()));
                json.push(b':');
                append(&mut json, value);
            }
        }
        json.push(b'}');
        Stored { head: Head::of(object, revision), json: Bytes::from(json), rest, metadata_end }
    }

    /// The object as a tree.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Its place in the table.
    pub(crate) fn key(&self) -> Key {
        key_of(&self.head.namespace, &self.head.name)
    }

    /// Everything after kind and version, without the opening brace: `"metadata":{…},…}`.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.json[self.rest..]
    }

    /// The text of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.json[self.rest + METADATA.len()..self.metadata_end]
    }
}

fn append(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).unwrap_or_default();
}

impl Head {
    fn of(object: &Value, revision: u64) -> Head {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let labels = metadata["labels"].as_object();
        let owners = metadata["ownerReferences"].as_array();
        Head {
            namespace: text("namespace").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            revision,
            labels: labels
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
            finalizers: strings(metadata.get("finalizers")),
            owners: owners.into_iter().flatten().map(Owner::of).collect(),
        }
    }
}

impl Owner {
    fn of(value: &Value) -> Owner {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        Owner {
            api_version: text("apiVersion").into(),
            kind: text("kind").into(),
            name: text("name").into(),
            uid: text("uid").into(),
            blocks: value["blockOwnerDeletion"].as_bool().unwrap_or_default(),
        }
    }
}

/// The strings of a list, others skipped.
pub(crate) fn strings(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item.as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_cut_after_kind_and_version_and_around_metadata() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "data": {}, "metadata": {"name": "a", "namespace": "b"}});
        let stored = Stored::freeze(&object, 7);
        assert_eq!(stored.value(), object);
        assert_eq!(stored.metadata(), br#"{"name":"a","namespace":"b"}"#);
        assert_eq!(stored.rest(), br#""metadata":{"name":"a","namespace":"b"},"data":{}}"#);
        assert_eq!(&*stored.key(), "b/a");
    }
}
