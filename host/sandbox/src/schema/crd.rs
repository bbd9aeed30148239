//! CustomResourceDefinitions: checked, then compiled into what serves their kinds.

mod check;
mod compiled;
mod defaults;
mod defaults_check;
mod openapi;
mod props;
mod structure;

use serde_json::Value;

use super::columns::Column;
use super::structural::{Schema, flag, text};
use super::typed::Type;

pub use check::{check_create, check_update};
pub use compiled::compile;
pub use defaults::prepare;
pub use openapi::{document, document as openapi_v3};

/// A CustomResourceDefinition, ready to serve its kind.
#[derive(Clone, Debug)]
pub struct Crd {
    /// API group.
    pub group: String,
    /// The kind's name.
    pub kind: String,
    /// The name of a list of the kind.
    pub list_kind: String,
    /// The name in paths.
    pub plural: String,
    /// The name that kubectl takes as well.
    pub singular: String,
    /// Further names that kubectl takes.
    pub short_names: Vec<String>,
    /// Groups of kinds, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The version that objects are stored in.
    pub storage: String,
    /// All versions, in the order of the definition.
    pub versions: Vec<Version>,
}

/// One version of a custom kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// As in `v1`.
    pub name: String,
    /// Whether requests for it are answered.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether requests are answered with a warning.
    pub deprecated: bool,
    /// The warning, if it is not the usual one.
    pub deprecation_warning: Option<String>,
    /// Whether there is a status subresource.
    pub status: bool,
    /// The scale subresource.
    pub scale: Option<Scale>,
    /// Further columns of tables.
    pub columns: Vec<Column>,
    /// JSON paths that field selectors may use, as in `.spec.colour`.
    pub selectable: Vec<String>,
    /// What happens to bodies.
    pub ty: Type,
}

/// Where a custom kind keeps what the scale subresource shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// As in `.spec.replicas`.
    pub spec_path: String,
    /// As in `.status.replicas`.
    pub status_path: String,
    /// As in `.status.selector`.
    pub selector_path: Option<String>,
}

/// Compiles a definition that was accepted before.
fn compile_accepted(definition: &Value) -> Crd {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let name = |field: &str| text(names, field).unwrap_or_default();
    let list = |field: &str| {
        let items = names[field].as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let group = text(spec, "group").unwrap_or_default();
    let kind = name("kind");
    let namespaced = spec["scope"] == "Namespaced";
    let versions: Vec<Version> = spec["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|version| compile_version(&group, &kind, namespaced, version))
        .collect();
    Crd {
        storage: versions.iter().find(|version| version.storage).map(|v| v.name.clone()).unwrap_or_default(),
        list_kind: text(names, "listKind").unwrap_or_else(|| format!("{kind}List")),
        plural: name("plural"),
        singular: text(names, "singular").unwrap_or_else(|| kind.to_lowercase()),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced,
        versions,
        group,
        kind,
    }
}

fn compile_version(group: &str, kind: &str, namespaced: bool, version: &Value) -> Version {
    let name = text(version, "name").unwrap_or_default();
    let subresources = &version["subresources"];
    let scale = subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| Scale {
        spec_path: text(scale, "specReplicasPath").unwrap_or_default(),
        status_path: text(scale, "statusReplicasPath").unwrap_or_default(),
        selector_path: text(scale, "labelSelectorPath"),
    });
    let status = subresources.get("status").is_some_and(|status| !status.is_null());
    let raw = &version["schema"]["openAPIV3Schema"];
    let mut schema = Schema::parse(raw);
    // The root is a resource: metadata is what it is everywhere.
    schema.resource_root = true;
    let mut columns: Vec<Column> =
        version["additionalPrinterColumns"].as_array().into_iter().flatten().map(Column::parse).collect();
    if columns.is_empty() {
        columns.push(Column::age());
    }
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Version {
        served: flag(version, "served"),
        storage: flag(version, "storage"),
        deprecated: flag(version, "deprecated"),
        deprecation_warning: text(version, "deprecationWarning"),
        columns,
        selectable: selectable.filter_map(|field| text(field, "jsonPath")).collect(),
        ty: Type::custom(super::Gvk::new(group, &name, kind), namespaced, schema, scale.clone()),
        status,
        scale,
        name,
    }
}
