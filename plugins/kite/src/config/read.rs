//! Reads the configuration's texts: what cannot be used becomes the default and a problem.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{AllowedImages, Quota, RuntimeConfig, quantity};
use crate::names::{is_dns_label, is_dns_subdomain};

/// Grace before a namespace goes that nobody references.
const GRACE_SECONDS: u64 = 300;
/// Longest grace: a week.
const GRACE_SECONDS_MAX: u64 = 604_800;
/// Image where neither `allowedImages` nor `defaultVmImage` is set.
const IMAGE: &str = "ubuntu-22.04";

/// The configuration of a ConfigMap's data.
pub(super) fn config(data: &BTreeMap<String, String>) -> RuntimeConfig {
    let mut reader = Reader { data, problems: Vec::new() };
    let mut config = RuntimeConfig {
        base_domain: reader.text("baseDomain").map(str::to_owned),
        vm_storage_class: reader.optional("vmStorageClassName", "not a DNS subdomain", subdomain),
        golden_image_namespace: reader.or("goldenImageNamespace", "kite", "not a DNS label", label),
        allowed_images: images(&mut reader),
        check_golden_image: reader.bool("checkGoldenImage", true),
        orphan_grace: grace(&mut reader),
        reserved_namespaces: reader.list("reservedNamespaces", |entry| {
            is_dns_label(entry) || entry.strip_suffix('*').is_some_and(is_start_of_label)
        }),
        reserved_domain_prefixes: reader.list("reservedDomainPrefixes", is_dns_label),
        quota: quota(&mut reader),
        platform_namespace: reader.or("platformNamespace", "kite", "not a DNS label", label),
        cdi_namespace: reader.or("cdiNamespace", "cdi", "not a DNS label", label),
        api_server_cidr: reader.optional("apiServerCIDR", "not an address range", cidr),
        ingress_class: reader.or("ingressClassName", "traefik", "not a DNS subdomain", subdomain),
        ingress_tls_secret: reader.optional("ingressTLSSecretName", "not a DNS subdomain", subdomain),
        guest_ssh_password_auth: reader.bool("guestSSHPasswordAuth", true),
        problems: Vec::new(),
    };
    config.problems = reader.problems;
    config.problems.sort();
    config
}

struct Reader<'d> {
    data: &'d BTreeMap<String, String>,
    problems: Vec<String>,
}

impl<'d> Reader<'d> {
    /// A value without the space around it; a blank one is none.
    fn text(&self, key: &str) -> Option<&'d str> {
        self.data.get(key).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The value, never quoted: it may be anything, and events are read by others.
    fn optional<T>(&mut self, key: &str, wrong: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let value = parse(self.text(key)?);
        if value.is_none() {
            self.problems.push(format!("{key}: {wrong}"));
        }
        value
    }

    fn or(
        &mut self,
        key: &str,
        default: &str,
        wrong: &str,
        parse: impl Fn(&str) -> Option<String>,
    ) -> String {
        self.optional(key, wrong, parse).unwrap_or_else(|| default.to_owned())
    }

    fn bool(&mut self, key: &str, default: bool) -> bool {
        let parse = |text: &str| match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        self.optional(key, "neither true nor false", parse).unwrap_or(default)
    }

    /// A comma list without those entries that cannot be used.
    fn list(&mut self, key: &str, good: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = self.text(key).unwrap_or_default().split(',').map(str::trim);
        let (good, bad): (Vec<_>, Vec<_>) =
            entries.filter(|entry| !entry.is_empty()).partition(|entry| good(entry));
        if !bad.is_empty() {
            self.problems.push(format!("{key}: {} of its entries", bad.len()));
        }
        good.into_iter().map(str::to_owned).collect()
    }
}

fn images(reader: &mut Reader<'_>) -> AllowedImages {
    if reader.text("allowedImages") == Some("*") {
        return AllowedImages::Any;
    }
    let named = reader.list("allowedImages", is_dns_subdomain);
    if named.is_empty() {
        let image = reader.or("defaultVmImage", IMAGE, "not a DNS subdomain", subdomain);
        return AllowedImages::Named(vec![image]);
    }
    AllowedImages::Named(named)
}

fn grace(reader: &mut Reader<'_>) -> Duration {
    let parse = |text: &str| text.parse().ok().filter(|seconds| *seconds <= GRACE_SECONDS_MAX);
    let seconds = reader.optional("orphanNamespaceGraceSeconds", "not a number from 0 to 604800", parse);
    Duration::from_secs(seconds.unwrap_or(GRACE_SECONDS))
}

fn quota(reader: &mut Reader<'_>) -> Option<Quota> {
    let quota = Quota {
        requests_cpu: reader.or("quotaRequestsCpu", "6", "not a quantity", quantity::canonical),
        requests_memory: reader.or("quotaRequestsMemory", "16Gi", "not a quantity", quantity::canonical),
        persistent_volume_claims: reader.or("quotaPersistentVolumeClaims", "10", "not a number", count),
        virtual_machines: reader.or("quotaVirtualMachines", "3", "not a number", count),
    };
    reader.bool("quotaEnabled", true).then_some(quota)
}

/// A star alone would reserve every name there is.
fn is_start_of_label(text: &str) -> bool {
    !text.is_empty() && is_dns_label(&format!("{text}x"))
}

fn label(text: &str) -> Option<String> {
    is_dns_label(text).then(|| text.to_owned())
}

fn subdomain(text: &str) -> Option<String> {
    is_dns_subdomain(text).then(|| text.to_owned())
}

/// A number that the API server stores as it is written: it would turn `007` into `7`, and each pass would differ.
fn count(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then(|| text.to_owned())
}

fn cidr(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then(|| text.to_owned())
}
