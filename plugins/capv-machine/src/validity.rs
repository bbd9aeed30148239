//! What a spec asks for that cannot be, past what the schema refuses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::addresses::address_of;
use crate::api::{Device, Network, Route, VSphereMachineSpec};
use crate::metadata::device_name;
use crate::names;

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// A field that can never change: no retry puts it right.
    ForGood(String),
    /// A field that can be edited.
    UntilEdited(String),
}

/// The first thing that is wrong with a spec.
pub fn invalid(spec: &VSphereMachineSpec) -> Option<Invalid> {
    immutable(spec).map(Invalid::ForGood).or_else(|| network(&spec.network).map(Invalid::UntilEdited))
}

fn immutable(spec: &VSphereMachineSpec) -> Option<String> {
    let required = [("server", &spec.server), ("template", &spec.template), ("datacenter", &spec.datacenter)];
    if let Some((field, _)) = required.iter().find(|(_, value)| value.trim().is_empty()) {
        return Some(format!("{field} is empty"));
    }
    let reserved = spec.custom_vmx_keys.keys().find(|key| {
        let key = key.to_ascii_lowercase();
        key.starts_with(names::GUESTINFO) || key.starts_with(names::RECONCILERS)
    });
    if let Some(key) = reserved {
        return Some(format!("customVMXKeys: {key} is not for users"));
    }
    spec.network.routes.iter().find_map(|route| bad_route(route).map(|why| format!("network.routes: {why}")))
}

fn network(network: &Network) -> Option<String> {
    if network.devices.is_empty() {
        return Some("network.devices is empty".to_owned());
    }
    let devices = || network.devices.iter().enumerate();
    let wrong = devices()
        .find_map(|(index, device)| bad_device(device).map(|why| format!("network.devices[{index}]: {why}")));
    wrong.or_else(|| {
        twice(devices().map(|(index, device)| device_name(index, device)), "deviceName")
            .or_else(|| twice(devices().filter_map(|(_, device)| mac_of(device)), "macAddr"))
            .or_else(|| {
                let addresses = devices().flat_map(|(_, device)| &device.ip_addrs);
                twice(addresses.filter_map(|cidr| address_of(cidr)).map(|ip| ip.to_string()), "ipAddrs")
            })
    })
}

fn mac_of(device: &Device) -> Option<String> {
    device.mac_addr.as_deref().filter(|mac| !mac.is_empty()).map(str::to_lowercase)
}

fn twice(values: impl Iterator<Item = String>, field: &str) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut values = values;
    let value = values.find(|value| !seen.insert(value.clone()))?;
    Some(format!("network.devices: {field} {value} is there twice"))
}

fn bad_device(device: &Device) -> Option<String> {
    if device.network_name.trim().is_empty() {
        return Some("networkName is empty".to_owned());
    }
    if let Some(cidr) = device.ip_addrs.iter().find(|cidr| address_of(cidr).is_none()) {
        return Some(format!("ipAddrs: {cidr} is no address with the length of its prefix"));
    }
    if let Some(mac) = device.mac_addr.as_deref().filter(|mac| !mac.is_empty() && !is_mac(mac)) {
        return Some(format!("macAddr: {mac} is no MAC address"));
    }
    if let Some(server) = device.nameservers.iter().find(|server| server.parse::<IpAddr>().is_err()) {
        return Some(format!("nameservers: {server} is no IP address"));
    }
    if let Some(domain) = device.search_domains.iter().find(|domain| domain.chars().any(char::is_control)) {
        return Some(format!("searchDomains: {domain:?} has control characters"));
    }
    bad_gateway(device, "gateway4", device.gateway4.as_deref(), true)
        .or_else(|| bad_gateway(device, "gateway6", device.gateway6.as_deref(), false))
        .or_else(|| unused(device))
        .or_else(|| {
            device.routes.iter().find_map(|route| bad_route(route).map(|why| format!("routes: {why}")))
        })
}

/// A gateway belongs to an address of its own kind.
fn bad_gateway(device: &Device, field: &str, gateway: Option<&str>, is_v4: bool) -> Option<String> {
    let gateway = gateway.filter(|gateway| !gateway.is_empty())?;
    let kind = if is_v4 { "IPv4" } else { "IPv6" };
    match gateway.parse::<IpAddr>() {
        Ok(address) if address.is_ipv4() == is_v4 => {}
        Ok(_) | Err(_) => return Some(format!("{field}: {gateway} is no {kind} address")),
    }
    let mut of_kind = device.ip_addrs.iter().filter_map(|cidr| address_of(cidr));
    let has_address = of_kind.any(|address| address.is_ipv4() == is_v4);
    let by_dhcp = if is_v4 { device.dhcp4 } else { device.dhcp6 };
    (!has_address && !by_dhcp).then(|| format!("{field} without an {kind} address"))
}

fn unused(device: &Device) -> Option<String> {
    if device.dhcp4_overrides.is_some() && !device.dhcp4 {
        return Some("dhcp4Overrides without dhcp4".to_owned());
    }
    (device.dhcp6_overrides.is_some() && !device.dhcp6).then(|| "dhcp6Overrides without dhcp6".to_owned())
}

fn bad_route(route: &Route) -> Option<String> {
    let Route { to, via, metric: _ } = route;
    if to != "default" && address_of(to).is_none() {
        return Some(format!("{to} is neither a network nor default"));
    }
    via.parse::<IpAddr>().is_err().then(|| format!("{via} is no IP address"))
}

fn is_mac(text: &str) -> bool {
    let mut parts = 0;
    let all = text.split(':').all(|part| {
        parts += 1;
        part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    all && parts == 6
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(fields: &str, devices: &str, expected: Expect) {
        let text = format!(
            "{{server: vc, template: tpl, datacenter: /DC0, {fields} network: {{devices: [{devices}]}}}}"
        );
        let spec: VSphereMachineSpec = serde_saphyr::from_str(&text).unwrap();
        let said = match invalid(&spec) {
            None => "fine".to_owned(),
            Some(Invalid::ForGood(why)) => format!("for good: {why}"),
            Some(Invalid::UntilEdited(why)) => format!("until edited: {why}"),
        };
        expected.assert_eq(&said);
    }

    const DHCP: &str = "{networkName: n, dhcp4: true}";

    #[test]
    fn a_plain_spec_is_fine() {
        check("", DHCP, expect!["fine"]);
        check(
            "",
            "{networkName: n, ipAddrs: [10.0.0.11/24, '2001:db8::1/64'], gateway4: 10.0.0.1, gateway6: '2001:db8::ff', nameservers: [10.0.0.53], macAddr: '00:50:56:AA:bb:01', routes: [{to: default, via: 10.0.0.1}]}",
            expect!["fine"],
        );
        check("", "{networkName: n, dhcp4: true, gateway4: 10.0.0.1}", expect!["fine"]);
        check("", "{networkName: n, gateway4: '', macAddr: '', skipIPAllocation: true}", expect!["fine"]);
    }

    #[test]
    fn what_can_never_change_is_wrong_for_good() {
        check(
            "customVMXKeys: {GuestInfo.x: y},",
            DHCP,
            expect!["for good: customVMXKeys: GuestInfo.x is not for users"],
        );
        check(
            "customVMXKeys: {reconcilers.owner: y},",
            DHCP,
            expect!["for good: customVMXKeys: reconcilers.owner is not for users"],
        );
    }

    #[test]
    fn a_network_that_contradicts_itself_is_named() {
        check("", "", expect!["until edited: network.devices is empty"]);
        check(
            "",
            "{networkName: n, ipAddrs: [10.0.0.11/33]}",
            expect![
                "until edited: network.devices[0]: ipAddrs: 10.0.0.11/33 is no address with the length of its prefix"
            ],
        );
        check(
            "",
            "{networkName: n, dhcp6: true, gateway4: 10.0.0.1}",
            expect!["until edited: network.devices[0]: gateway4 without an IPv4 address"],
        );
        check(
            "",
            "{networkName: n, dhcp4: true, gateway4: '2001:db8::1'}",
            expect!["until edited: network.devices[0]: gateway4: 2001:db8::1 is no IPv4 address"],
        );
        check(
            "",
            "{networkName: n, dhcp6: true, dhcp4Overrides: {useDNS: false}}",
            expect!["until edited: network.devices[0]: dhcp4Overrides without dhcp4"],
        );
        check(
            "",
            "{networkName: n, dhcp4: true, deviceName: eth1}, {networkName: n, dhcp4: true}",
            expect!["until edited: network.devices: deviceName eth1 is there twice"],
        );
        check(
            "",
            "{networkName: n, ipAddrs: [10.0.0.1/24]}, {networkName: n, ipAddrs: [10.0.0.1/16]}",
            expect!["until edited: network.devices: ipAddrs 10.0.0.1 is there twice"],
        );
        check(
            "",
            "{networkName: n, dhcp4: true, macAddr: '00:50:56:aa:bb'}",
            expect!["until edited: network.devices[0]: macAddr: 00:50:56:aa:bb is no MAC address"],
        );
        check(
            "",
            "{networkName: n, dhcp4: true, nameservers: [dns.test]}",
            expect!["until edited: network.devices[0]: nameservers: dns.test is no IP address"],
        );
        check(
            "",
            "{networkName: n, dhcp4: true, routes: [{to: 10.0.0.0, via: 10.0.0.1}]}",
            expect!["until edited: network.devices[0]: routes: 10.0.0.0 is neither a network nor default"],
        );
    }
}
