//! Tables: the columns that `kubectl get` prints.

mod builtin;
mod cells;
mod pods;
mod rare;

use crate::negotiate::IncludeObject;
use crate::turn::Target;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A column of a built-in kind.
pub(crate) struct Heading {
    pub name: &'static str,
    pub kind: &'static str,
    pub format: &'static str,
    pub priority: i64,
}

/// Whether a built-in kind has columns of its own.
pub(crate) fn has_columns(resource: &crate::resources::Resource) -> bool {
    builtin::has_columns(resource)
}

/// One object as a row.
pub(crate) fn row(target: &Target, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let version = target.served();
    let cells: Vec<Value> = if target.resource.is_custom() {
        let name = json!(object["metadata"]["name"].as_str().unwrap_or_default());
        std::iter::once(name).chain(version.columns.iter().map(|column| column.cell(object, now))).collect()
    } else {
        builtin::cells(&target.resource, object, now)
    };
    let mut row = Map::new();
    row.insert("cells".into(), Value::Array(cells));
    let shown = match include {
        IncludeObject::None => None,
        IncludeObject::Metadata => Some(json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        })),
        IncludeObject::Object => Some(object.clone()),
    };
    row.insert("object".into(), shown.unwrap_or_default());
    Value::Object(row)
}

/// Rows as a table; `columns` says whether the headings are told again.
pub(crate) fn table(
    target: &Target,
    rows: &[Value],
    metadata: &Value,
    version: &str,
    columns: bool,
) -> Value {
    let headings = if columns { headings(target) } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
        "columnDefinitions": headings,
        "rows": rows,
    })
}

fn headings(target: &Target) -> Value {
    if target.resource.is_custom() {
        let name = heading("Name", "string", "name", 0, NAME_DESCRIPTION);
        let columns = target.served().columns.iter();
        return std::iter::once(name)
            .chain(columns.map(|column| {
                heading(&column.name, &column.kind, &column.format, column.priority, &column.description)
            }))
            .collect();
    }
    let headings = builtin::headings(&target.resource);
    headings.iter().map(|one| heading(one.name, one.kind, one.format, one.priority, "")).collect()
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
     resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
     for creation idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

fn heading(name: &str, kind: &str, format: &str, priority: i64, description: &str) -> Value {
    let description = if name == "Name" { NAME_DESCRIPTION } else { description };
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
