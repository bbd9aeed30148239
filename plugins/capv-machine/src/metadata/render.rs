//! The document of a machine.

use super::{
    Document, Ethernet, Match, Nameservers, NetworkConfig, Overrides, Route, UseDomains, WaitOnNetwork,
};
use crate::addresses::address_of;
use crate::api;

/// The document of a machine with this name and network, whose cards have these MAC addresses, in order.
pub fn render(name: &str, network: &api::Network, macs: &[&str]) -> Document {
    let cards = network.devices.iter().zip(macs).enumerate();
    let ethernets =
        cards.map(|(index, (device, mac))| (format!("id{index}"), ethernet(index, device, mac, network)));
    Document {
        instance_id: name.to_owned(),
        local_hostname: name.to_owned(),
        wait_on_network: wait_on_network(&network.devices),
        network: NetworkConfig { version: 2, ethernets: ethernets.collect() },
    }
}

fn wait_on_network(devices: &[api::Device]) -> WaitOnNetwork {
    let has = |device: &api::Device, is_v4: bool| {
        device.ip_addrs.iter().filter_map(|cidr| address_of(cidr)).any(|address| address.is_ipv4() == is_v4)
    };
    WaitOnNetwork {
        ipv4: devices.iter().any(|device| device.dhcp4 || has(device, true)),
        ipv6: devices.iter().any(|device| device.dhcp6 || has(device, false)),
    }
}

fn ethernet(index: usize, device: &api::Device, mac: &str, network: &api::Network) -> Ethernet {
    let routes = device.routes.iter().chain(&network.routes);
    Ethernet {
        matches: Match { macaddress: mac.to_lowercase() },
        set_name: device_name(index, device),
        wakeonlan: true,
        dhcp4: device.dhcp4,
        dhcp6: device.dhcp6,
        accept_ra: device.dhcp6,
        dhcp4_overrides: device.dhcp4_overrides.as_ref().and_then(overrides),
        dhcp6_overrides: device.dhcp6_overrides.as_ref().and_then(overrides),
        addresses: device.ip_addrs.clone(),
        gateway4: device.gateway4.clone().filter(|gateway| !gateway.is_empty()),
        gateway6: device.gateway6.clone().filter(|gateway| !gateway.is_empty()),
        mtu: device.mtu.filter(|mtu| *mtu > 0),
        routes: routes.map(route).collect(),
        nameservers: Nameservers {
            addresses: device.nameservers.clone(),
            search: device.search_domains.clone(),
        },
    }
}

/// What the guest calls a card.
pub fn device_name(index: usize, device: &api::Device) -> String {
    let named = device.device_name.clone().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("eth{index}"))
}

fn route(route: &api::Route) -> Route {
    let api::Route { to, via, metric } = route.clone();
    Route { to, via, metric }
}

/// None where nothing is set: an empty mapping says nothing either.
fn overrides(overrides: &api::DhcpOverrides) -> Option<Overrides> {
    let api::DhcpOverrides {
        hostname,
        route_metric,
        send_hostname,
        use_dns,
        use_domains,
        use_hostname,
        use_mtu,
        use_ntp,
        use_routes,
    } = overrides.clone();
    let use_domains = use_domains.map(|word| match word.as_str() {
        "true" => UseDomains::All(true),
        "false" => UseDomains::All(false),
        _ => UseDomains::Some(word),
    });
    let set = Overrides {
        hostname,
        route_metric,
        send_hostname,
        use_dns,
        use_domains,
        use_hostname,
        use_mtu,
        use_ntp,
        use_routes,
    };
    (set != Overrides::default()).then_some(set)
}
