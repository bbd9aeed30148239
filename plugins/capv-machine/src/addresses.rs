//! Which addresses of a guest count, and whether it has all that it should have.

use std::net::IpAddr;

use crate::api::{Address, Device, NetworkStatus};
use crate::seam::Nic;

/// The address of a CIDR, as in `10.0.0.11/24`; none where it is not one.
pub fn address_of(cidr: &str) -> Option<IpAddr> {
    let (address, prefix) = cidr.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some(address)
}

/// Whether others can reach a guest under it.
fn is_routable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified()
                || v4.is_loopback()
                || v4.is_link_local()
                || is_link_local_multicast(address))
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || is_link_local_multicast(address))
        }
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(v6) => v6.is_multicast() && v6.segments()[0] & 0x000f == 2,
    }
}

/// A card as the status shows it.
pub fn card(nic: &Nic) -> NetworkStatus {
    let counted = |ip: &String| {
        // Guests report IPv6 addresses with a zone at times.
        let bare = ip.split('%').next().unwrap_or_default();
        bare.parse().ok().filter(|address| is_routable(*address)).map(|address: IpAddr| address.to_string())
    };
    let mut ip_addrs: Vec<String> = Vec::new();
    for address in nic.ips.iter().filter_map(counted) {
        if !ip_addrs.contains(&address) {
            ip_addrs.push(address);
        }
    }
    NetworkStatus {
        mac_addr: nic.mac.clone(),
        network_name: nic.network.clone(),
        connected: nic.connected,
        ip_addrs,
    }
}

/// Whether a device is said where its addresses come from.
pub fn has_source(device: &Device) -> bool {
    device.skip_ip_allocation || device.dhcp4 || device.dhcp6 || !device.ip_addrs.is_empty()
}

/// Whether a card reports all addresses that its device should have.
pub fn is_satisfied(device: &Device, card: &NetworkStatus) -> bool {
    if device.skip_ip_allocation {
        return true;
    }
    let reported: Vec<IpAddr> = card.ip_addrs.iter().filter_map(|ip| ip.parse().ok()).collect();
    let has_static = device
        .ip_addrs
        .iter()
        .all(|cidr| address_of(cidr).is_some_and(|address| reported.contains(&address)));
    has_static
        && (!device.dhcp4 || reported.iter().any(IpAddr::is_ipv4))
        && (!device.dhcp6 || reported.iter().any(IpAddr::is_ipv6))
}

/// Where a machine can be reached: each address of its devices once, then its name. None without an address.
pub fn reachable(cards: &[NetworkStatus], devices: usize, name: &str) -> Vec<Address> {
    let mut all: Vec<Address> = Vec::new();
    for ip in cards.iter().take(devices).flat_map(|card| &card.ip_addrs) {
        if !all.iter().any(|known| known.address == *ip) {
            all.push(Address { type_: "ExternalIP".into(), address: ip.clone() });
        }
    }
    if !all.is_empty() {
        all.push(Address { type_: "InternalDNS".into(), address: name.to_owned() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(yaml: &str) -> Device {
        serde_saphyr::from_str(&format!("{{networkName: n, {yaml}}}")).unwrap()
    }

    fn nic(ips: &[&str]) -> NetworkStatus {
        card(&Nic { ips: ips.iter().map(|&ip| ip.to_owned()).collect(), ..Nic::default() })
    }

    #[test]
    fn addresses_of_the_link_alone_do_not_count() {
        let ips = [
            "fe80::1",
            "fe80::2%eth0",
            "127.0.0.1",
            "::1",
            "169.254.1.1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "no address",
            "",
        ];
        assert_eq!(nic(&ips).ip_addrs, Vec::<String>::new());
        assert_eq!(nic(&["10.0.0.5", "10.0.0.5", "2001:DB8::1"]).ip_addrs, ["10.0.0.5", "2001:db8::1"]);
    }

    #[test]
    fn a_device_waits_for_each_kind_of_address_that_it_asks_for() {
        let check = |given: &str, ips: &[&str], satisfied: bool| {
            assert_eq!(is_satisfied(&device(given), &nic(ips)), satisfied, "{given} with {ips:?}");
        };
        check("dhcp4: true", &["10.0.0.5"], true);
        check("dhcp4: true", &["2001:db8::1"], false);
        check("dhcp6: true", &["2001:db8::1"], true);
        check("dhcp4: true, dhcp6: true", &["10.0.0.5"], false);
        check("dhcp4: true, dhcp6: true", &["10.0.0.5", "2001:db8::1"], true);
        check("ipAddrs: [10.0.0.11/24]", &["10.0.0.99"], false);
        check("ipAddrs: [10.0.0.11/24]", &["10.0.0.11"], true);
        check("ipAddrs: [10.0.0.11/24, '2001:DB8::11/64']", &["10.0.0.11", "2001:db8:0::11"], true);
        check("ipAddrs: [10.0.0.11/24], dhcp4: true", &["10.0.0.99"], false);
        check("dhcp4: true, skipIPAllocation: true", &[], true);
    }

    #[test]
    fn what_is_no_cidr_has_no_address() {
        for wrong in ["10.0.0.1", "10.0.0.1/33", "2001:db8::1/129", "10.0.0/24", "10.0.0.1/x", ""] {
            assert_eq!(address_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_machine_is_reached_by_each_address_once_and_not_by_those_of_other_cards() {
        let cards = [nic(&["10.0.0.5"]), nic(&["10.0.0.6", "10.0.0.5"]), nic(&["10.9.9.9"])];
        let all: Vec<_> =
            reachable(&cards, 2, "m-0").into_iter().map(|a| format!("{} {}", a.type_, a.address)).collect();
        assert_eq!(all, ["ExternalIP 10.0.0.5", "ExternalIP 10.0.0.6", "InternalDNS m-0"]);
        assert_eq!(reachable(&[nic(&[])], 1, "m-0"), []);
    }
}
