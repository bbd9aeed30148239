//! OpenAPI documents: version 3 by group and version, and a version 2 that says no more than who we are.

use crate::api::{Call, json_value};
use crate::body::ApiBody;
use crate::sandbox::Inner;
use crate::schema;
use http::{Response, StatusCode, header};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) fn answer(inner: &Arc<Inner>, path: &str, call: &Call) -> Response<ApiBody> {
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match path {
        "/openapi/v2" if accept.contains("proto-openapi") => version_2_protobuf(),
        "/openapi/v2" => json_value(json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.35.4"},
            "paths": {},
            "definitions": {},
        })),
        "/openapi/v3" => {
            let mut response = json_value(index(inner));
            // Upstream does not say what it is, and Go guesses.
            crate::api::set(&mut response, http::header::CONTENT_TYPE, "text/plain; charset=utf-8");
            response
        }
        _ => document(inner, path).unwrap_or_else(|| {
            // Upstream says no word here, unlike everywhere else.
            let mut response = Response::new(ApiBody::whole(""));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }),
    }
}

/// The empty version 2 document as protobuf, which kubectl asks for when version 3 does not know a kind.
fn version_2_protobuf() -> Response<ApiBody> {
    const DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.35.4\x42\x00\x4a\x00";
    let mut response = crate::api::json_bytes(200, DOCUMENT);
    let kind = header::HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn index(inner: &Arc<Inner>) -> Value {
    let mut paths = Map::new();
    let groups = inner.read().registry.groups();
    let revision = inner.read().store.revision();
    for (group, versions) in groups {
        for version in versions {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = format!("/openapi/v3/{path}?hash={revision}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document(inner: &Arc<Inner>, path: &str) -> Option<Response<ApiBody>> {
    let rest = path.strip_prefix("/openapi/v3/")?;
    let (group, version) = match rest.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    if let Some(text) = schema::openapi_v3(group, version) {
        return Some(crate::api::json_bytes(200, text.as_bytes().to_vec()));
    }
    let definitions = definitions_of(inner, group, version);
    if definitions.is_empty() {
        return None;
    }
    let text = schema::crd::document(&definitions, group, version);
    Some(crate::api::json_bytes(200, text.into_bytes()))
}

/// The CustomResourceDefinitions that serve something in a version of a group.
fn definitions_of(inner: &Arc<Inner>, group: &str, version: &str) -> Vec<Value> {
    let state = inner.read();
    let Some(definitions) = state.registry.find("apiextensions.k8s.io", "customresourcedefinitions") else {
        return Vec::new();
    };
    let served = state.registry.in_group(group).filter(|resource| resource.version(version).is_some());
    let names = served.filter_map(|resource| resource.definition.clone());
    names.filter_map(|name| Some(state.store.get(definitions.table, &name)?.value())).collect()
}
