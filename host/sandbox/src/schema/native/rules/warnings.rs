//! What is told of an object although it is taken.

use serde_json::Value;

use super::{list, text};

/// A sentence for each oddity of the pods that an object makes.
pub(in crate::schema::native) fn warnings(group: &str, kind: &str, object: &Value) -> Vec<String> {
    match (group, kind) {
        ("", "Pod") => pod("spec", &object["spec"]),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
            pod("spec.template.spec", &object["spec"]["template"]["spec"])
        }
        ("batch", "CronJob") => pod(
            "spec.jobTemplate.spec.template.spec",
            &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        ),
        ("", "Service") => service(&object["spec"]),
        _ => Vec::new(),
    }
}

fn service(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let ty = text(spec, "type");
    if ty == "ClusterIP" && text(spec, "clusterIP") == "None" {
        if !text(spec, "loadBalancerIP").is_empty() {
            found.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !list(spec, "externalIPs").is_empty() {
            found.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec, "sessionAffinity") != "None" {
            found.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    if ty == "ExternalName" && !list(spec, "externalIPs").is_empty() {
        found.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if ty != "ExternalName" && !text(spec, "externalName").is_empty() {
        found.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        found.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    found
}

fn pod(path: &str, spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut ports: Vec<(String, &Value)> = Vec::new();
    for field in ["initContainers", "containers"] {
        for (at, container) in list(spec, field).iter().enumerate() {
            let at = format!("{path}.{field}[{at}]");
            found.extend(hidden(&at, container));
            for (number, port) in list(container, "ports").iter().enumerate() {
                let place = format!("{at}.ports[{number}]");
                found.extend(same_port(&place, port, &ports));
                ports.push((place, port));
            }
        }
    }
    found
}

/// Ports that another container has, too.
fn same_port(place: &str, port: &Value, others: &[(String, &Value)]) -> Vec<String> {
    let same = |other: &Value, field: &str| port.get(field) == other.get(field);
    let clashes = others.iter().filter(|(_, other)| same(other, "containerPort") && same(other, "protocol"));
    clashes
        .filter_map(|(first, other)| {
            if same(other, "hostIP") && same(other, "hostPort") {
                return Some(format!("{place}: duplicate port definition with {first}"));
            }
            let open = port.get("hostPort").is_none() || other.get("hostPort").is_none();
            open.then(|| format!("{place}: overlapping port definition with {first}"))
        })
        .collect()
}

/// Variables that are set twice: the second counts.
fn hidden(at: &str, container: &Value) -> Vec<String> {
    let env = list(container, "env");
    let twice = env
        .iter()
        .enumerate()
        .filter(|(number, one)| env[..*number].iter().any(|other| text(other, "name") == text(one, "name")));
    twice
        .map(|(number, one)| {
            let name = crate::error::go_quote(text(one, "name"));
            format!("{at}.env[{number}]: hides previous definition of {name}, which may be dropped when using apply")
        })
        .collect()
}
