//! What the controller says of a machine, and what it has to remember.

use evenkeel_sdk::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CloneMode;

/// What the machine is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VSphereMachineStatus {
    /// The VM's managed object id, as in `vm-1234`. Observed: it may be lost and found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<String>,
    /// The instance UUID that the VM was cloned with. Written once.
    #[serde(default, rename = "instanceUUID", skip_serializing_if = "Option::is_none")]
    pub instance_uuid: Option<String>,
    /// The BIOS UUID that vCenter gave the VM. Written once.
    #[serde(default, rename = "biosUUID", skip_serializing_if = "Option::is_none")]
    pub bios_uuid: Option<String>,
    /// The task in flight, as in `task-5678`; there is one at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// What `taskRef` is for. A clone stands here before it is asked for, so that none is ever lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Operations that came to something: each gets its own number, and with it a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub operations: Option<i64>,
    /// Nothing is tried before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub retry_after: Option<String>,
    /// What is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Since when another VM has the machine's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub name_taken_since: Option<String>,
    /// When the guest was asked to shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub guest_shutdown_at: Option<String>,
    /// How the VM was really cloned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_mode: Option<CloneMode>,
    /// The ESXi host that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `poweredOn`, `poweredOff` or `suspended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_state: Option<String>,
    /// The network cards, those of `spec.network.devices` first and in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub network: Vec<NetworkStatus>,
    /// Where the machine can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<Address>,
    /// How far the first set-up is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Whether the machine has been set up and its VM is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// One word on what no retry can put right; nothing more is done about the machine but its deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The same as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// `Ready` (the summary), `VirtualMachineProvisioned`, `VCenterAvailable`, `GuestSoftPowerOffSucceeded`, `Paused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Operation {
    /// A new VM from the template.
    Clone,
    /// New metadata.
    Reconfigure,
    /// Switch it on.
    PowerOn,
    /// Switch it off.
    PowerOff,
    /// Ask its guest to shut down; it has no task.
    ShutdownGuest,
    /// Delete it with its disks.
    Destroy,
}

impl Operation {
    /// Its name in the status, in messages and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clone => "Clone",
            Self::Reconfigure => "Reconfigure",
            Self::PowerOn => "PowerOn",
            Self::PowerOff => "PowerOff",
            Self::ShutdownGuest => "ShutdownGuest",
            Self::Destroy => "Destroy",
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Task {
    /// What it is for.
    pub operation: Operation,
    /// When it was asked for.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
}

/// What failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Retry {
    /// What failed.
    pub operation: Operation,
    /// Failures in a row. 0 where it was only in the way of another task.
    #[schemars(range(min = 0))]
    pub failures: u32,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NetworkStatus {
    /// Its MAC address, as vCenter writes it; "" while it has none.
    #[serde(default)]
    pub mac_addr: String,
    /// The network that it is in.
    #[serde(default)]
    pub network_name: String,
    /// Whether it is connected.
    #[serde(default)]
    pub connected: bool,
    /// The addresses that the guest reports, without those of the link alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addrs: Vec<String>,
}

/// Where a machine can be reached, as Cluster API has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Address {
    /// `ExternalIP` or `InternalDNS`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// How far the first set-up is, as Cluster API has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Initialization {
    /// Whether the machine was ready once; it never goes back.
    #[serde(default)]
    pub provisioned: bool,
}
