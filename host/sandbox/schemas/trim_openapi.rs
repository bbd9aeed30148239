//! Makes `schemas/kubernetes.txt.gz`, the data file behind `schema::builtin`, from the OpenAPI documents of Kubernetes.
//!
//! ```sh
//! dir=$(go mod download -json k8s.io/kubernetes@v1.35.4 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
//! cargo run -p evenkeel-sandbox --example trim_openapi -- "$dir/api/openapi-spec/v3" host/sandbox/schemas/kubernetes.txt.gz
//! ```
//!
//! The output is text, a record a line, so that a reader can take one definition without parsing the rest:
//! `group <group/version>`, `path <group/version> <path> <operations>`, `def <name> <schema>`.
//! The order of lines is sorted, and the compressor writes no time: the same input gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

/// Groups that are worth carrying: what is stable. Alpha and beta kinds are off in a default API server.
fn served(file: &str) -> bool {
    file.ends_with("__v1_openapi.json") || file == "apis__autoscaling__v2_openapi.json"
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: trim_openapi FOLDER-OF-OPENAPI-V3 OUTPUT".into());
    };
    let mut definitions = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(&from))? {
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
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    for (name, schema) in definitions {
        text.push_str(&format!("def {name} {schema}\n"));
    }
    let mut gz = flate2::write::GzEncoder::new(std::fs::File::create(&to)?, flate2::Compression::best());
    gz.write_all(text.as_bytes())?;
    gz.finish()?;
    println!("{to}: {} bytes of text", text.len());
    Ok(())
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
