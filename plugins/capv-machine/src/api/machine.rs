//! `VSphereMachine`: a machine of a cluster, as a VM on a vCenter.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Network, VSphereMachineStatus};

/// The machine wanted. All but `bootstrapRef`, `powerOffMode`, `guestSoftPowerOffTimeoutSeconds` and `network.devices` is
/// immutable: another machine is another object.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.reconcilers.dev",
    version = "v1alpha1",
    kind = "VSphereMachine",
    plural = "vspheremachines",
    singular = "vspheremachine",
    shortname = "vsm",
    namespaced,
    status = "VSphereMachineStatus",
    doc = "A machine of a cluster, as a virtual machine on a vCenter.",
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "REASON", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"VirtualMachineProvisioned\")].reason"}"#,
    printcolumn = r#"{"name": "VM", "type": "string", "jsonPath": ".status.machineRef"}"#,
    printcolumn = r#"{"name": "POWER", "type": "string", "jsonPath": ".status.powerState"}"#,
    printcolumn = r#"{"name": "ADDRESS", "type": "string", "jsonPath": ".status.addresses[0].address"}"#,
    printcolumn = r#"{"name": "TASK", "type": "string", "priority": 1, "jsonPath": ".status.task.operation"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct VSphereMachineSpec {
    /// The vCenter, by its name in the host's configuration.
    #[schemars(length(min = 1, max = 253))]
    pub server: String,
    /// What to clone: a template's or VM's inventory path, its name in the datacenter, or its instance UUID.
    #[schemars(length(min = 1, max = 1024))]
    pub template: String,
    /// How to clone; `linkedClone` where absent, which falls back to a full clone of a template without a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_mode: Option<CloneMode>,
    /// The template's snapshot that a linked clone hangs on; its current one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub snapshot: Option<String>,
    /// Inventory path of the datacenter.
    #[schemars(length(min = 1, max = 1024))]
    pub datacenter: String,
    /// Datastore, by path or name; the only one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub datastore: Option<String>,
    /// Folder of the VM, by path or name; the datacenter's VM folder where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub folder: Option<String>,
    /// Resource pool, by path or name; the only one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub resource_pool: Option<String>,
    /// Virtual processors. Absent or 0 is 2, and fewer than 2 are raised to 2.
    #[serde(default, rename = "numCPUs", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 768))]
    pub num_cpus: Option<i32>,
    /// Processors of one socket; vCenter decides where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 768))]
    pub num_cores_per_socket: Option<i32>,
    /// Memory in MiB. Absent or 0 is 2048.
    #[serde(default, rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 25_165_824))]
    pub memory_mib: Option<i64>,
    /// Size of the first disk in GiB; absent or 0 keeps the template's. No smaller than the template's, and without
    /// effect on a linked clone.
    #[serde(default, rename = "diskGiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63_488))]
    pub disk_gib: Option<i64>,
    /// More pairs for the VM's extraConfig, set when it is cloned. Keys that begin with `guestinfo.` or `reconcilers.`
    /// are refused.
    #[serde(default, rename = "customVMXKeys", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub custom_vmx_keys: BTreeMap<String, String>,
    /// The Secret with the data of the first boot: key `value`, and `format` (`cloud-config`, the default, or
    /// `ignition`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_ref: Option<BootstrapRef>,
    /// The network cards.
    pub network: Network,
    /// How a VM is switched off before it is destroyed; `hard` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off_mode: Option<PowerOffMode>,
    /// How long `trySoft` waits for the guest to shut down; 300 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub guest_soft_power_off_timeout_seconds: Option<i32>,
    /// `vsphere://` and the VM's BIOS UUID. Written by the controller, once.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^vsphere://[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))]
    pub provider_id: Option<String>,
}

/// How to clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum CloneMode {
    /// All of the template's disks are copied.
    FullClone,
    /// New disks hang on the template's snapshot.
    LinkedClone,
}

/// How a VM is switched off before it is destroyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum PowerOffMode {
    /// At once.
    #[default]
    Hard,
    /// By its guest alone; waits for it as long as it takes.
    Soft,
    /// By its guest, and at once when that takes too long or cannot be.
    TrySoft,
}

/// A Secret of the machine's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct BootstrapRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Fields that stay as they were created, by their names in the schema.
const IMMUTABLE: &[&str] = &[
    "server",
    "template",
    "cloneMode",
    "snapshot",
    "datacenter",
    "datastore",
    "folder",
    "resourcePool",
    "numCPUs",
    "numCoresPerSocket",
    "memoryMiB",
    "diskGiB",
    "customVMXKeys",
];

fn rules() -> Value {
    let immutable = IMMUTABLE.iter().map(|field| {
        let rule = format!(
            "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
        );
        json!({"rule": rule, "message": format!("{field} is immutable: create another machine")})
    });
    let others = [
        (
            "has(self.network.routes) == has(oldSelf.network.routes) && (!has(self.network.routes) || self.network.routes == oldSelf.network.routes)",
            "network.routes is immutable: create another machine, or use the routes of a device",
        ),
        (
            "!has(oldSelf.providerID) || !has(self.providerID) || self.providerID == oldSelf.providerID",
            "providerID is written once",
        ),
        (
            "!has(self.guestSoftPowerOffTimeoutSeconds) || (has(self.powerOffMode) && self.powerOffMode == 'trySoft')",
            "guestSoftPowerOffTimeoutSeconds is for powerOffMode trySoft only",
        ),
        (
            "!has(self.snapshot) || !has(self.cloneMode) || self.cloneMode == 'linkedClone'",
            "snapshot is for cloneMode linkedClone only",
        ),
        (
            "!has(self.customVMXKeys) || self.customVMXKeys.all(key, !key.startsWith('guestinfo.') && !key.startsWith('reconcilers.'))",
            "customVMXKeys may not begin with guestinfo. or reconcilers.",
        ),
    ];
    let others = others.map(|(rule, message)| json!({"rule": rule, "message": message}));
    Value::Array(immutable.chain(others).collect())
}
