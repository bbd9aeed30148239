//! `KiteVirtualMachine`: a virtual machine as its user describes it.

use evenkeel_sdk::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hidden::Hidden;

/// The machine wanted. Cpu, memory, image, disk and sshId are needed; what is missing or wrong shows in the status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "anacnu.com",
    version = "v1",
    kind = "KiteVirtualMachine",
    plural = "kitevirtualmachines",
    singular = "kitevirtualmachine",
    shortname = "ktvm",
    category = "kite",
    namespaced,
    status = "KiteVirtualMachineStatus",
    doc = "A virtual machine with its disk, its login, its Services and, if wanted, its domain.",
    printcolumn = r#"{"name": "Status", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "CPU", "type": "integer", "jsonPath": ".spec.cpu"}"#,
    printcolumn = r#"{"name": "MEM", "type": "string", "jsonPath": ".spec.memory"}"#,
    printcolumn = r#"{"name": "IMAGE", "type": "string", "jsonPath": ".spec.image"}"#,
    printcolumn = r#"{"name": "POWER", "type": "string", "jsonPath": ".status.currentPowerState"}"#,
    printcolumn = r#"{"name": "DISK", "type": "string", "jsonPath": ".status.dataVolumeProgress"}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(oldSelf.image) || (has(self.image) && self.image == oldSelf.image)",
        "message": "image is immutable: create another machine for another image"
    },
    {
        "rule": "!has(oldSelf.sshId) || (has(self.sshId) && self.sshId == oldSelf.sshId)",
        "message": "sshId is immutable: it is set up at the first boot"
    },
    {
        "rule": "!has(oldSelf.disk) || (has(self.disk) && self.disk == oldSelf.disk)",
        "message": "disk is immutable: resizing is not supported"
    },
    {
        "rule": "!has(oldSelf.delete) || !oldSelf.delete || (has(self.delete) && self.delete)",
        "message": "delete cannot be taken back"
    }
]))]
pub struct KiteVirtualMachineSpec {
    /// Number of virtual processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: Option<i64>,
    /// Memory as a quantity, as in `4Gi`; 64Mi to 4Ti.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]{1,12}(\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$"))]
    pub memory: Option<String>,
    /// The golden image to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub image: Option<String>,
    /// Size of the disk as a quantity, as in `25Gi`; 1Gi to 64Ti, and no smaller than the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]{1,12}(\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$"))]
    pub disk: Option<String>,
    /// The only power switch: `On` or `Off` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["On", "Off"]))]
    pub power_state: Option<String>,
    /// First label of the machine's host name. One that cannot be used leaves the machine without a domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub domain_prefix: Option<String>,
    /// The login name that is made at the first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[a-z_][a-z0-9_-]{0,31}$"))]
    pub ssh_id: Option<String>,
    /// A login password in clear text. Better: a Secret `<name>-guest-login` with a `passwordHash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), extend("pattern" = r"^[^\s:\x00-\x1f\x7f]([^:\x00-\x1f\x7f]*[^\s:\x00-\x1f\x7f])?$"))]
    pub ssh_password: Option<Hidden>,
    /// For the gateway; the reconcilers ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_password_hash: Option<Hidden>,
    /// Public keys that may log in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 4096)))]
    pub ssh_authorized_keys: Vec<String>,
    /// Delete the machine with its disk. Cannot be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<bool>,
}

/// What the machine is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KiteVirtualMachineStatus {
    /// `Provisioning`, `Starting`, `Running`, `Stopping`, `Stopped`, `Paused`, `Deleting`, `Failed` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The power state observed: `On` or `Off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["On", "Off"]))]
    pub current_power_state: Option<String>,
    /// The generation that was last fully applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Host name that the Ingress serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Node that the machine runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Name of the cloud-init Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init_secret_name: Option<String>,
    /// Name of the SSH key Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key_secret_name: Option<String>,
    /// Name of the SSH Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Name of the DataVolume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume_name: Option<String>,
    /// The DataVolume's phase as CDI says it; `Pending` where it says none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume_phase: Option<String>,
    /// How much of the disk is copied, as in `42.00%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume_progress: Option<String>,
    /// What CDI says about the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume_message: Option<String>,
    /// `VirtualMachineReady` (the summary), `ResourcesApplied`, `DomainReady`, `DiskReady`, `ServicesReady`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
