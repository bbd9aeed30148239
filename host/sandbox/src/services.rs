//! Addresses of Services: cluster IPs from 10.96.0.0/16 and node ports from 30000, handed out in order.

use crate::schema::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The first two bytes of every cluster IP.
const PREFIX: [u8; 2] = [10, 96];
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// Which addresses are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    ips: BTreeSet<[u8; 2]>,
    next_ip: u16,
    ports: BTreeSet<u16>,
}

impl Addresses {
    /// Gives a Service what it lacks and books what it asks for. `old` is the Service before an update.
    pub(crate) fn assign(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
        if let Some(old) = old {
            keep(service, old);
        }
        let spec = &service["spec"];
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let misfits = families_that_are_not_there(&service["spec"]);
        if !misfits.is_empty() {
            return Err(misfits);
        }
        self.assign_ip(service, old)?;
        self.assign_ports(service, old, &kind)?;
        complete(service, &kind);
        Ok(())
    }

    /// Shows what a dry run shows: addresses that nobody gets are the first of their range.
    pub(crate) fn pretend(&self, service: &mut Value) -> Result<(), Vec<FieldError>> {
        let kind = service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let mut copy = Addresses { ips: self.ips.clone(), next_ip: 0, ports: self.ports.clone() };
        if service["spec"]["clusterIP"].as_str().is_none_or(str::is_empty) {
            service["spec"]["clusterIP"] = json!(format!("{}.{}.0.0", PREFIX[0], PREFIX[1]));
            copy.ips.remove(&[0, 0]);
        }
        copy.assign(service, None)
    }

    fn assign_ip(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
        let wanted = service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        let before = old.and_then(|old| old["spec"]["clusterIP"].as_str()).unwrap_or_default().to_owned();
        // An address is handed out once; what an update says of it is for validation.
        let has_one = old.is_some_and(|old| old["spec"]["type"] != "ExternalName");
        if wanted == "None" || has_one || (!wanted.is_empty() && wanted == before) {
            return Ok(());
        }
        if wanted.is_empty() {
            let ip = self.free_ip();
            self.ips.insert(ip);
            service["spec"]["clusterIP"] = json!(format!("{}.{}.{}.{}", PREFIX[0], PREFIX[1], ip[0], ip[1]));
            return Ok(());
        }
        let Some(ip) = parse_ip(&wanted) else {
            let why = "failed to allocate IP ".to_owned()
                + &format!(
                    "{wanted}: the provided IP ({wanted}) is not in the valid range. The range of valid IPs is 10.96.0.0/16"
                );
            return Err(vec![FieldError::invalid("spec.clusterIPs", json!([wanted]), why)]);
        };
        if !self.ips.insert(ip) {
            let why = format!("failed to allocate IP {wanted}: provided IP is already allocated");
            return Err(vec![FieldError::invalid("spec.clusterIPs", json!([wanted]), why)]);
        }
        Ok(())
    }

    fn free_ip(&mut self) -> [u8; 2] {
        loop {
            self.next_ip = self.next_ip.wrapping_add(1);
            let ip = self.next_ip.to_be_bytes();
            if !matches!(ip, [0, 0] | [255, 255]) && !self.ips.contains(&ip) {
                return ip;
            }
        }
    }

    fn assign_ports(
        &mut self,
        service: &mut Value,
        old: Option<&Value>,
        kind: &str,
    ) -> Result<(), Vec<FieldError>> {
        let before = old.map(node_ports).unwrap_or_default();
        let Some(ports) = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut) else {
            return Ok(());
        };
        let mut taken: Vec<(u64, String)> = Vec::new();
        for (at, port) in ports.iter_mut().enumerate() {
            if !matches!(kind, "NodePort" | "LoadBalancer") {
                continue;
            }
            let wanted = port["nodePort"].as_u64().unwrap_or_default();
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            if wanted == 0 {
                let free = NODE_PORTS.clone().find(|port| !self.ports.contains(port));
                if let Some(free) = free {
                    self.ports.insert(free);
                    port["nodePort"] = json!(free);
                }
                continue;
            }
            let number = u16::try_from(wanted).ok().filter(|number| NODE_PORTS.contains(number));
            let Some(number) = number else {
                let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                return Err(vec![FieldError::invalid(format!("spec.ports[{at}].nodePort"), wanted, why)]);
            };
            let twin = taken.iter().any(|(other, of)| *other == wanted && *of != protocol);
            if !before.contains(&number) && !self.ports.insert(number) && !twin {
                let why = "provided port is already allocated";
                return Err(vec![FieldError::invalid(format!("spec.ports[{at}].nodePort"), wanted, why)]);
            }
            taken.push((wanted, protocol));
        }
        let after = node_ports(service);
        for port in before.difference(&after) {
            self.ports.remove(port);
        }
        Ok(())
    }

    /// Gives back what a deleted Service had.
    pub(crate) fn release(&mut self, service: &Value) {
        if let Some(ip) = service["spec"]["clusterIP"].as_str().and_then(parse_ip) {
            self.ips.remove(&ip);
        }
        for port in node_ports(service) {
            self.ports.remove(&port);
        }
    }

    /// Books what a Service that was put in place has.
    pub(crate) fn book(&mut self, service: &Value) {
        self.ips.extend(service["spec"]["clusterIP"].as_str().and_then(parse_ip));
        self.ports.extend(node_ports(service));
    }
}

/// What is asked for beyond the one family of addresses that there is. A headless Service that selects nothing may ask for all.
fn families_that_are_not_there(spec: &Value) -> Vec<FieldError> {
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if spec["clusterIP"] == "None" && !selects {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", why));
    }
    for (at, family) in spec["ipFamilies"].as_array().into_iter().flatten().enumerate() {
        if family != "IPv4" {
            let why = "not configured on this cluster";
            errors.push(FieldError::invalid(format!("spec.ipFamilies[{at}]"), family.clone(), why));
        }
    }
    errors
}

fn node_ports(service: &Value) -> BTreeSet<u16> {
    let ports = service["spec"]["ports"].as_array();
    ports
        .into_iter()
        .flatten()
        .filter_map(|port| u16::try_from(port["nodePort"].as_u64()?).ok())
        .filter(|port| *port != 0)
        .collect()
}

fn parse_ip(text: &str) -> Option<[u8; 2]> {
    let ip: std::net::Ipv4Addr = text.parse().ok()?;
    let [a, b, c, d] = ip.octets();
    ([a, b] == PREFIX).then_some([c, d])
}

/// Makes an update fit before it is validated: it keeps addresses that it does not name, and fields that belong to the
/// type that the Service had go with that type, unless the update says something new of them.
pub(crate) fn prepare_update(service: &mut Value, old: &Value) {
    keep(service, old);
    let plural = service["spec"]["clusterIPs"].as_array().is_some_and(|list| !list.is_empty());
    let ip = service["spec"]["clusterIP"].clone();
    if !plural && ip.as_str().is_some_and(|ip| !ip.is_empty()) {
        service["spec"]["clusterIPs"] = json!([ip]);
    }
    let kind = |service: &Value| service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let (new_kind, old_kind) = (kind(service), kind(old));
    let node_port = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let left = |has: fn(&str) -> bool| has(&old_kind) && !has(&new_kind);
    let none_new = node_ports(service).is_subset(&node_ports(old));
    if node_port(&old_kind) && !node_port(&new_kind) && none_new {
        let ports = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    let mut gone: Vec<&str> = Vec::new();
    if left(|kind| matches!(kind, "NodePort" | "LoadBalancer")) {
        gone.push("externalTrafficPolicy");
    }
    if left(|kind| kind == "LoadBalancer") {
        gone.extend(["allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"]);
    }
    if left(|kind| kind != "ExternalName") {
        gone.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if let Some(spec) = service.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.retain(|field, value| !gone.contains(&field.as_str()) || old["spec"].get(field) != Some(value));
    }
    if let Some(status) = service.get_mut("status").filter(|_| new_kind != "LoadBalancer") {
        status["loadBalancer"] = json!({});
    }
}

/// An update that names no address keeps the one it had.
fn keep(service: &mut Value, old: &Value) {
    let external = |service: &Value| service["spec"]["type"] == "ExternalName";
    if external(old) || external(service) {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilyPolicy"] {
        let absent = service["spec"].get(field).is_none_or(|value| value.is_null() || *value == json!(""));
        if absent && let Some(value) = old["spec"].get(field) {
            service["spec"][field] = value.clone();
        }
    }
    let old_ports = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let needs_port = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    for port in service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = |other: &&Value| {
            other["port"] == port["port"]
                && other["protocol"].as_str().unwrap_or("TCP") == port["protocol"].as_str().unwrap_or("TCP")
        };
        let before = old_ports.iter().find(same).and_then(|other| other.get("nodePort")).cloned();
        match before {
            Some(before) if needs_port && port.get("nodePort").is_none() => port["nodePort"] = before,
            _ => {}
        }
    }
}

fn complete(service: &mut Value, kind: &str) {
    let spec = &mut service["spec"];
    let ip = spec["clusterIP"].clone();
    if ip.is_string()
        && spec.get("clusterIPs").and_then(Value::as_array).is_none_or(|list| list.first() != Some(&ip))
    {
        spec["clusterIPs"] = json!([ip]);
    }
    let headless = ip == "None";
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let mut default = |field: &str, value: Value| {
        if spec.get(field).is_none_or(Value::is_null) {
            spec[field] = value;
        }
    };
    // A headless Service that selects nothing is for whatever its author puts behind it.
    let open = headless && !selects;
    default("ipFamilyPolicy", json!(if open { "RequireDualStack" } else { "SingleStack" }));
    default("ipFamilies", if open && !single { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
    default("internalTrafficPolicy", json!("Cluster"));
    if kind == "LoadBalancer" {
        default("allocateLoadBalancerNodePorts", json!(true));
    }
    if matches!(kind, "NodePort" | "LoadBalancer") {
        default("externalTrafficPolicy", json!("Cluster"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_order_and_are_not_given_twice() {
        let mut addresses = Addresses::default();
        let mut ip = |wanted: Option<&str>| {
            let mut service = json!({"spec": {"type": "ClusterIP"}});
            if let Some(wanted) = wanted {
                service["spec"]["clusterIP"] = json!(wanted);
            }
            addresses
                .assign(&mut service, None)
                .map(|()| service["spec"]["clusterIP"].as_str().unwrap().to_owned())
        };
        assert_eq!(ip(None).unwrap(), "10.96.0.1");
        assert_eq!(ip(Some("10.96.0.2")).unwrap(), "10.96.0.2");
        assert_eq!(ip(None).unwrap(), "10.96.0.3");
        assert!(ip(Some("10.96.0.1")).is_err());
        assert_eq!(ip(Some("None")).unwrap(), "None");
    }

    #[test]
    fn fields_of_the_old_type_go_with_it() {
        let spec = json!({
            "type": "LoadBalancer",
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "allocateLoadBalancerNodePorts": true,
            "externalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}],
        });
        let old = json!({"spec": spec});
        let mut new = old.clone();
        new["spec"]["type"] = json!("ClusterIP");
        prepare_update(&mut new, &old);
        let ports = json!([{"port": 80, "protocol": "TCP"}]);
        assert_eq!(
            new,
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": ports}})
        );
        let mut new = old.clone();
        new["spec"]["type"] = json!("ClusterIP");
        new["spec"]["externalTrafficPolicy"] = json!("Local");
        prepare_update(&mut new, &old);
        assert_eq!(
            new["spec"]["externalTrafficPolicy"], "Local",
            "what the update says is left for validation"
        );
    }

    #[test]
    fn an_update_keeps_its_address_and_node_ports() {
        let mut addresses = Addresses::default();
        let mut old = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        addresses.assign(&mut old, None).unwrap();
        let mut new = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}});
        addresses.assign(&mut new, Some(&old)).unwrap();
        assert_eq!(new, old);
        assert_eq!(old["spec"]["ports"][0]["nodePort"], 30000);
    }
}
