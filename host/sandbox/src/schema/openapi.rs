//! OpenAPI v3 documents: what `kubectl explain` and clients' field validation read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::builtin::data;

/// A document of these paths (with their operations as the data file has them) and all definitions they lead to.
pub(crate) fn document(paths: &[(String, String)]) -> String {
    let mut wanted = BTreeSet::new();
    let mut out = Map::new();
    for (path, operations) in paths {
        let operations: Value = serde_json::from_str(operations).unwrap_or(Value::Null);
        out.insert(path.clone(), path_item(path, &operations, &mut wanted));
    }
    let schemas = closure(wanted, &BTreeMap::new());
    finish(&out, schemas)
}

/// Puts a document together.
pub(crate) fn finish(paths: &Map<String, Value>, schemas: Map<String, Value>) -> String {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.4"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    })
    .to_string()
}

/// Definitions by name, and what they refer to, and so on. `own` are those that are not in the data file.
pub(crate) fn closure(mut wanted: BTreeSet<String>, own: &BTreeMap<String, Value>) -> Map<String, Value> {
    let mut found = BTreeMap::new();
    while let Some(name) = wanted.pop_first() {
        if found.contains_key(&name) {
            continue;
        }
        let builtin = || data().definitions.get(&name).and_then(|text| serde_json::from_str(text).ok());
        let Some(schema) = own.get(&name).cloned().or_else(builtin) else { continue };
        references(&schema, &mut wanted);
        found.insert(name, schema);
    }
    found.into_iter().collect()
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(path) if key == "$ref" => {
                        into.extend(path.rsplit('/').next().map(str::to_owned));
                    }
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

/// One path with its operations, from the compact form `{method: {id, action, gvk, body, answer, description}}`.
pub(crate) fn path_item(path: &str, operations: &Value, wanted: &mut BTreeSet<String>) -> Value {
    let mut item = Map::new();
    for (method, operation) in operations.as_object().into_iter().flatten() {
        let text = |field: &str| operation[field].as_str();
        let action = text("action").unwrap_or_default();
        let mut one = Map::new();
        one.insert("description".to_owned(), operation["description"].clone());
        one.insert("operationId".to_owned(), operation["id"].clone());
        let parameters = parameters(action);
        if !parameters.is_empty() {
            one.insert("parameters".to_owned(), Value::Array(parameters));
        }
        if let Some(body) = text("body") {
            wanted.insert(body.to_owned());
            one.insert(
                "requestBody".to_owned(),
                json!({"content": content(patch_types(path, action), body), "required": true}),
            );
        }
        let mut response = json!({"description": "OK"});
        if let Some(answer) = text("answer") {
            wanted.insert(answer.to_owned());
            response["content"] = content(BODY_TYPES, answer);
        }
        one.insert("responses".to_owned(), json!({"200": response, "401": {"description": "Unauthorized"}}));
        if !action.is_empty() {
            one.insert("x-kubernetes-action".to_owned(), Value::from(action));
        }
        if !operation["gvk"].is_null() {
            one.insert("x-kubernetes-group-version-kind".to_owned(), operation["gvk"].clone());
        }
        item.insert(method.clone(), Value::Object(one));
    }
    let mut shared = Vec::new();
    for name in ["name", "namespace"] {
        if path.contains(&format!("{{{name}}}")) {
            let what = if name == "name" {
                "name of the object"
            } else {
                "object name and auth scope, such as for teams and projects"
            };
            shared.push(json!({
                "name": name, "in": "path", "required": true, "description": what,
                "schema": {"type": "string", "uniqueItems": true},
            }));
        }
    }
    if !shared.is_empty() {
        item.insert("parameters".to_owned(), Value::Array(shared));
    }
    Value::Object(item)
}

const BODY_TYPES: &[&str] = &["application/json", "application/yaml"];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// What a request's body may be. Custom resources know no strategic merge patch, and kubectl looks here before it sends one.
fn patch_types(path: &str, action: &str) -> &'static [&'static str] {
    let builtin = data().paths.values().flatten().any(|(known, _)| known == path);
    match action {
        "patch" if builtin => PATCH_TYPES,
        "patch" => PATCH_TYPES.get(..3).unwrap_or_default(),
        _ => BODY_TYPES,
    }
}

fn content(types: &[&str], definition: &str) -> Value {
    let body = json!({"schema": {"$ref": format!("#/components/schemas/{definition}")}});
    Value::Object(types.iter().map(|name| ((*name).to_owned(), body.clone())).collect())
}

/// Query parameters of an action: name, and type.
fn parameters(action: &str) -> Vec<Value> {
    let list = [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    let write = [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    let delete = [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    let names: Vec<(&str, &str)> = match action {
        "list" => list.to_vec(),
        "post" | "put" => write.to_vec(),
        "patch" => write.iter().copied().chain([("force", "boolean")]).collect(),
        "delete" => delete.to_vec(),
        "deletecollection" => list.iter().chain(delete.iter()).copied().collect(),
        _ => Vec::new(),
    };
    let one = |(name, ty): (&str, &str)| json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}});
    names.into_iter().map(one).collect()
}
