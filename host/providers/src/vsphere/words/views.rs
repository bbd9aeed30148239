//! What vCenter shows, as plugins are told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::OWNER_KEY;
use crate::vsphere::vcenter;

/// Extra configuration that answers tell of.
pub const TOLD_KEYS: [&str; 3] = ["guestinfo.metadata", "guestinfo.metadata.encoding", OWNER_KEY];

/// A VM's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// Running.
    On,
    /// Not running.
    Off,
    /// Stopped midway; powering it on goes on from there.
    Suspended,
}

/// A network card as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicView {
    /// Device key.
    pub key: i64,
    /// MAC address as vCenter writes it; "" while there is none.
    pub mac: String,
    /// Name of its network; "" where that is not known.
    pub network: String,
    /// Whether it is plugged in.
    pub connected: bool,
    /// Addresses that the guest reports, as it writes them.
    pub ips: Vec<String>,
}

/// A VM as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmView {
    /// Managed object id.
    pub vm: String,
    /// Name.
    pub name: String,
    /// In small letters; "" while there is none.
    pub instance_uuid: String,
    /// In small letters; "" while there is none.
    pub bios_uuid: String,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs.
    pub power: Power,
    /// Whether its configuration can be seen; where not, the rest may be empty.
    pub accessible: bool,
    /// The marker of ownership.
    pub owner: Option<String>,
    /// Its cards, in vCenter's order.
    pub nics: Vec<NicView>,
    /// Extra configuration under [`TOLD_KEYS`].
    pub extra_config: BTreeMap<String, String>,
    /// Whether the guest's tools run.
    pub tools_running: bool,
    /// Whether the guest can be asked to shut down.
    pub guest_state_change_supported: bool,
    /// Name of its host; "" where that is not known.
    pub host: String,
}

/// A VM of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MarkedVm {
    /// Managed object id.
    pub vm: String,
    /// Name.
    pub name: String,
    /// In small letters; "" while there is none.
    pub instance_uuid: String,
    /// The marker of ownership.
    pub owner: Option<String>,
}

/// A task as vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Managed object id.
    pub task: String,
    /// `queued`, `running`, `success`, `error`, or what else vCenter says.
    pub state: String,
    /// vCenter's name of the operation.
    pub operation: String,
    /// The VM that a clone made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultView>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultView {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says; its type where it says nothing.
    #[serde(default)]
    pub message: String,
    /// The power state that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<String>,
    /// The power state that was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
}

impl From<&vcenter::Fault> for FaultView {
    fn from(fault: &vcenter::Fault) -> Self {
        let member = |name: &str| fault.detail.get(name)?.text().map(|text| text.into_owned());
        Self {
            kind: fault.kind.clone(),
            message: fault.message.clone(),
            existing: member("existingState"),
            requested: member("requestedState"),
        }
    }
}

/// Where a clone would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacementView {
    /// What it would be made from.
    pub template: TemplateView,
}

/// What a clone is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateView {
    /// Managed object id.
    pub vm: String,
    /// Name.
    pub name: String,
    /// Sizes of its disks, in GiB, rounded up.
    #[serde(rename = "diskGiB")]
    pub disk_gib: Vec<i64>,
    /// Managed object id of the snapshot asked for, or of its current one.
    pub snapshot: Option<String>,
}
