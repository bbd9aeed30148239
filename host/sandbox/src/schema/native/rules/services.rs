//! Services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{all, has, list, text};
use crate::schema::field_error::FieldError;
use crate::schema::metadata;
use crate::schema::names;
use crate::schema::path::{child, index};

fn headless(spec: &Value) -> bool {
    list(spec, "clusterIPs") == [json!("None")]
}

pub(super) fn service(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let ty = text(spec, "type");
    let ports = list(spec, "ports");
    let mut errors = Vec::new();
    if ports.is_empty() && !headless(spec) && ty != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    errors.extend(by_type(spec, ty));
    if ty != "ExternalName" && !text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty() {
        errors.push(FieldError::required("spec.clusterIPs", ""));
    }
    let mut known = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        check_port(&index("spec.ports", at), port, ports.len() > 1, &mut known, &mut errors);
    }
    errors.extend(metadata::labels("spec.selector", spec.get("selector")));
    match text(spec, "sessionAffinity") {
        "" => errors.push(FieldError::required("spec.sessionAffinity", "")),
        "ClientIP" | "None" => {}
        other => errors.push(FieldError::not_supported("spec.sessionAffinity", other, &["ClientIP", "None"])),
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if ty.is_empty() {
        errors.push(FieldError::required("spec.type", ""));
    } else if !types.contains(&ty) {
        errors.push(FieldError::not_supported("spec.type", ty, &types));
    }
    errors.extend(port_clashes(ports, ty));
    if has(spec, "allocateLoadBalancerNodePorts") && ty != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", detail));
    }
    if has(spec, "loadBalancerClass") && ty != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("spec.loadBalancerClass", detail));
    }
    errors
}

fn by_type(spec: &Value, ty: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match ty {
        "LoadBalancer" | "NodePort" if headless(spec) => {
            let detail = format!("may not be set to 'None' for {ty} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", detail));
        }
        "ExternalName" => {
            for (field, there) in [
                ("clusterIPs", !list(spec, "clusterIPs").is_empty()),
                ("ipFamilies", !list(spec, "ipFamilies").is_empty()),
                ("ipFamilyPolicy", has(spec, "ipFamilyPolicy")),
            ] {
                if there {
                    let detail = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(child("spec", field), detail));
                }
            }
            let name = text(spec, "externalName").trim_end_matches('.');
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            } else {
                errors.extend(all("spec.externalName", name, names::subdomain(name)));
            }
        }
        _ => {}
    }
    errors
}

fn check_port(
    path: &str,
    port: &Value,
    named: bool,
    known: &mut BTreeSet<String>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(port, "name");
    let at = child(path, "name");
    if named && name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !name.is_empty() {
        errors.extend(all(&at, name, names::label(name)));
        if !known.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(at, name));
        }
    }
    let number = port["port"].as_i64().unwrap_or_default();
    errors.extend(all(&child(path, "port"), number, names::port_number(number)));
    let protocols = ["SCTP", "TCP", "UDP"];
    match text(port, "protocol") {
        "" => errors.push(FieldError::required(child(path, "protocol"), "")),
        known if protocols.contains(&known) => {}
        other => errors.push(FieldError::not_supported(child(path, "protocol"), other, &protocols)),
    }
    errors.extend(number_or_name(&child(path, "targetPort"), &port["targetPort"]));
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        errors.extend(all(&child(path, "appProtocol"), protocol, names::qualified_name(protocol)));
    }
}

/// A port by its number or by its name.
pub(super) fn number_or_name(path: &str, value: &Value) -> Vec<FieldError> {
    match value {
        Value::String(name) => all(path, name.as_str(), names::port_name(name)),
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or_default();
            all(path, number, names::port_number(number))
        }
        _ => Vec::new(),
    }
}

fn port_clashes(ports: &[Value], ty: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let node_port = |port: &Value| port["nodePort"].as_i64().filter(|port| *port != 0);
    let key = |port: &Value, number: i64| (text(port, "protocol").to_owned(), number);
    let (mut node_ports, mut own) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.iter().enumerate() {
        if ty == "ClusterIP" && node_port(port).is_some() {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(child(&index("spec.ports", at), "nodePort"), detail));
        }
    }
    for (at, port) in ports.iter().enumerate() {
        if let Some(number) = node_port(port)
            && !node_ports.insert(key(port, number))
        {
            errors.push(FieldError::duplicate(child(&index("spec.ports", at), "nodePort"), number));
        }
    }
    for (at, port) in ports.iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or_default();
        if !own.insert(key(port, number)) {
            // The real server shows its internal struct, which has no JSON names.
            let shown = json!({"Name": "", "Protocol": port["protocol"], "AppProtocol": null, "Port": number,
                               "TargetPort": 0, "NodePort": 0});
            errors.push(FieldError::duplicate(index("spec.ports", at), shown));
        }
    }
    errors
}

/// What a status may not say.
pub(super) fn status(service: &Value) -> Vec<FieldError> {
    let path = "status.loadBalancer.ingress";
    let ingress = list(&service["status"]["loadBalancer"], "ingress");
    if !ingress.is_empty() && text(&service["spec"], "type") != "LoadBalancer" {
        return vec![FieldError::forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let each = ingress.iter().enumerate();
    each.flat_map(|(at, point)| entry_point(&index(path, at), point)).collect()
}

/// Where a load balancer lets requests in.
fn entry_point(path: &str, point: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = child(path, "ipMode");
    match (text(point, "ip").is_empty(), text(point, "ipMode")) {
        (false, "") => errors.push(FieldError::required(at, "must be specified when `ip` is set")),
        (true, "") | (false, "VIP" | "Proxy") => {}
        (true, _) => errors.push(FieldError::forbidden(at, "may not be specified when `ip` is not set")),
        (false, other) => errors.push(FieldError::not_supported(at, other, &["Proxy", "VIP"])),
    }
    let host = text(point, "hostname");
    if !host.is_empty() {
        errors.extend(all(&child(path, "hostname"), host, names::subdomain(host)));
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (new, old) = (&new["spec"], &old["spec"]);
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    // A new address of the older field counts for both.
    let ip = text(new, "clusterIP");
    let renamed = !ip.is_empty() && ip != text(old, "clusterIP") && new["clusterIPs"] == old["clusterIPs"];
    let shown = if renamed { json!([ip]) } else { new["clusterIPs"].clone() };
    let before = list(old, "clusterIPs").first();
    let after = shown.as_array().and_then(|list| list.first());
    if !external(new) && !external(old) && before.is_some() && before != after {
        errors.push(FieldError::invalid("spec.clusterIPs[0]", shown.clone(), "may not change once set"));
    }
    errors
}
