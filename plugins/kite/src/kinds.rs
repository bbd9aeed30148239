//! Objects of others as far as Kite reads them: KubeVirt's, CDI's, and parts of the built-in kinds.
//!
//! Each is a view: a change outside its pointers runs no pass. CDI, for one, writes a new progress every two seconds,
//! and only R6 wants to know.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use evenkeel_sdk::{Gvk, Kind, kind, view};
use k8s_openapi::api::core::v1::{Namespace as CoreNamespace, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A condition of somebody else's object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, as a sentence.
    pub message: String,
}

/// KubeVirt's virtual machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VirtualMachine {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it shall be.
    pub spec: VirtualMachineSpec,
    /// What it is.
    pub status: VirtualMachineStatus,
}
kind!(
    VirtualMachine = "kubevirt.io", "v1", "VirtualMachine";
    "/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/metadata/deletionTimestamp",
    "/metadata/finalizers", "/spec/runStrategy", "/spec/running", "/status/printableStatus", "/status/conditions"
);

/// The two ways to say whether a virtual machine shall run, of which KubeVirt admits one at a time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// The way that Kite uses.
    pub run_strategy: Option<String>,
    /// The old way.
    pub running: Option<bool>,
}

/// What KubeVirt says about a virtual machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMachineStatus {
    /// The state for people, from which Kite's phase comes.
    pub printable_status: Option<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// KubeVirt's running instance of a virtual machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VirtualMachineInstance {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Where it runs.
    pub status: VirtualMachineInstanceStatus,
}
kind!(
    VirtualMachineInstance = "kubevirt.io", "v1", "VirtualMachineInstance";
    "/metadata/labels", "/metadata/uid", "/status/nodeName"
);

/// Where a virtual machine runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMachineInstanceStatus {
    /// The node, once there is one.
    pub node_name: Option<String>,
}

/// CDI's disk that is filled from a golden image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DataVolume {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it shall be.
    pub spec: DataVolumeSpec,
    /// How far it is.
    pub status: DataVolumeStatus,
}
kind!(
    DataVolume = "cdi.kubevirt.io", "v1beta1", "DataVolume";
    "/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/metadata/deletionTimestamp",
    "/spec/pvc/resources/requests/storage", "/status/phase", "/status/conditions", "/status/restartCount"
);

/// What a DataVolume asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DataVolumeSpec {
    /// The claim that CDI makes for it.
    pub pvc: ClaimSpec,
}

/// How far a DataVolume is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataVolumeStatus {
    /// CDI's phase.
    pub phase: Option<String>,
    /// How much is copied.
    pub progress: Option<String>,
    /// How often the copying began anew.
    pub restart_count: i64,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// A claim: a machine's disk, or a golden image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it asks for.
    pub spec: ClaimSpec,
}
view!(
    Claim as PersistentVolumeClaim:
    "/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/metadata/deletionTimestamp",
    "/spec/resources/requests/storage"
);

impl Claim {
    /// Whether it is being deleted, or will be with the DataVolume that still owns it. A DataVolume that CDI collects
    /// leaves its claim without an owner.
    pub fn is_going(&self) -> bool {
        let owners = self.metadata.owner_references.iter().flatten();
        self.metadata.deletion_timestamp.is_some()
            || owners.into_iter().any(|owner| owner.kind == "DataVolume")
    }
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    /// How much of what.
    pub resources: ClaimResources,
}

/// How much of what a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// By resource; `storage` is the size.
    pub requests: BTreeMap<String, String>,
}

impl ClaimSpec {
    /// The size asked for.
    pub fn storage(&self) -> Option<&str> {
        self.resources.requests.get("storage").map(String::as_str)
    }
}

/// A namespace, and whether it goes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    metadata: ObjectMeta,
    status: NamespaceStatus,
}
view!(Namespace as CoreNamespace: "/metadata/deletionTimestamp", "/status/phase");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NamespaceStatus {
    phase: Option<String>,
}

impl Namespace {
    /// Whether it is being deleted: nothing can be created in it any more.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() || self.status.phase.as_deref() == Some("Terminating")
    }
}

/// A Secret whose data is looked at. The values are text that somebody claims to be base64.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct Login {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its data, as it is stored.
    pub data: BTreeMap<String, String>,
}
view!(Login as Secret: "/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/data");

/// A Service as R5 compares it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VmService {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it shall be.
    pub spec: VmServiceSpec,
}
view!(
    VmService as Service:
    "/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/spec/type", "/spec/selector", "/spec/ports"
);

/// The parts of a Service that Kite renders.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VmServiceSpec {
    /// `ClusterIP` and others.
    #[serde(rename = "type")]
    pub type_: String,
    /// Labels of the pods behind it.
    pub selector: BTreeMap<String, String>,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number.
    pub port: i64,
    /// The pod's port: a number, or a port's name.
    pub target_port: serde_json::Value,
    /// `TCP` where it says nothing.
    pub protocol: Option<String>,
}

/// Whose an object is, and nothing else of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "")]
pub struct Part<K> {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: Kind> Kind for Part<K> {
    fn gvk() -> Gvk {
        K::gvk()
    }

    fn pointers() -> &'static [&'static str] {
        &["/metadata/labels", "/metadata/ownerReferences", "/metadata/uid", "/metadata/deletionTimestamp"]
    }
}
