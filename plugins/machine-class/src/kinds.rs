//! The objects as far as this family reads them. Each type is a view: a change outside its pointers runs no pass.

use std::collections::BTreeMap;

use evenkeel_sdk::{Kind, ObjectRef, kind, reference, view};
use k8s_openapi::api::core::v1::{Node as CoreNode, NodeAddress, NodeCondition, Secret as CoreSecret, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::GoDuration;
use crate::names;

/// What an object's metadata says, in the words of this family.
pub trait Named {
    /// The metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Its name.
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Its namespace; "" where it has none.
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// Whether it is being deleted.
    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Its finalizers.
    fn finalizers(&self) -> &[String] {
        self.metadata().finalizers.as_deref().unwrap_or_default()
    }

    /// Whether it bears this finalizer.
    fn bears(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|name| name == finalizer)
    }

    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata().labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata().annotations.as_ref()?.get(key).map(String::as_str)
    }
}

macro_rules! named {
    ($($type:ty),+) => {$(
        impl Named for $type {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )+};
}
named!(MachineClass, ClassHead, Machine, MachineHead, TemplateHead, SecretHead, Secret, Node);

/// A reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Its name.
    pub name: String,
    /// Its namespace; that of the class where it is left out.
    pub namespace: String,
}

impl SecretReference {
    /// The namespace that is meant in a class of `class_namespace`; none where there is no name either.
    pub fn place<'a>(&'a self, class_namespace: &'a str) -> Option<(&'a str, &'a str)> {
        let namespace = if self.namespace.is_empty() { class_namespace } else { &self.namespace };
        (!self.name.is_empty()).then_some((namespace, &*self.name))
    }
}

/// A class, whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineClass {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The driver that understands [`MachineClass::provider_spec`].
    pub provider: String,
    /// What the driver is to make.
    pub provider_spec: Value,
    /// User data and, unless the next one is set, credentials.
    pub secret_ref: Option<SecretReference>,
    /// Credentials alone.
    pub credentials_secret_ref: Option<SecretReference>,
    /// What a node of this class will be like.
    pub node_template: Option<NodeTemplate>,
}
kind!(
    MachineClass = names::GROUP, names::VERSION, "MachineClass";
    "/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/deletionTimestamp", "/metadata/finalizers",
    "/provider", "/providerSpec", "/secretRef", "/credentialsSecretRef", "/nodeTemplate"
);

/// What a node of a class will be like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeTemplate {
    /// Its resources.
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources that exist on paper only; copied to nodes.
    pub virtual_capacity: BTreeMap<String, Quantity>,
    /// The type of its machine.
    pub instance_type: String,
    /// Where it is.
    pub region: String,
    /// Where it is, more closely.
    pub zone: String,
}

/// What the class controller sees of its primary, and the Secret controller of classes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassHead {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// See [`MachineClass::secret_ref`].
    pub secret_ref: Option<SecretReference>,
    /// See [`MachineClass::credentials_secret_ref`].
    pub credentials_secret_ref: Option<SecretReference>,
}
kind!(
    ClassHead = names::GROUP, names::VERSION, "MachineClass";
    "/metadata/name", "/metadata/namespace", "/metadata/deletionTimestamp", "/secretRef", "/credentialsSecretRef"
);

/// A machine's reference to its class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassReference {
    /// The class' API group; empty means ours.
    pub api_group: String,
    /// `MachineClass`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl ClassReference {
    /// Whether it is a reference to a class of this family.
    pub fn is_ours(&self) -> bool {
        self.kind == names::CLASS_KIND && (self.api_group.is_empty() || self.api_group == names::GROUP)
    }
}

/// What the class controller sees of machines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MachineHead {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its class and its VM.
    pub spec: MachineHeadSpec,
}
kind!(
    MachineHead = names::GROUP, names::VERSION, "Machine";
    "/metadata/name", "/metadata/namespace", "/metadata/deletionTimestamp", "/spec/class", "/spec/providerID"
);

/// A machine's class and VM.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MachineHeadSpec {
    /// Its class.
    pub class: ClassReference,
    /// Its VM, once there is one.
    #[serde(rename = "providerID")]
    pub provider_id: String,
}

/// What the class controller sees of MachineSets and MachineDeployments.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateHead {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its template.
    pub spec: TemplateHeadSpec,
}

/// The template of a set or deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateHeadSpec {
    /// What its machines will be.
    pub template: TemplatedMachine,
}

/// A machine to be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplatedMachine {
    /// Its class.
    pub spec: MachineHeadSpec,
}

/// A set, as far as it refers to a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct MachineSet(pub TemplateHead);
kind!(
    MachineSet = names::GROUP, names::VERSION, "MachineSet";
    "/metadata/name", "/metadata/namespace", "/spec/template/spec/class"
);

/// A deployment, as far as it refers to a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct MachineDeployment(pub TemplateHead);
kind!(
    MachineDeployment = names::GROUP, names::VERSION, "MachineDeployment";
    "/metadata/name", "/metadata/namespace", "/spec/template/spec/class"
);

/// A Secret's metadata, and nothing of its data.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecretHead {
    /// Its metadata.
    pub metadata: ObjectMeta,
}
view!(
    SecretHead as CoreSecret: "/metadata/name", "/metadata/namespace", "/metadata/deletionTimestamp",
    "/metadata/finalizers"
);

/// A Secret with its data. It does not print.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its data, base64 as it is in the object.
    pub data: BTreeMap<String, String>,
}
view!(Secret as CoreSecret: "/metadata/name", "/metadata/namespace", "/data");

/// A machine, whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it shall be.
    pub spec: MachineSpec,
    /// What it is.
    pub status: MachineStatus,
}
kind!(Machine = names::GROUP, names::VERSION, "Machine");

impl Machine {
    /// Its place.
    pub fn reference(&self) -> ObjectRef {
        reference::<Machine>((self.namespace(), self.name()))
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The name of its Node, once it has one.
    pub fn node(&self) -> Option<&str> {
        self.label(names::NODE_LABEL).filter(|name| !name.is_empty())
    }

    /// Its phase; "" where nothing was begun.
    pub fn phase(&self) -> &str {
        &self.status.current_status.phase
    }
}

/// What a machine shall be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineSpec {
    /// Its class.
    pub class: ClassReference,
    /// Its VM, once there is one.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// What its Node shall be.
    #[serde(rename = "nodeTemplate")]
    pub node_template: MachineNodeTemplate,
    /// How long it may take to join; 20 m.
    pub creation_timeout: Option<GoDuration>,
    /// How long it may be unhealthy; 10 m.
    pub health_timeout: Option<GoDuration>,
    /// How long its Pods are waited for; 2 h.
    pub drain_timeout: Option<GoDuration>,
    /// How long an update in place may take; 20 m.
    pub in_place_update_timeout: Option<GoDuration>,
    /// How long it is kept where somebody wants it to be; 96 h.
    pub machine_preserve_timeout: Option<GoDuration>,
    /// Whether it may be unhealthy for ever.
    pub disable_health_timeout: Option<bool>,
    /// The conditions that make it unhealthy unless they are False, comma separated.
    pub node_conditions: Option<String>,
}

/// What a machine's Node shall be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MachineNodeTemplate {
    /// Its labels and annotations.
    pub metadata: TemplateMetadata,
    /// Its taints.
    pub spec: TemplateNodeSpec,
}

/// Labels and annotations of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Taints of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateNodeSpec {
    /// Taints.
    pub taints: Vec<Taint>,
}

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineStatus {
    /// Its phase.
    pub current_status: CurrentStatus,
    /// What was last done, and how it went.
    pub last_operation: LastOperation,
    /// What the driver wants to be told again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_known_state: String,
    /// The Node's conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// Its addresses, where its Node is not in this cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
}

/// A machine's phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CurrentStatus {
    /// `Pending`, `Available`, `Running`, `Terminating`, `Unknown`, `Failed`, `CrashLoopBackOff`, `InPlaceUpdating`,
    /// `InPlaceUpdateSuccessful` or `InPlaceUpdateFailed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Whether the creation clock runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timeout_active: bool,
    /// When the phase last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// Until when it is kept, RFC 3339; none where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_expiry_time: Option<String>,
}

/// What was last done for a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LastOperation {
    /// For people; at deletion it begins with the step that is due.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The driver's code, where it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_code: String,
    /// When it last changed, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// `Processing`, `Failed` or `Successful`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// `Create`, `InPlaceUpdate`, `DrainNode`, `HealthCheck` or `Delete`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
}

/// A Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its taints, and whether it takes Pods.
    pub spec: NodeSpec,
    /// Its conditions.
    pub status: NodeStatus,
}
view!(
    Node as CoreNode: "/metadata/name", "/metadata/uid", "/metadata/labels", "/metadata/annotations",
    "/metadata/finalizers", "/metadata/deletionTimestamp", "/spec/taints", "/spec/unschedulable",
    "/status/conditions", "/status/capacity"
);

impl Node {
    /// Its place.
    pub fn reference(&self) -> ObjectRef {
        reference::<Self>(self.name())
    }

    /// Its condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// What a Node is set to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// What keeps Pods off.
    pub taints: Vec<Taint>,
    /// Whether it takes no more Pods.
    pub unschedulable: bool,
}

/// What a Node says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// Its resources.
    pub capacity: BTreeMap<String, Quantity>,
}

/// The reference to a kind of this group that has a view here.
pub fn place<K: Kind>(namespace: &str, name: &str) -> ObjectRef {
    reference::<K>((namespace, name))
}
