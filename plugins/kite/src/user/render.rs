//! The objects of a user's namespace.

use serde_json::{Value, json};

use crate::config::{Quota, RuntimeConfig};
use crate::names;

/// The namespace as it is created: with a note for whom.
pub(super) fn new_namespace(name: &str, user: &str, uid: &str) -> Value {
    let mut namespace = namespace_labels(name);
    namespace["metadata"]["annotations"] = json!({ names::CREATED_FOR: format!("{user}/{uid}") });
    namespace
}

/// The labels of a namespace that exists.
pub(super) fn namespace_labels(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": { names::NAME_LABEL: name, names::MANAGED_BY_LABEL: names::MANAGED_BY },
        },
    })
}

/// The patch of a namespace that is referenced again.
pub(super) fn not_orphaned() -> Value {
    json!({ "metadata": { "annotations": { names::ORPHANED_SINCE: null } } })
}

/// Who may reach the tenant's pods: the tenant, the platform, CDI, and anybody on SSH and HTTP.
pub(super) fn ingress_policy(namespace: &str, config: &RuntimeConfig) -> Value {
    let from_anywhere = |port: u16| {
        json!({
            "from": [{ "ipBlock": { "cidr": "0.0.0.0/0" } }],
            "ports": [{ "protocol": "TCP", "port": port }],
        })
    };
    let spec = json!({
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [
            { "from": [
                { "podSelector": {} },
                in_namespace(&config.platform_namespace),
                in_namespace(&config.cdi_namespace),
            ] },
            from_anywhere(22),
            from_anywhere(80),
        ],
    });
    policy(namespace, names::INGRESS_POLICY, spec)
}

/// What the tenant's pods may reach: the tenant, the platform, CDI, cluster DNS, and the internet, but no private or
/// link-local address. IPv6 stays closed.
pub(super) fn egress_policy(namespace: &str, config: &RuntimeConfig) -> Value {
    let mut dns = in_namespace("kube-system");
    // One peer with both selectors: this pod in that namespace.
    dns["podSelector"] = json!({ "matchLabels": { "k8s-app": "kube-dns" } });
    let mut egress = vec![
        json!({ "to": [{ "podSelector": {} }] }),
        json!({ "to": [in_namespace(&config.platform_namespace)] }),
        json!({ "to": [in_namespace(&config.cdi_namespace)] }),
        json!({
            "to": [dns],
            "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }],
        }),
    ];
    if let Some(cidr) = &config.api_server_cidr {
        egress.push(json!({
            "to": [{ "ipBlock": { "cidr": cidr } }],
            "ports": [{ "protocol": "TCP", "port": 443 }],
        }));
    }
    egress.push(json!({ "to": [{ "ipBlock": {
        "cidr": "0.0.0.0/0",
        "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"],
    } }] }));
    policy(
        namespace,
        names::EGRESS_POLICY,
        json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": egress }),
    )
}

/// How much the tenant may have.
pub(super) fn quota(namespace: &str, quota: &Quota) -> Value {
    let Quota { requests_cpu, requests_memory, persistent_volume_claims, virtual_machines } = quota;
    let spec = json!({ "hard": {
        "requests.cpu": requests_cpu,
        "requests.memory": requests_memory,
        "persistentvolumeclaims": persistent_volume_claims,
        "count/virtualmachines.kubevirt.io": virtual_machines,
    } });
    tenant_object("v1", "ResourceQuota", namespace, names::QUOTA, spec)
}

fn policy(namespace: &str, name: &str, spec: Value) -> Value {
    tenant_object("networking.k8s.io/v1", "NetworkPolicy", namespace, name, spec)
}

fn tenant_object(api_version: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { names::MANAGED_BY_LABEL: names::MANAGED_BY },
        },
        "spec": spec,
    })
}

fn in_namespace(name: &str) -> Value {
    json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } })
}
