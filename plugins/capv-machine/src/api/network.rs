//! The network cards of a machine, and what the guest is told of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The network cards, and routes of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Network {
    /// The cards, in the VM's order.
    #[schemars(length(min = 1, max = 10))]
    pub devices: Vec<Device>,
    /// Routes of every card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub routes: Vec<Route>,
}

/// One card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Device {
    /// The network, by inventory path or name.
    #[schemars(length(min = 1, max = 1024))]
    pub network_name: String,
    /// What the guest calls it; `eth0` for the first card, and so on, where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-zA-Z0-9._-]{1,15}$"))]
    pub device_name: Option<String>,
    /// Whether it gets an IPv4 address by DHCP.
    #[serde(default)]
    pub dhcp4: bool,
    /// Whether it gets an IPv6 address by DHCP.
    #[serde(default)]
    pub dhcp6: bool,
    /// What it takes over from DHCP for IPv4.
    #[serde(default, rename = "dhcp4Overrides", skip_serializing_if = "Option::is_none")]
    pub dhcp4_overrides: Option<DhcpOverrides>,
    /// What it takes over from DHCP for IPv6.
    #[serde(default, rename = "dhcp6Overrides", skip_serializing_if = "Option::is_none")]
    pub dhcp6_overrides: Option<DhcpOverrides>,
    /// Its static addresses, each with the length of its prefix, as in `10.0.0.11/24`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(regex(pattern = r"^[0-9a-fA-F:.]{2,45}/[0-9]{1,3}$")))]
    pub ip_addrs: Vec<String>,
    /// Gateway for IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub gateway4: Option<String>,
    /// Gateway for IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub gateway6: Option<String>,
    /// Longest packet in bytes; absent or 0 leaves it to the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65_535))]
    pub mtu: Option<i32>,
    /// Its MAC address; vCenter chooses one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5})?$"))]
    pub mac_addr: Option<String>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 45)))]
    pub nameservers: Vec<String>,
    /// Domains that host names are looked up in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 253)))]
    pub search_domains: Vec<String>,
    /// Routes of this card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub routes: Vec<Route>,
    /// Whether the machine is ready without an address here.
    #[serde(default, rename = "skipIPAllocation")]
    pub skip_ip_allocation: bool,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Route {
    /// Where to, as in `10.1.0.0/16`, or `default`.
    #[schemars(length(min = 1, max = 49))]
    pub to: String,
    /// The gateway.
    #[schemars(length(min = 1, max = 45))]
    pub via: String,
    /// Of several ways the one with the lowest metric is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub metric: Option<i32>,
}

/// What a card takes over from DHCP; what is absent is left to the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct DhcpOverrides {
    /// The host name that is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
    /// Metric of the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub route_metric: Option<i32>,
    /// Whether a host name is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_hostname: Option<bool>,
    /// Whether name servers are taken over.
    #[serde(default, rename = "useDNS", skip_serializing_if = "Option::is_none")]
    pub use_dns: Option<bool>,
    /// Whether domains are: `true`, `false` or `route`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["true", "false", "route"]))]
    pub use_domains: Option<String>,
    /// Whether the host name is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_hostname: Option<bool>,
    /// Whether the longest packet is.
    #[serde(default, rename = "useMTU", skip_serializing_if = "Option::is_none")]
    pub use_mtu: Option<bool>,
    /// Whether time servers are.
    #[serde(default, rename = "useNTP", skip_serializing_if = "Option::is_none")]
    pub use_ntp: Option<bool>,
    /// Whether routes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_routes: Option<bool>,
}
