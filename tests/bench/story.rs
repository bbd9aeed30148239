//! The objects of the benchmarks: a platform as Kite's samples assume it, its users and their machines.

use serde_json::{Value, json};

/// The platform.
pub fn platform() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kite-runtime-config", "namespace": "kite"},
            "data": {"baseDomain": "example.test"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "ubuntu-22.04", "namespace": "kite"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}}),
    ]
}

/// The n-th user.
pub fn user(index: usize) -> Value {
    json!({"apiVersion": "anacnu.com/v1", "kind": "KiteUser", "metadata": {"name": user_name(index)},
        "spec": {"username": format!("user {index}"), "namespace": namespace(index), "access_level": 1}})
}

/// The n-th user's name.
pub fn user_name(index: usize) -> String {
    format!("user-{index}")
}

/// The n-th user's namespace.
pub fn namespace(index: usize) -> String {
    format!("tenant-{index}")
}

/// The n-th user's machine.
pub fn machine(index: usize) -> Value {
    json!({"apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
        "metadata": {"name": "web", "namespace": namespace(index)},
        "spec": {"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "powerState": "On", "sshId": "ann",
            "sshAuthorizedKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFh0bWzBv0bgBq0vG1S5y4Yp0tq3nqv1pQp5bL8l0e3n a"]}})
}
