//! How stored objects become the bytes of an answer: plain, as metadata alone, or as table rows.

use crate::negotiate::{Form, IncludeObject};
use crate::store::object::Stored;
use crate::table;
use crate::turn::Target;
use jiff::Timestamp;
use serde_json::Value;

/// What an answer shows: objects of this kind, in this form.
#[derive(Clone)]
pub(crate) struct View {
    pub target: Target,
    pub form: Form,
}

impl View {
    fn is_stored_as_shown(&self) -> bool {
        !self.target.resource.traits.converted_event && self.target.version == self.target.resource.storage
    }

    /// One object by itself.
    pub(crate) fn object(&self, stored: &Stored, now: Timestamp) -> Vec<u8> {
        match self.form {
            Form::Plain => self.plain(stored, true),
            Form::Metadata => partial(stored, "v1"),
            Form::Table(include, version) => {
                let row = self.row(stored, include, now);
                self.table(&[row], None, version, true).into_bytes()
            }
        }
    }

    /// Whether the text of the store can be sent as it is.
    pub(crate) fn is_verbatim(&self) -> bool {
        self.form == Form::Plain && self.is_stored_as_shown()
    }

    /// One object of a watch: as by itself, except that only the first table tells its columns.
    pub(crate) fn watched(&self, stored: &Stored, now: Timestamp, first: bool) -> Vec<u8> {
        match self.form {
            Form::Table(include, version) => {
                self.table(&[self.row(stored, include, now)], None, version, first).into_bytes()
            }
            _ => self.object(stored, now),
        }
    }

    fn plain(&self, stored: &Stored, typed: bool) -> Vec<u8> {
        if self.is_stored_as_shown() {
            if typed {
                return stored.json.to_vec();
            }
            return [b"{".as_slice(), stored.rest()].concat();
        }
        if self.target.resource.traits.converted_event {
            let mut object = stored.value();
            crate::verbs::finish::to_served(&self.target, &mut object);
            let frozen = Stored::freeze(&object, stored.head.revision);
            return if typed { frozen.json.to_vec() } else { [b"{".as_slice(), frozen.rest()].concat() };
        }
        let resource = &self.target.resource;
        let mut out = Vec::with_capacity(stored.json.len() + 16);
        out.extend_from_slice(b"{\"kind\":");
        out.extend_from_slice(Value::from(resource.kind.as_str()).to_string().as_bytes());
        out.extend_from_slice(b",\"apiVersion\":");
        out.extend_from_slice(Value::from(self.target.served().api_version.as_str()).to_string().as_bytes());
        out.push(b',');
        out.extend_from_slice(stored.rest());
        out
    }

    /// A list: its metadata as JSON text, and its items.
    pub(crate) fn list(&self, metadata: &Value, items: &[std::sync::Arc<Stored>], now: Timestamp) -> Vec<u8> {
        let resource = &self.target.resource;
        let mut metadata = metadata.clone();
        // Lists of custom kinds always say whether they go on.
        if self.form == Form::Plain && resource.is_custom() && metadata["continue"].is_null() {
            metadata["continue"] = Value::from("");
        }
        let metadata = &metadata;
        let (kind, version) = match self.form {
            Form::Plain => (resource.list_kind.as_str(), self.target.served().api_version.as_str()),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            Form::Table(include, version) => {
                let rows: Vec<Value> = items.iter().map(|stored| self.row(stored, include, now)).collect();
                let mut table = table::table(&self.target, &rows, metadata, version, true);
                // Where the server has no columns of its own for a kind, it makes no list of no rows.
                if rows.is_empty() && !resource.is_custom() && !table::has_columns(resource) {
                    table["rows"] = Value::Null;
                }
                return table.to_string().into_bytes();
            }
        };
        let size: usize = items.iter().map(|stored| stored.json.len() + 1).sum();
        let mut out = Vec::with_capacity(size + 256);
        out.extend_from_slice(format!("{{\"kind\":{},", Value::from(kind)).as_bytes());
        out.extend_from_slice(format!("\"apiVersion\":{},", Value::from(version)).as_bytes());
        if self.form == Form::Metadata && items.is_empty() {
            out.extend_from_slice(format!("\"metadata\":{metadata},\"items\":null}}").as_bytes());
            return out;
        }
        out.extend_from_slice(format!("\"metadata\":{metadata},\"items\":[").as_bytes());
        for (index, stored) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match self.form {
                // Lists of built-in kinds say the kind once; custom ones repeat it.
                Form::Plain => out.extend_from_slice(&self.plain(stored, resource.is_custom())),
                _ => out.extend_from_slice(&partial(stored, "v1")),
            }
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn row(&self, stored: &Stored, include: IncludeObject, now: Timestamp) -> Value {
        let mut object = stored.value();
        crate::verbs::finish::to_served(&self.target, &mut object);
        table::row(&self.target, &object, include, now)
    }

    fn table(&self, rows: &[Value], list: Option<&Value>, version: &str, columns: bool) -> String {
        let metadata = match (list, rows) {
            (Some(metadata), _) => metadata.clone(),
            (None, [row]) => {
                serde_json::json!({"resourceVersion": row["object"]["metadata"]["resourceVersion"]})
            }
            _ => serde_json::json!({}),
        };
        table::table(&self.target, rows, &metadata, version, columns).to_string()
    }
}

/// An object's metadata as an object of its own.
fn partial(stored: &Stored, version: &str) -> Vec<u8> {
    let metadata = stored.metadata();
    let mut out = Vec::with_capacity(metadata.len() + 80);
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    out.extend_from_slice(metadata);
    out.push(b'}');
    out
}

impl View {
    /// A bookmark of a watch: an empty object of the kind under a revision.
    pub(crate) fn bookmark(
        &self,
        revision: u64,
        ends_initial_events: bool,
        now: Timestamp,
        first: bool,
    ) -> Vec<u8> {
        let mut metadata = serde_json::json!({"resourceVersion": revision.to_string()});
        if ends_initial_events {
            metadata["annotations"] = serde_json::json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = crate::verbs::empty::of_bookmark(&self.target);
        if self.form != Form::Plain {
            object["metadata"] = metadata;
        } else {
            object["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
            for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
                object["metadata"]["annotations"][key] = value.clone();
            }
        }
        match self.form {
            Form::Plain => object.to_string().into_bytes(),
            Form::Metadata => partial(&Stored::freeze(&object, revision), "v1"),
            Form::Table(include, version) => {
                let row = table::row(&self.target, &object, include, now);
                let metadata = serde_json::json!({"resourceVersion": revision.to_string()});
                self.table(&[row], Some(&metadata), version, first).into_bytes()
            }
        }
    }
}
