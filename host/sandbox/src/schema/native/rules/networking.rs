//! Network policies and ingresses.

use std::net::IpAddr;

use serde_json::Value;

use super::{all, has, list, selectors, text};
use crate::schema::field_error::FieldError;
use crate::schema::formats::is_cidr;
use crate::schema::names::{self, NameRule};
use crate::schema::path::{child, index};

pub(super) fn policy(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = selectors::check("spec.podSelector", spec.get("podSelector"));
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list(spec, direction).iter().enumerate() {
            let path = index(&child("spec", direction), at);
            for (at, port) in list(rule, "ports").iter().enumerate() {
                errors.extend(policy_port(&index(&child(&path, "ports"), at), port));
            }
            for (at, peer) in list(rule, side).iter().enumerate() {
                errors.extend(policy_peer(&index(&child(&path, side), at), peer));
            }
        }
    }
    let types = list(spec, "policyTypes");
    if types.len() > 2 {
        let shown = spec["policyTypes"].clone();
        errors.push(FieldError::invalid(
            "spec.policyTypes",
            shown,
            "may not specify more than two policyTypes",
        ));
        return errors;
    }
    for (at, ty) in types.iter().enumerate() {
        if !["Ingress", "Egress"].contains(&ty.as_str().unwrap_or_default()) {
            errors.push(FieldError::not_supported(
                index("spec.policyTypes", at),
                ty.clone(),
                &["Ingress", "Egress"],
            ));
        }
    }
    errors
}

fn policy_port(path: &str, port: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let protocols = ["TCP", "UDP", "SCTP"];
    let protocol = text(port, "protocol");
    if !protocol.is_empty() && !protocols.contains(&protocol) {
        errors.push(FieldError::not_supported(child(path, "protocol"), protocol, &protocols));
    }
    let end = port.get("endPort").and_then(Value::as_i64);
    let at_end = child(path, "endPort");
    match port.get("port") {
        Some(Value::Number(number)) => {
            let number = number.as_i64().unwrap_or_default();
            errors.extend(all(&child(path, "port"), number, names::port_number(number)));
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(&at_end, number, detail));
                }
                errors.extend(all(&at_end, end, names::port_number(end)));
            }
        }
        Some(Value::String(name)) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(&at_end, end, detail));
            }
            errors.extend(all(&child(path, "port"), name.as_str(), names::port_name(name)));
        }
        _ => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is not specified";
                errors.push(FieldError::invalid(at_end, end, detail));
            }
        }
    }
    errors
}

fn policy_peer(path: &str, peer: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selector_fields = ["podSelector", "namespaceSelector"];
    for field in selector_fields {
        errors.extend(selectors::check(&child(path, field), peer.get(field)));
    }
    if let Some(block) = peer.get("ipBlock").filter(|block| block.is_object()) {
        errors.extend(ip_block(&child(path, "ipBlock"), block));
    }
    let count = selector_fields.iter().filter(|field| has(peer, field)).count();
    match (count, has(peer, "ipBlock")) {
        (0, false) => errors.push(FieldError::required(path, "must specify a peer")),
        (0, true) | (_, false) => {}
        (_, true) => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"))
        }
    }
    errors
}

fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    if is_cidr(text) { Some((ip.parse().ok()?, length.parse().ok()?)) } else { None }
}

fn cidr_error(path: &str, value: &str) -> Option<FieldError> {
    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    parse_cidr(value).is_none().then(|| FieldError::invalid(path, value, detail))
}

fn ip_block(path: &str, block: &Value) -> Vec<FieldError> {
    let cidr = text(block, "cidr");
    let at = child(path, "cidr");
    if cidr.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    let mut errors: Vec<FieldError> = cidr_error(&at, cidr).into_iter().collect();
    let Some((network, length)) = parse_cidr(cidr) else { return errors };
    for (at, except) in list(block, "except").iter().enumerate() {
        let at = index(&child(path, "except"), at);
        let value = except.as_str().unwrap_or_default();
        errors.extend(cidr_error(&at, value));
        let Some((ip, except_length)) = parse_cidr(value) else { continue };
        if !inside(network, length, ip) || length >= except_length {
            errors.push(FieldError::invalid(at, value, "must be a strict subset of `cidr`"));
        }
    }
    errors
}

fn inside(network: IpAddr, length: u8, ip: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    };
    let mask = if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length)) };
    network.is_ipv4() == ip.is_ipv4() && bits(network) & mask == bits(ip) & mask
}

pub(super) fn ingress(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let rules = list(spec, "rules");
    if rules.is_empty() && !has(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", spec.get("rules").cloned().unwrap_or_default(), detail));
    }
    if let Some(backend) = spec.get("defaultBackend").filter(|backend| backend.is_object()) {
        errors.extend(ingress_backend("spec.defaultBackend", backend));
    }
    for (at, rule) in rules.iter().enumerate() {
        errors.extend(ingress_rule(&index("spec.rules", at), rule));
    }
    for (at, tls) in list(spec, "tls").iter().enumerate() {
        let path = index("spec.tls", at);
        for (at, host) in list(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let messages =
                if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
            errors.extend(all(&index(&child(&path, "hosts"), at), host, messages));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            errors.extend(all(&child(&path, "secretName"), secret, names::subdomain(secret)));
        }
    }
    if let Some(class) = spec.get("ingressClassName").and_then(Value::as_str) {
        errors.extend(all("spec.ingressClassName", class, names::subdomain(class)));
    }
    errors
}

fn ingress_rule(path: &str, rule: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let host = text(rule, "host");
    let at = child(path, "host");
    if !host.is_empty() {
        if host.parse::<IpAddr>().is_ok() {
            errors.push(FieldError::invalid(&at, host, "must be a DNS name, not an IP address"));
        }
        let messages =
            if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
        errors.extend(all(&at, host, messages));
    }
    let Some(http) = rule.get("http").filter(|http| http.is_object()) else { return errors };
    let at = child(path, "http.paths");
    let paths = list(http, "paths");
    if paths.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    for (number, one) in paths.iter().enumerate() {
        errors.extend(ingress_path(&index(&at, number), one));
    }
    errors
}

fn ingress_path(path: &str, one: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let value = text(one, "path");
    let at = child(path, "path");
    let mut invalid = |detail: String| errors.push(FieldError::invalid(&at, value, detail));
    match one.get("pathType").and_then(Value::as_str) {
        None => return vec![FieldError::required(child(path, "pathType"), "pathType must be specified")],
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                invalid("must be an absolute path".to_owned());
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if value.contains(bad) {
                    invalid(format!("must not contain '{bad}'"));
                }
            }
            for bad in ["/..", "/."] {
                if value.ends_with(bad) {
                    invalid(format!("cannot end with '{bad}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                invalid("must be an absolute path".to_owned());
            }
        }
        Some(other) => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(child(path, "pathType"), other, &known));
        }
    }
    errors.extend(ingress_backend(&child(path, "backend"), one.get("backend").unwrap_or(&Value::Null)));
    errors
}

fn ingress_backend(path: &str, backend: &Value) -> Vec<FieldError> {
    let service = backend.get("service").filter(|service| service.is_object());
    let service = match (service, has(backend, "resource")) {
        (Some(_), true) => {
            return vec![FieldError::invalid(path, "", "cannot set both resource and service backends")];
        }
        (None, true) => return Vec::new(),
        (None, false) => {
            return vec![FieldError::invalid(path, "", "resource or service backend is required")];
        }
        (Some(service), false) => service,
    };
    let mut errors = Vec::new();
    let name = text(service, "name");
    let at = child(path, "service.name");
    if name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else {
        errors.extend(all(&at, name, NameRule::Label1035.check(name, false)));
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let (port_name, number) =
        (text(port, "name"), port.get("number").and_then(Value::as_i64).unwrap_or_default());
    match (port_name.is_empty(), number == 0) {
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "cannot set both port name & port number"))
        }
        (false, true) => {
            errors.extend(all(&child(path, "service.port.name"), port_name, names::port_name(port_name)));
        }
        (true, false) => {
            errors.extend(all(&child(path, "service.port.number"), number, names::port_number(number)));
        }
        (true, true) => errors.push(FieldError::required(path, "port name or number is required")),
    }
    errors
}
