//! The host name of a machine, if it can have one. A bad prefix costs the domain, never the machine.

use evenkeel_sdk::view;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::api::KiteVirtualMachine;
use crate::config::RuntimeConfig;
use crate::names::{is_dns_label, is_dns_subdomain};

/// The condition that tells of it.
pub const CONDITION: &str = "DomainReady";

/// What becomes of a domain prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// None is wanted.
    None,
    /// This host name.
    Host(String),
    /// None, for this reason.
    Refused(&'static str, String),
}

impl Domain {
    /// The host name.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Host(host) => Some(host),
            Self::None | Self::Refused(..) => None,
        }
    }
}

/// A machine that claims a prefix, with its age.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claimant {
    metadata: ObjectMeta,
}
view!(Claimant as KiteVirtualMachine: "/metadata/creationTimestamp", "/metadata/deletionTimestamp", "/spec/domainPrefix");

/// The host name that a prefix asks for, as far as the machine alone and the configuration tell. Whether somebody else
/// has it is left to [`settle`].
pub fn wanted(prefix: Option<&str>, config: &RuntimeConfig) -> Domain {
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else { return Domain::None };
    if !is_dns_label(prefix) {
        let message = "spec.domainPrefix must be one DNS label of lower case letters, digits and dashes";
        return Domain::Refused("InvalidDomainPrefix", message.to_owned());
    }
    if config.is_reserved_domain_prefix(prefix) {
        return Domain::Refused(
            "ReservedDomainPrefix",
            format!("the prefix {prefix} belongs to the platform"),
        );
    }
    let base = config.base_domain.as_deref().unwrap_or_default().to_ascii_lowercase();
    if base.trim().is_empty() {
        let message = "baseDomain is not set in the platform's configuration";
        return Domain::Refused("BaseDomainNotConfigured", message.to_owned());
    }
    let host = format!("{prefix}.{}", base.trim_matches([' ', '.']));
    if !is_dns_subdomain(&host) {
        let message = "baseDomain of the platform's configuration is no domain name, or too long";
        return Domain::Refused("InvalidBaseDomain", message.to_owned());
    }
    Domain::Host(host)
}

/// Whether the machine may have the host name that it wants: the oldest that claims a prefix has it. The message names
/// the prefix and not the other tenant.
pub fn settle(wanted: Domain, machine: &KiteVirtualMachine, claimants: &[Claimant]) -> Domain {
    let Domain::Host(_) = wanted else { return wanted };
    let own = seniority(&machine.metadata);
    let is_taken = claimants
        .iter()
        .map(|claimant| &claimant.metadata)
        .filter(|other| other.uid != machine.metadata.uid && other.deletion_timestamp.is_none())
        .any(|other| seniority(other) < own);
    if !is_taken {
        return wanted;
    }
    let prefix = machine.spec.domain_prefix.as_deref().unwrap_or_default();
    Domain::Refused("DomainConflict", format!("another machine has the prefix {prefix} already"))
}

/// What decides between machines: age, then place.
fn seniority(metadata: &ObjectMeta) -> impl Ord {
    (
        metadata.creation_timestamp.as_ref().map(|time| time.0),
        metadata.namespace.clone(),
        metadata.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};

    use super::*;

    fn check(prefix: &str, config: &str, expected: Expect) {
        let data: BTreeMap<String, String> = serde_saphyr::from_str(config).unwrap();
        expected.assert_eq(&text(wanted(Some(prefix), &RuntimeConfig::parse(&data))));
    }

    fn text(domain: Domain) -> String {
        match domain {
            Domain::None => "none".to_owned(),
            Domain::Host(host) => host,
            Domain::Refused(reason, message) => format!("{reason}: {message}"),
        }
    }

    const CONFIG: &str = "baseDomain: example.test";

    #[test]
    fn no_prefix_is_no_domain() {
        assert_eq!(wanted(None, &RuntimeConfig::default()), Domain::None);
        check("", CONFIG, expect!["none"]);
    }

    #[test]
    fn a_prefix_goes_before_the_base() {
        check("app", CONFIG, expect!["app.example.test"]);
        check("app", "baseDomain: ' .Example.test. '", expect!["app.example.test"]);
    }

    #[test]
    fn a_prefix_that_is_no_label_is_invalid() {
        for prefix in ["a.b", "...", "-x", "App", " app", "a\nb"] {
            check(
                prefix,
                CONFIG,
                expect![
                    "InvalidDomainPrefix: spec.domainPrefix must be one DNS label of lower case letters, digits and dashes"
                ],
            );
        }
    }

    #[test]
    fn the_platform_keeps_its_prefixes() {
        check("www", CONFIG, expect!["ReservedDomainPrefix: the prefix www belongs to the platform"]);
        check(
            "shop",
            "{baseDomain: example.test, reservedDomainPrefixes: 'shop, x'}",
            expect!["ReservedDomainPrefix: the prefix shop belongs to the platform"],
        );
    }

    #[test]
    fn without_a_base_there_is_no_domain() {
        for config in ["{}", "baseDomain: ' '"] {
            check(
                "app",
                config,
                expect!["BaseDomainNotConfigured: baseDomain is not set in the platform's configuration"],
            );
        }
    }

    #[test]
    fn a_base_that_is_no_domain_name_is_told() {
        let long = format!("baseDomain: {}", vec!["a".repeat(63); 4].join("."));
        for config in ["baseDomain: 'exa mple'", "baseDomain: '...'", "baseDomain: a_b", &long] {
            check(
                "app",
                config,
                expect![
                    "InvalidBaseDomain: baseDomain of the platform's configuration is no domain name, or too long"
                ],
            );
        }
    }

    /// The machine is `tenant-a/vm-a` of noon.
    fn check_claims(claimants: &str, expected: Expect) {
        let machine = "{metadata: {namespace: tenant-a, name: vm-a, uid: U1, creationTimestamp: 2026-01-01T12:00:00Z}, spec: {domainPrefix: app}}";
        let machine: serde_json::Value = serde_saphyr::from_str(machine).unwrap();
        let machine: KiteVirtualMachine = serde_json::from_value(serde_json::json!({
            "apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
            "metadata": machine["metadata"], "spec": machine["spec"],
        }))
        .unwrap();
        let claimants: Vec<Claimant> = serde_saphyr::from_str(claimants).unwrap();
        expected.assert_eq(&text(settle(Domain::Host("app.example.test".into()), &machine, &claimants)));
    }

    #[test]
    fn the_oldest_has_the_prefix() {
        check_claims(
            "[{metadata: {namespace: tenant-b, name: vm-z, uid: U2, creationTimestamp: 2026-01-01T11:00:00Z}}]",
            expect!["DomainConflict: another machine has the prefix app already"],
        );
        check_claims(
            "[{metadata: {namespace: tenant-b, name: vm-z, uid: U2, creationTimestamp: 2026-01-01T13:00:00Z}}]",
            expect!["app.example.test"],
        );
    }

    #[test]
    fn the_place_decides_between_machines_of_one_age() {
        check_claims(
            "[{metadata: {namespace: tenant-0, name: vm-z, uid: U2, creationTimestamp: 2026-01-01T12:00:00Z}}]",
            expect!["DomainConflict: another machine has the prefix app already"],
        );
        check_claims(
            "[{metadata: {namespace: tenant-b, name: vm-a, uid: U2, creationTimestamp: 2026-01-01T12:00:00Z}}]",
            expect!["app.example.test"],
        );
    }

    #[test]
    fn a_machine_that_goes_and_the_machine_itself_claim_nothing() {
        check_claims(
            "[{metadata: {namespace: tenant-b, name: vm-z, uid: U2, creationTimestamp: 2026-01-01T11:00:00Z, deletionTimestamp: 2026-01-01T11:30:00Z}}, {metadata: {namespace: tenant-a, name: vm-a, uid: U1, creationTimestamp: 2026-01-01T12:00:00Z}}]",
            expect!["app.example.test"],
        );
    }
}
