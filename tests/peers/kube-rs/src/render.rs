//! The objects of a user's namespace.

use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const FINALIZER: &str = "kite.anacnu.com/kite-user-cleanup";
pub const MANAGED_BY: &str = "kite.anacnu.com/managed-by";
pub const OURS: &str = "kite-controller";
pub const MANAGED_SELECTOR: &str = "kite.anacnu.com/managed-by=kite-controller";
pub const INGRESS_POLICY: &str = "deny-from-other-namespaces";
pub const EGRESS_POLICY: &str = "tenant-isolation-egress";
pub const QUOTA: &str = "kite-user-quota-policy";

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("it has the form of its kind")
}

fn metadata(namespace: &str, name: &str) -> Value {
    json!({"namespace": namespace, "name": name, "labels": {MANAGED_BY: OURS}})
}

fn in_namespace(name: &str) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}})
}

pub fn namespace(name: &str, user: &str, uid: &str) -> Namespace {
    typed(json!({"metadata": {
        "name": name,
        "labels": {"name": name, MANAGED_BY: OURS},
        "annotations": {"kite.anacnu.com/created-for": format!("{user}/{uid}")},
    }}))
}

pub fn ingress(namespace: &str) -> NetworkPolicy {
    let open = |port: u16| json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"protocol": "TCP", "port": port}]});
    typed(json!({"metadata": metadata(namespace, INGRESS_POLICY), "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}, in_namespace("kite"), in_namespace("cdi")]}, open(22), open(80)],
    }}))
}

pub fn egress(namespace: &str) -> NetworkPolicy {
    let mut dns = in_namespace("kube-system");
    dns["podSelector"] = json!({"matchLabels": {"k8s-app": "kube-dns"}});
    let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"];
    typed(json!({"metadata": metadata(namespace, EGRESS_POLICY), "spec": {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [
            {"to": [{"podSelector": {}}]},
            {"to": [in_namespace("kite")]},
            {"to": [in_namespace("cdi")]},
            {"to": [dns], "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
            {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": private}}]},
        ],
    }}))
}

pub fn quota(namespace: &str) -> ResourceQuota {
    typed(json!({"metadata": metadata(namespace, QUOTA), "spec": {"hard": {
        "requests.cpu": "6",
        "requests.memory": "16Gi",
        "persistentvolumeclaims": "10",
        "count/virtualmachines.kubevirt.io": "3",
    }}}))
}
