//! Makes `schemas/kubernetes.txt.gz`, the data file behind `schema::builtin`, from the OpenAPI documents of Kubernetes.
//!
//! ```sh
//! go mod download k8s.io/kubernetes@v1.35.4 k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator}@v0.35.4
//! cargo run -p evenkeel-sandbox --example trim_openapi -- \
//!     "$(go env GOMODCACHE)/k8s.io" v1.35.4 v0.35.4 host/sandbox/schemas/kubernetes.txt.gz
//! ```
//!
//! The output is text, a record a line, so that a reader can take one definition without parsing the rest:
//! `group <group/version>`, `path <group/version> <path> <operations>`, `omit <name> <fields>`, `def <name> <schema>`.
//! `omit` names the fields that Go leaves out when they are zero, which OpenAPI does not say: it is read from the struct
//! tags of the Go types. The lines are sorted, and the compressor writes no time: the same input gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use serde_json::{Value, json};

/// Groups that are worth carrying: what is stable. Alpha and beta kinds are off in a default API server.
fn served(file: &str) -> bool {
    file.ends_with("__v1_openapi.json") || file == "apis__autoscaling__v2_openapi.json"
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [modules, version, staging, to] = arguments.as_slice() else {
        return Err("usage: trim_openapi GO-MODULES/k8s.io VERSION STAGING-VERSION OUTPUT".into());
    };
    let from = format!("{modules}/kubernetes@{version}/api/openapi-spec/v3");
    let mut definitions = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if !served(&file) {
            continue;
        }
        let document: Value = serde_json::from_str(&std::fs::read_to_string(entry.path())?)?;
        let group_version = group_version_of(&file);
        lines.insert(format!("group {group_version}"));
        for (path, item) in document["paths"].as_object().ok_or("no paths")? {
            if !path.contains("/watch/") {
                lines.insert(format!("path {group_version} {path} {}", operations(item)));
            }
        }
        for (name, schema) in document["components"]["schemas"].as_object().ok_or("no schemas")? {
            definitions.insert(name.clone(), schema.clone());
        }
    }
    let mut packages = Packages { modules, staging, read: BTreeMap::new() };
    for name in definitions.keys() {
        let omitted = packages.omitted(name)?;
        if !omitted.is_empty() {
            lines.insert(format!("omit {name} {}", omitted.join(",")));
        }
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    for (name, schema) in definitions {
        text.push_str(&format!("def {name} {schema}\n"));
    }
    let mut gz = flate2::write::GzEncoder::new(std::fs::File::create(to)?, flate2::Compression::best());
    gz.write_all(text.as_bytes())?;
    gz.finish()?;
    println!("{to}: {} bytes of text", text.len());
    Ok(())
}

/// The structs of Go packages, by package folder: name to fields as written.
struct Packages<'a> {
    modules: &'a str,
    staging: &'a str,
    read: BTreeMap<String, Structs>,
}

type Structs = BTreeMap<String, Vec<String>>;

impl Packages<'_> {
    /// Fields of a definition that Go leaves out when they hold the zero value: no pointers, and tagged so.
    fn omitted(&mut self, definition: &str) -> Result<Vec<String>, std::io::Error> {
        let Some((package, kind)) = definition.rsplit_once('.') else { return Ok(Vec::new()) };
        let folder = package.strip_prefix("io.k8s.").unwrap_or(package);
        let (module, rest) = folder.split_once('.').unwrap_or((folder, ""));
        let folder = format!("{}/{module}@{}/{}", self.modules, self.staging, rest.replace('.', "/"));
        let mut found = self.fields(&folder, kind)?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn fields(&mut self, folder: &str, kind: &str) -> Result<Vec<String>, std::io::Error> {
        if !self.read.contains_key(folder) {
            let structs = read_structs(folder)?;
            self.read.insert(folder.to_owned(), structs);
        }
        let lines = self.read.get(folder).and_then(|structs| structs.get(kind)).cloned().unwrap_or_default();
        let mut found = Vec::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(tag) = line.split("json:\"").nth(1).and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            let (name, options) = tag.split_once(',').unwrap_or((tag, ""));
            match words.as_slice() {
                // A struct inside: its fields are written as if they were here.
                [first, rest @ ..] if options == "inline" => {
                    let inner: &str = rest.first().filter(|word| !word.starts_with('`')).unwrap_or(first);
                    let (folder, inner) = match inner.strip_prefix("metav1.") {
                        Some(inner) => {
                            let meta =
                                format!("{}/apimachinery@{}/pkg/apis/meta/v1", self.modules, self.staging);
                            (meta, inner)
                        }
                        None => (folder.to_owned(), inner),
                    };
                    found.extend(self.fields(&folder, inner)?);
                }
                [_, ty, ..] if !ty.starts_with('*') && options.contains("omit") => {
                    found.push(name.to_owned())
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The structs of a package: each from `type X struct {` to the brace at the line's start.
fn read_structs(folder: &str) -> Result<Structs, std::io::Error> {
    let mut structs = Structs::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(structs) };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "go") {
            continue;
        }
        let text = std::fs::read_to_string(path)?;
        let mut inside: Option<String> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("type ").and_then(|rest| rest.strip_suffix(" struct {")) {
                inside = Some(name.to_owned());
            } else if line == "}" {
                inside = None;
            } else if let Some(name) = inside.as_ref().filter(|_| line.contains("json:\"")) {
                structs.entry(name.clone()).or_default().push(line.trim().to_owned());
            }
        }
    }
    Ok(structs)
}

/// `apis__apps__v1_openapi.json` is `apps/v1`, `api__v1_openapi.json` is `v1`.
fn group_version_of(file: &str) -> String {
    let stem = file.trim_end_matches("_openapi.json");
    stem.trim_start_matches("apis__").trim_start_matches("api__").replace("__", "/")
}

/// Of each method: the action, the kind that it is about and the schema of its answer. The parameters are the same for
/// each action and are put back when the document is served.
fn operations(item: &Value) -> Value {
    let mut found = serde_json::Map::new();
    for (method, operation) in item.as_object().into_iter().flatten() {
        if method == "parameters" {
            continue;
        }
        found.insert(
            method.clone(),
            json!({
                "id": operation["operationId"],
                "action": operation["x-kubernetes-action"],
                "gvk": operation["x-kubernetes-group-version-kind"],
                "body": reference(&operation["requestBody"]),
                "answer": reference(&operation["responses"]),
                "description": operation["description"],
            }),
        );
    }
    Value::Object(found)
}

/// The first `$ref` in a value.
fn reference(value: &Value) -> Value {
    match value {
        Value::Object(fields) => match fields.get("$ref") {
            Some(Value::String(text)) => Value::String(text.rsplit('/').next().unwrap_or(text).to_owned()),
            _ => fields.values().map(reference).find(|found| !found.is_null()).unwrap_or(Value::Null),
        },
        Value::Array(items) => {
            items.iter().map(reference).find(|found| !found.is_null()).unwrap_or(Value::Null)
        }
        _ => Value::Null,
    }
}
