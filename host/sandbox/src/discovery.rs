//! Discovery: which groups, versions and resources are served, in the old form and the aggregated one.

use crate::api::json_bytes;
use crate::body::ApiBody;
use crate::negotiate;
use crate::resources::{Offers, Registry, Resource, Version, api_version};
use crate::review;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Response, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The version of Kubernetes whose behaviour this is.
const GIT_VERSION: &str = "v1.35.4";

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.25",
        "compiler": "gc",
        "platform": "linux/amd64",
    })
}

/// `/`.
pub(crate) fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for (group, versions) in registry.groups().into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort();
    json!({"paths": paths})
}

/// `/api`.
pub(crate) fn legacy_versions(registry: &Registry, headers: &HeaderMap) -> Response<ApiBody> {
    if let Some(version) = negotiate::aggregated_discovery(headers) {
        return aggregated(registry, version, true);
    }
    let value = json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    });
    json_bytes(200, value.to_string().into_bytes())
}

/// `/apis`.
pub(crate) fn groups(registry: &Registry, headers: &HeaderMap) -> Response<ApiBody> {
    if let Some(version) = negotiate::aggregated_discovery(headers) {
        return aggregated(registry, version, false);
    }
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| group_value(group, versions))
        .collect();
    let value = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    json_bytes(200, value.to_string().into_bytes())
}

fn group_value(group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

/// `/apis/{group}`.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let groups = registry.groups();
    let (name, versions) = groups.iter().find(|(name, _)| !name.is_empty() && name == group)?;
    let mut value = group_value(name, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn group_version(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.versions(group).iter().any(|one| one == version) {
        return None;
    }
    let mut resources = review::resources(group);
    for (resource, served) in served_in(registry, group, version) {
        resources.extend(resource_values(resource, served));
    }
    // Resources of definitions keep the order of their subresources.
    resources.sort_by_cached_key(|one| {
        let name = one["name"].as_str().unwrap_or_default();
        let custom = registry.find(group, name.split('/').next().unwrap_or_default());
        let custom = custom.is_some_and(|resource| resource.is_custom());
        if custom { name.split('/').next().unwrap_or_default().to_owned() } else { name.to_owned() }
    });
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": resources,
    }))
}

fn served_in<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Resource, &'a Version)> {
    registry.in_group(group).filter_map(move |resource| {
        let at = resource.version(version)?;
        Some((resource.as_ref(), &resource.versions[at]))
    })
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    let mut verbs = vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    verbs.retain(|verb| resource.traits.offers.has(verb));
    if resource.traits.no_collection_delete {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    if resource.is_custom() {
        verbs = vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    }
    verbs
}

/// Tells clients when objects come to be stored in another version.
fn storage_hash(resource: &Resource) -> String {
    let kind = format!("{}/{}/{}", resource.group, resource.storage_version().name, resource.kind);
    STANDARD.encode(&Sha256::digest(kind.as_bytes())[..8])
}

fn resource_values(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    if resource.traits.offers == Offers::All {
        main["storageVersionHash"] = json!(storage_hash(resource));
    }
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let mut values = vec![main];
    let sub = |name: &str, kind: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        })
    };
    if version.status {
        values.push(sub("status", &resource.kind, &["get", "patch", "update"]));
    }
    if version.scale.is_some() {
        let mut scale = sub("scale", "Scale", &["get", "patch", "update"]);
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        values.push(scale);
    }
    if resource.is("", "namespaces") {
        values.push(sub("finalize", "Namespace", &["update"]));
    }
    if resource.is("", "pods") {
        values.push(sub("binding", "Binding", &["create"]));
    }
    values
}

fn aggregated(registry: &Registry, version: &str, legacy: bool) -> Response<ApiBody> {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(group, _)| group.is_empty() == legacy)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|one| {
                    let mut resources = review::aggregated(group, one);
                    resources.extend(
                        served_in(registry, group, one)
                            .map(|(resource, served)| aggregated_resource(resource, served)),
                    );
                    json!({"version": one, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let mut metadata = json!({});
            if !group.is_empty() {
                metadata["name"] = json!(group);
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let value = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let mut response = json_bytes(200, value.to_string().into_bytes());
    let kind = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    crate::api::set(&mut response, header::CACHE_CONTROL, "public");
    response
}

fn aggregated_resource(resource: &Resource, version: &Version) -> Value {
    // The built-in kinds are told without group and version: those of the list.
    let (group, name) = match resource.is_custom() {
        true => (resource.group.as_str(), version.name.as_str()),
        false => ("", ""),
    };
    let mut out = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": name, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    let mut subresources = Vec::new();
    if version.status {
        subresources.push(json!({
            "subresource": "status",
            "responseKind": {"group": group, "version": name, "kind": resource.kind},
            "verbs": ["get", "patch", "update"],
        }));
    }
    if version.scale.is_some() {
        subresources.push(json!({
            "subresource": "scale",
            "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            "verbs": ["get", "patch", "update"],
        }));
    }
    if resource.is("", "namespaces") {
        subresources.push(json!({
            "subresource": "finalize",
            "responseKind": {"group": group, "version": name, "kind": resource.kind},
            "verbs": ["update"],
        }));
    }
    if resource.is("", "pods") {
        subresources.push(json!({
            "subresource": "binding",
            "responseKind": {"group": group, "version": name, "kind": "Binding"},
            "verbs": ["create"],
        }));
    }
    subresources.sort_by(|a, b| a["subresource"].as_str().cmp(&b["subresource"].as_str()));
    if !subresources.is_empty() {
        out["subresources"] = json!(subresources);
    }
    out
}
