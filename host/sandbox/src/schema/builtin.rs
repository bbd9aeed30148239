//! The built-in kinds: definitions read from the data file when they are first asked for.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;

use super::structural::{Link, Schema};
use super::{Gvk, openapi};

/// See `schemas/README.md`.
const DATA: &[u8] = include_bytes!("../../schemas/kubernetes.txt.gz");

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The data file, cut into its records; the records are JSON text until somebody needs them.
pub(crate) struct Data {
    pub(crate) groups: Vec<(String, String)>,
    /// Group and version (`apps/v1`), then path and operations.
    pub(crate) paths: BTreeMap<String, Vec<(String, String)>>,
    pub(crate) definitions: BTreeMap<String, String>,
    /// Fields of a definition that Go leaves out when they are zero, with commas between.
    omitted: BTreeMap<String, String>,
    /// `group/version/kind` to the name of its definition.
    kinds: BTreeMap<String, String>,
}

/// The data file.
pub(crate) fn data() -> &'static Data {
    static CELL: OnceLock<Data> = OnceLock::new();
    CELL.get_or_init(|| {
        let mut text = String::new();
        let read = flate2::read::GzDecoder::new(DATA).read_to_string(&mut text);
        assert!(read.is_ok(), "the data file is made by schemas/trim_openapi.rs and holds gzipped text");
        Data::read(&text)
    })
}

impl Data {
    fn read(text: &str) -> Data {
        let mut data = Data {
            groups: Vec::new(),
            paths: BTreeMap::new(),
            definitions: BTreeMap::new(),
            omitted: BTreeMap::new(),
            kinds: BTreeMap::new(),
        };
        for line in text.lines() {
            let (record, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (name, body) = rest.split_once(' ').unwrap_or((rest, ""));
            match record {
                "group" => {
                    let (group, version) = name.split_once('/').unwrap_or(("", name));
                    data.groups.push((group.to_owned(), version.to_owned()));
                }
                "path" => {
                    let (path, operations) = body.split_once(' ').unwrap_or((body, "{}"));
                    let of_group = data.paths.entry(name.to_owned()).or_default();
                    of_group.push((path.to_owned(), operations.to_owned()));
                }
                "omit" => {
                    data.omitted.insert(name.to_owned(), body.to_owned());
                }
                "def" => {
                    if let Some(kinds) = kinds_of(body) {
                        data.kinds.extend(kinds.into_iter().map(|kind| (kind, name.to_owned())));
                    }
                    data.definitions.insert(name.to_owned(), body.to_owned());
                }
                _ => {}
            }
        }
        data
    }
}

/// Finds the kinds that a definition is of without parsing the rest of it: a start-up cost of every program that asks for
/// one kind only.
fn kinds_of(body: &str) -> Option<Vec<String>> {
    const MARKER: &str = "\"x-kubernetes-group-version-kind\":";
    let (_, rest) = body.split_once(MARKER)?;
    let end = rest.find(']')?;
    let list: Vec<BTreeMap<String, String>> = serde_json::from_str(rest.get(..=end)?).ok()?;
    let text = |one: &BTreeMap<String, String>, field: &str| one.get(field).cloned().unwrap_or_default();
    let id = |one| format!("{}/{}/{}", text(one, "group"), text(one, "version"), text(one, "kind"));
    Some(list.iter().map(id).collect())
}

/// The name of the definition of a built-in kind.
pub(crate) fn definition_name(gvk: Gvk<'_>) -> Option<&'static str> {
    data().kinds.get(&format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind)).map(String::as_str)
}

/// A definition, parsed once. One that does not exist takes anything, as a reference into the void must.
pub(crate) fn definition(name: &str) -> Arc<Schema> {
    static PARSED: OnceLock<Mutex<BTreeMap<String, Arc<Schema>>>> = OnceLock::new();
    let parsed = PARSED.get_or_init(Mutex::default);
    let lock = || parsed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(found) = lock().get(name) {
        return found.clone();
    }
    let raw: Value = data()
        .definitions
        .get(name)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let mut schema = Schema::parse(&raw);
    schema.quantity = name == QUANTITY;
    schema.raw_extension = name == RAW_EXTENSION;
    let omitted = data().omitted.get(name).map(String::as_str).unwrap_or_default();
    schema.omitted = omitted.split(',').filter(|field| !field.is_empty()).map(str::to_owned).collect();
    let schema = Arc::new(schema);
    lock().entry(name.to_owned()).or_insert(schema).clone()
}

/// `apiVersion`, `kind` and `metadata` of a resource that is embedded in another, or of a custom resource.
pub(crate) fn meta_field(name: &str) -> Option<&'static Schema> {
    static META: OnceLock<BTreeMap<&'static str, Link>> = OnceLock::new();
    let fields = META.get_or_init(|| {
        let text = || Link::Here(Arc::new(Schema::parse(&serde_json::json!({"type": "string"}))));
        BTreeMap::from([
            ("apiVersion", text()),
            ("kind", text()),
            ("metadata", Link::definition(OBJECT_META)),
        ])
    });
    fields.get(name).map(Link::get)
}

/// Whether objects of a built-in kind live in namespaces: it is made by a request to a path with one.
pub(crate) fn is_namespaced(gvk: Gvk<'_>) -> bool {
    let id =
        if gvk.group.is_empty() { gvk.version.to_owned() } else { format!("{}/{}", gvk.group, gvk.version) };
    let kind = format!("\"kind\":\"{}\"", gvk.kind);
    let paths = data().paths.get(&id).map(Vec::as_slice).unwrap_or_default();
    let collection = |path: &str| path.contains("/namespaces/{namespace}/") && !path.contains("{name}");
    paths.iter().any(|(path, operations)| {
        collection(path) && operations.contains(&kind) && operations.contains("\"post\"")
    })
}

/// Groups and versions that the data file has, sorted; the core group is the empty text.
pub fn builtin_groups() -> impl Iterator<Item = (&'static str, &'static str)> {
    data().groups.iter().map(|(group, version)| (group.as_str(), version.as_str()))
}

/// The OpenAPI v3 document of a built-in group and version, as `kubectl explain` reads it.
pub fn openapi_v3(group: &str, version: &str) -> Option<Arc<str>> {
    static MADE: OnceLock<Mutex<BTreeMap<String, Arc<str>>>> = OnceLock::new();
    let id = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let paths = data().paths.get(&id)?;
    let made = MADE.get_or_init(Mutex::default);
    let mut made = made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Some(made.entry(id).or_insert_with(|| openapi::document(paths).into()).clone())
}
