use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use super::*;

fn check(data: &str, expected: Expect) {
    let data: BTreeMap<String, String> = serde_saphyr::from_str(data).unwrap();
    let (config, default) = (RuntimeConfig::parse(&data), RuntimeConfig::default());
    let (config, default) = (format!("{config:#?}"), format!("{default:#?}"));
    // What differs from the defaults, line by line.
    let default: Vec<_> = default.lines().collect();
    let lines: Vec<_> = config.lines().filter(|line| !default.contains(line)).map(str::trim).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn without_a_config_map_the_defaults_hold() {
    expect![[r#"
        RuntimeConfig {
            base_domain: None,
            vm_storage_class: None,
            golden_image_namespace: "kite",
            allowed_images: Named(
                [
                    "ubuntu-22.04",
                ],
            ),
            check_golden_image: true,
            orphan_grace: 300s,
            reserved_namespaces: [],
            reserved_domain_prefixes: [],
            quota: Some(
                Quota {
                    requests_cpu: "6",
                    requests_memory: "16Gi",
                    persistent_volume_claims: "10",
                    virtual_machines: "3",
                },
            ),
            platform_namespace: "kite",
            cdi_namespace: "cdi",
            api_server_cidr: None,
            ingress_class: "traefik",
            ingress_tls_secret: None,
            guest_ssh_password_auth: true,
            problems: [],
        }
    "#]]
    .assert_debug_eq(&RuntimeConfig::default());
}

#[test]
fn every_key_can_be_set() {
    check(
        r#"{baseDomain: " .Example.test. ", vmStorageClassName: fast, goldenImageNamespace: images, allowedImages: "a, b.c",
           checkGoldenImage: "false", orphanNamespaceGraceSeconds: "0", reservedNamespaces: "ops, sys-*",
           reservedDomainPrefixes: mail, quotaRequestsCpu: 500m, quotaRequestsMemory: 1.5Gi,
           quotaPersistentVolumeClaims: "1", quotaVirtualMachines: "2", platformNamespace: platform,
           cdiNamespace: disks, apiServerCIDR: 10.43.0.1/32, ingressClassName: nginx, ingressTLSSecretName: tls,
           guestSSHPasswordAuth: "False"}"#,
        expect![[r#"
            base_domain: Some(
            ".Example.test.",
            vm_storage_class: Some(
            "fast",
            golden_image_namespace: "images",
            "a",
            "b.c",
            check_golden_image: false,
            orphan_grace: 0ns,
            reserved_namespaces: [
            "ops",
            "sys-*",
            ],
            reserved_domain_prefixes: [
            "mail",
            ],
            requests_cpu: "500m",
            requests_memory: "1536Mi",
            persistent_volume_claims: "1",
            virtual_machines: "2",
            platform_namespace: "platform",
            cdi_namespace: "disks",
            api_server_cidr: Some(
            "10.43.0.1/32",
            ingress_class: "nginx",
            ingress_tls_secret: Some(
            "tls",
            guest_ssh_password_auth: false,"#]],
    );
}

#[test]
fn blank_values_are_the_defaults_without_a_complaint() {
    check(
        r#"{baseDomain: " ", vmStorageClassName: "", quotaEnabled: "  ", allowedImages: ","}"#,
        expect![[""]],
    );
}

#[test]
fn what_cannot_be_used_is_the_default_and_named() {
    check(
        r#"{vmStorageClassName: "A b", goldenImageNamespace: a.b, allowedImages: "ok, NO, x y", checkGoldenImage: "yes",
           orphanNamespaceGraceSeconds: "604801", reservedNamespaces: "*, kube_, fine", quotaEnabled: "1",
           quotaRequestsCpu: "1e9", quotaRequestsMemory: 4gi, quotaPersistentVolumeClaims: "-1",
           quotaVirtualMachines: "007", apiServerCIDR: 10.0.0.0/33, ingressClassName: "a\nb"}"#,
        expect![[r#"
            "ok",
            reserved_namespaces: [
            "fine",
            ],
            problems: [
            "allowedImages: 2 of its entries",
            "apiServerCIDR: not an address range",
            "checkGoldenImage: neither true nor false",
            "goldenImageNamespace: not a DNS label",
            "ingressClassName: not a DNS subdomain",
            "orphanNamespaceGraceSeconds: not a number from 0 to 604800",
            "quotaEnabled: neither true nor false",
            "quotaPersistentVolumeClaims: not a number",
            "quotaRequestsCpu: not a quantity",
            "quotaRequestsMemory: not a quantity",
            "quotaVirtualMachines: not a number",
            "reservedNamespaces: 2 of its entries",
            "vmStorageClassName: not a DNS subdomain",
            ],"#]],
    );
}

#[test]
fn the_quota_can_be_off() {
    assert_eq!(RuntimeConfig::parse(&BTreeMap::from([("quotaEnabled".into(), "false".into())])).quota, None);
}

#[test]
fn a_star_at_the_end_reserves_every_name_that_begins_so() {
    let data = BTreeMap::from([
        ("reservedNamespaces".into(), "ops,sys-*".into()),
        ("cdiNamespace".into(), "disks".into()),
    ]);
    let config = RuntimeConfig::parse(&data);
    let reserved = ["ops", "sys-x", "disks", "kite", "kube-system", "ops-a", "sy", "tenant-a"];
    let reserved: Vec<_> = reserved.into_iter().filter(|name| config.is_reserved_namespace(name)).collect();
    assert_eq!(reserved, ["ops", "sys-x", "disks", "kite", "kube-system"]);
}

#[test]
fn a_star_alone_allows_every_image() {
    let config = RuntimeConfig::parse(&BTreeMap::from([("allowedImages".into(), " * ".into())]));
    assert!(config.allows_image("anything"));
    assert!(!RuntimeConfig::default().allows_image("anything"));
}
