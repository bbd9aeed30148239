//! cloud-init's metadata of a VM: what its guest is told about its name and its network.
//!
//! It is compared as data: another order of keys, or other software that writes it, changes no VM.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod codec;
mod render;

#[cfg(test)]
mod tests;

pub use codec::{BASE64, encoded, of_vm, packed};
pub use render::{device_name, render};

/// The document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Document {
    /// The machine's name.
    pub instance_id: String,
    /// The guest's host name.
    pub local_hostname: String,
    /// What the guest waits for at boot.
    #[serde(default)]
    pub wait_on_network: WaitOnNetwork,
    /// The network, as netplan has it.
    pub network: NetworkConfig,
}

/// Which kinds of addresses the guest waits for at boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WaitOnNetwork {
    /// For an IPv4 address.
    pub ipv4: bool,
    /// For an IPv6 address.
    pub ipv6: bool,
}

/// Netplan's configuration, version 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// Always 2.
    pub version: u8,
    /// The cards as `id0`, `id1`, … There are ten at most, so that they are in order.
    #[serde(default)]
    pub ethernets: BTreeMap<String, Ethernet>,
}

/// One card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Ethernet {
    /// Which card is meant.
    #[serde(rename = "match")]
    pub matches: Match,
    /// What it is called from then on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub set_name: String,
    /// Whether it may wake the machine.
    pub wakeonlan: bool,
    /// DHCP for IPv4; said in any case, since what its absence means changed with cloud-init's age.
    pub dhcp4: bool,
    /// DHCP for IPv6.
    pub dhcp6: bool,
    /// Whether router advertisements count.
    pub accept_ra: bool,
    /// What is taken over from DHCP for IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp4_overrides: Option<Overrides>,
    /// What is taken over from DHCP for IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp6_overrides: Option<Overrides>,
    /// Static addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Gateway for IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway4: Option<String>,
    /// Gateway for IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway6: Option<String>,
    /// Longest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Routes of the card, then those of the whole machine: cloud-init refuses a document that has them elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Name servers.
    #[serde(skip_serializing_if = "Nameservers::is_empty")]
    pub nameservers: Nameservers,
}

/// Which card is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// By its MAC address, in lower case.
    pub macaddress: String,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Where to.
    pub to: String,
    /// The gateway.
    pub via: String,
    /// Its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<i32>,
}

/// Name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nameservers {
    /// Their addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Domains that host names are looked up in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
}

impl Nameservers {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.search.is_empty()
    }
}

/// What is taken over from DHCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Overrides {
    /// The host name that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Metric of the routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route_metric: Option<i32>,
    /// Whether a host name is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_hostname: Option<bool>,
    /// Whether name servers are taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_dns: Option<bool>,
    /// Whether domains are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_domains: Option<UseDomains>,
    /// Whether the host name is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_hostname: Option<bool>,
    /// Whether the longest packet is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_mtu: Option<bool>,
    /// Whether time servers are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_ntp: Option<bool>,
    /// Whether routes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_routes: Option<bool>,
}

/// Whether domains are taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UseDomains {
    /// Yes or no.
    All(bool),
    /// `route`: for routing only.
    Some(String),
}

impl Document {
    /// Whether a guest is told the same: MAC addresses and IPv6 addresses count in any case of their letters.
    pub fn tells_as(&self, other: &Self) -> bool {
        self.folded() == other.folded()
    }

    fn folded(&self) -> Self {
        let mut folded = self.clone();
        for ethernet in folded.network.ethernets.values_mut() {
            let gateways = [&mut ethernet.gateway4, &mut ethernet.gateway6].into_iter().flatten();
            let routes = ethernet.routes.iter_mut().flat_map(|route| [&mut route.to, &mut route.via]);
            let words = ethernet.addresses.iter_mut().chain(&mut ethernet.nameservers.addresses);
            for word in words.chain(gateways).chain(routes).chain([&mut ethernet.matches.macaddress]) {
                word.make_ascii_lowercase();
            }
        }
        folded
    }
}
