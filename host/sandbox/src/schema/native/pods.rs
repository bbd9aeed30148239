//! Defaults of pods and their templates.

use serde_json::{Value, json};

use super::defaults::{items, requests_from_limits, set};

/// A pod template of a workload.
pub(super) fn template(template: &mut Value) {
    if template.is_object() {
        spec(&mut template["spec"]);
    }
}

/// A pod's own spec: what templates have, and more.
pub(super) fn pod(pod: &mut Value) {
    spec(pod);
    if !pod.is_object() {
        return;
    }
    for list in ["containers", "initContainers"] {
        items(pod, list).for_each(requests_from_limits);
    }
    set(pod, "enableServiceLinks", json!(true));
    if pod["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            items(pod, list).for_each(host_ports);
        }
    }
}

fn spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "securityContext", json!({}));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "schedulerName", json!("default-scheduler"));
    // The old name of the account is kept beside the new one.
    let account = spec["serviceAccountName"].as_str().unwrap_or_default().to_owned();
    let old = spec["serviceAccount"].as_str().unwrap_or_default().to_owned();
    if account.is_empty() && !old.is_empty() {
        spec["serviceAccountName"] = Value::from(old);
    } else if !account.is_empty() {
        spec["serviceAccount"] = Value::from(account);
    }
    clean(spec, &["serviceAccountName", "serviceAccount", "hostNetwork"]);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// The quality of service that a pod gets by what its containers ask for.
pub(super) fn quality(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers: Vec<&Value> =
        lists.iter().filter_map(|list| spec.get(*list)?.as_array()).flatten().collect();
    let amount = |container: &Value, kind: &str, name: &str| {
        container.pointer(&format!("/resources/{kind}/{name}")).cloned()
    };
    let names = ["cpu", "memory"];
    let any = containers.iter().any(|container| {
        names
            .iter()
            .any(|name| ["requests", "limits"].iter().any(|kind| amount(container, kind, name).is_some()))
    });
    let all = containers.iter().all(|container| {
        names.iter().all(|name| {
            let limit = amount(container, "limits", name);
            limit.is_some() && limit == amount(container, "requests", name)
        })
    });
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Indexing leaves nulls behind where there was nothing.
fn clean(object: &mut Value, fields: &[&str]) {
    for field in fields {
        if object.get(*field).is_some_and(Value::is_null) {
            object.as_object_mut().map(|object| object.remove(*field));
        }
    }
}

fn host_ports(container: &mut Value) {
    items(container, "ports").for_each(|port| {
        if port.get("hostPort").is_none_or(|port| port.is_null() || *port == 0) {
            let own = port.get("containerPort").cloned().unwrap_or_default();
            port["hostPort"] = own;
        }
    });
}

fn container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if tag(image) == "latest" { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", json!(policy));
    set(container, "terminationMessagePath", json!("/dev/termination-log"));
    set(container, "terminationMessagePolicy", json!("File"));
    items(container, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            for (field, value) in [
                ("timeoutSeconds", 1),
                ("periodSeconds", 10),
                ("successThreshold", 1),
                ("failureThreshold", 3),
            ] {
                if probe.get(field).is_none_or(|known| known.is_null() || *known == 0) {
                    probe[field] = json!(value);
                }
            }
            http(probe.get_mut("httpGet"));
            if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object())
                && grpc.get("service").is_none()
            {
                grpc["service"] = json!("");
            }
        }
    }
    for hook in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        http(container.pointer_mut(hook));
    }
    items(container, "env").for_each(|variable| {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef").filter(|field| field.is_object()) {
            set(field, "apiVersion", json!("v1"));
        }
    });
}

fn http(get: Option<&mut Value>) {
    if let Some(get) = get.filter(|get| get.is_object()) {
        set(get, "path", json!("/"));
        set(get, "scheme", json!("HTTP"));
    }
}

/// The tag of an image: `latest` if there is neither tag nor digest.
fn tag(image: &str) -> &str {
    if image.contains('@') {
        return "";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

fn volume(volume: &mut Value) {
    let Some(fields) = volume.as_object() else { return };
    if fields.keys().all(|field| field == "name") {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        let Some(source) = volume.get_mut(source).filter(|source| source.is_object()) else { continue };
        set(source, "defaultMode", json!(420));
        items(source, "items").for_each(field_reference);
        items(source, "sources").for_each(|source| {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                set(token, "expirationSeconds", json!(3600));
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                items(downward, "items").for_each(field_reference);
            }
        });
    }
    if let Some(host) = volume.get_mut("hostPath").filter(|host| host.is_object())
        && host.get("type").is_none()
    {
        host["type"] = json!("");
    }
}

fn field_reference(item: &mut Value) {
    if let Some(field) = item.get_mut("fieldRef").filter(|field| field.is_object()) {
        set(field, "apiVersion", json!("v1"));
    }
}
