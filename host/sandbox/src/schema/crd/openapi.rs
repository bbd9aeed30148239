//! The OpenAPI v3 document of custom kinds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::schema::openapi::{closure, finish, path_item};

/// The document of a group and version, of all definitions that serve it.
pub fn document(definitions: &[Value], group: &str, version: &str) -> String {
    let mut wanted = BTreeSet::new();
    let mut own = BTreeMap::new();
    let mut paths = Map::new();
    for definition in definitions {
        let spec = &definition["spec"];
        let found = spec["versions"].as_array().into_iter().flatten().find(|one| one["name"] == version);
        let Some(found) = found.filter(|one| spec["group"] == group && one["served"] == true) else {
            continue;
        };
        let name = |field: &str| spec["names"][field].as_str().unwrap_or_default();
        let reversed = group.split('.').rev().collect::<Vec<_>>().join(".");
        let (kind, list) = (name("kind"), name("listKind"));
        let id = format!("{reversed}.{version}.{kind}");
        let list_id = format!("{reversed}.{version}.{list}");
        own.insert(id.clone(), kind_schema(&found["schema"]["openAPIV3Schema"], group, version, kind));
        own.insert(list_id.clone(), list_schema(&id, group, version, list));
        let scoped = spec["scope"] == "Namespaced";
        let base = format!("/apis/{group}/{version}");
        let of_all = format!("{base}/{}", name("plural"));
        let collection = if scoped {
            format!("{base}/namespaces/{{namespace}}/{}", name("plural"))
        } else {
            of_all.clone()
        };
        let operation = |method: &str, action: &str, body: Option<&str>, answer: &str| {
            json!({
                "id": format!("{action}{kind}"),
                "action": action,
                "gvk": {"group": group, "version": version, "kind": kind},
                "body": body,
                "answer": answer,
                "description": format!("{} of kind {kind}", method),
            })
        };
        let status = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
        let patch = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
        let lists = json!({"get": operation("list objects", "list", None, &list_id)});
        if scoped {
            paths.insert(of_all.clone(), path_item(&of_all, &lists, &mut wanted));
        }
        let mut whole = lists;
        whole["post"] = operation("create an object", "post", Some(&id), &id);
        whole["delete"] = operation("delete collection", "deletecollection", None, status);
        paths.insert(collection.clone(), path_item(&collection, &whole, &mut wanted));
        let one = json!({
            "get": operation("read the specified object", "get", None, &id),
            "put": operation("replace the specified object", "put", Some(&id), &id),
            "patch": operation("partially update the specified object", "patch", Some(patch), &id),
            "delete": operation("delete an object", "delete", None, status),
        });
        let item = format!("{collection}/{{name}}");
        paths.insert(item.clone(), path_item(&item, &one, &mut wanted));
        if found["subresources"].get("status").is_some_and(|status| !status.is_null()) {
            let mut one = one;
            if let Some(methods) = one.as_object_mut() {
                methods.remove("delete");
            }
            let item = format!("{item}/status");
            paths.insert(item.clone(), path_item(&item, &one, &mut wanted));
        }
        wanted.extend([id, list_id]);
    }
    finish(&paths, closure(wanted, &own))
}

fn type_meta(properties: &mut Map<String, Value>) {
    let words = [
        (
            "apiVersion",
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
             recognized schemas to the latest internal value, and may reject unrecognized values.",
        ),
        (
            "kind",
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
             the endpoint the client submits requests to. Cannot be updated. In CamelCase.",
        ),
    ];
    for (name, description) in words {
        properties.insert(name.to_owned(), json!({"type": "string", "description": description}));
    }
}

fn kind_schema(schema: &Value, group: &str, version: &str, kind: &str) -> Value {
    let mut schema = if schema.is_object() { schema.clone() } else { json!({"type": "object"}) };
    complete(&mut schema);
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true && schema.get("properties").is_none();
    if !open {
        object_meta(&mut schema);
    }
    schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    schema
}

/// What every object has.
fn object_meta(schema: &mut Value) {
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    type_meta(&mut properties);
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
        }),
    );
    schema["properties"] = Value::Object(properties);
}

/// Spells out what extensions imply, for clients that do not know them.
fn complete(schema: &mut Value) {
    for parts in ["properties", "items", "additionalProperties"] {
        match (parts, schema.get_mut(parts)) {
            ("properties", Some(Value::Object(parts))) => parts.values_mut().for_each(complete),
            (_, Some(part @ Value::Object(_))) => complete(part),
            _ => {}
        }
    }
    if schema["x-kubernetes-int-or-string"] == true {
        int_or_string(schema);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        object_meta(schema);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for field in ["kind", "apiVersion"] {
            if !required.iter().any(|one| one == field) {
                required.push(field.into());
            }
        }
        schema["required"] = required.into();
    }
}

fn int_or_string(schema: &mut Value) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    if schema["anyOf"] == either || schema.pointer("/allOf/0/anyOf") == Some(&either) {
        return;
    }
    if schema["anyOf"].is_null() {
        schema["anyOf"] = either;
        return;
    }
    // The definition's own alternatives come on top.
    let mut all = schema["allOf"].as_array().cloned().unwrap_or_default();
    all.insert(0, json!({"anyOf": either}));
    schema["allOf"] = all.into();
}

fn list_schema(item: &str, group: &str, version: &str, kind: &str) -> Value {
    let mut properties = Map::new();
    type_meta(&mut properties);
    properties.insert(
        "metadata".to_owned(),
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}]}),
    );
    properties.insert(
        "items".to_owned(),
        json!({"type": "array", "items": {"allOf": [{"$ref": format!("#/components/schemas/{item}")}]}}),
    );
    json!({
        "description": format!("{kind} is a list of objects"),
        "type": "object",
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
    })
}
