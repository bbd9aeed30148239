//! The built-in resources, a line each.

use super::{Offers, Resource, Scale, Traits, Version, api_version};
use crate::schema::{self, Gvk};
use crate::store::TableId;

/// One built-in resource.
pub(super) struct Row {
    pub group: &'static str,
    version: &'static str,
    pub plural: &'static str,
    kind: &'static str,
    short: &'static str,
    /// `N` namespaced, `s` status subresource, `S` scale subresource, `a` category all, `x` category api-extensions,
    /// `g` generation, `G` generation also by annotations, `e` generation also by empty values, `u` created by PUT, `d` deletion answers with the object,
    /// `c` no deletion of collections, `l` a PUT must name the resource version, `E` core's Event converted, `r` only read,
    /// `p` only posted.
    pub flags: &'static str,
}

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    flags: &'static str,
) -> Row {
    Row { group, version, plural, kind, short, flags }
}

/// Groups in the order of the real server's discovery.
pub(super) const GROUPS: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Versions of groups that answer questions and store nothing.
pub(super) fn virtual_versions(group: &str) -> Option<String> {
    matches!(group, "authentication.k8s.io" | "authorization.k8s.io").then(|| "v1".to_owned())
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const NET: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";

pub(super) const ROWS: &[Row] = &[
    row("", "v1", "bindings", "Binding", "", "Np"),
    row("", "v1", "componentstatuses", "ComponentStatus", "cs", "r"),
    row("", "v1", "configmaps", "ConfigMap", "cm", "N"),
    row("", "v1", "endpoints", "Endpoints", "ep", "Nu"),
    row("", "v1", "events", "Event", "ev", "Nu"),
    row("", "v1", "limitranges", "LimitRange", "limits", "Nu"),
    row("", "v1", "namespaces", "Namespace", "ns", "sdc"),
    row("", "v1", "nodes", "Node", "no", "s"),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "Nsd"),
    row("", "v1", "persistentvolumes", "PersistentVolume", "pv", "sd"),
    row("", "v1", "pods", "Pod", "po", "Nsagd"),
    row("", "v1", "podtemplates", "PodTemplate", "", "Ngd"),
    row("", "v1", "replicationcontrollers", "ReplicationController", "rc", "NsSag"),
    row("", "v1", "resourcequotas", "ResourceQuota", "quota", "Nsd"),
    row("", "v1", "secrets", "Secret", "", "N"),
    row("", "v1", "serviceaccounts", "ServiceAccount", "sa", "Nd"),
    row("", "v1", "services", "Service", "svc", "Nsaud"),
    row("apiregistration.k8s.io", "v1", "apiservices", "APIService", "", "sxl"),
    row("apps", "v1", "controllerrevisions", "ControllerRevision", "", "N"),
    row("apps", "v1", "daemonsets", "DaemonSet", "ds", "Nsag"),
    row("apps", "v1", "deployments", "Deployment", "deploy", "NsSaG"),
    row("apps", "v1", "replicasets", "ReplicaSet", "rs", "NsSag"),
    row("apps", "v1", "statefulsets", "StatefulSet", "sts", "NsSag"),
    row("events.k8s.io", "v1", "events", "Event", "ev", "NuE"),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "Nsa"),
    row("batch", "v1", "cronjobs", "CronJob", "cj", "Nsag"),
    row("batch", "v1", "jobs", "Job", "", "Nsag"),
    row("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "csr", "s"),
    row(NET, "v1", "ingressclasses", "IngressClass", "", "g"),
    row(NET, "v1", "ingresses", "Ingress", "ing", "Nsg"),
    row(NET, "v1", "ipaddresses", "IPAddress", "ip", ""),
    row(NET, "v1", "networkpolicies", "NetworkPolicy", "netpol", "Nge"),
    row(NET, "v1", "servicecidrs", "ServiceCIDR", "", "s"),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "Nsgl"),
    row(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", "", "u"),
    row(RBAC, "v1", "clusterroles", "ClusterRole", "", "u"),
    row(RBAC, "v1", "rolebindings", "RoleBinding", "", "Nu"),
    row(RBAC, "v1", "roles", "Role", "", "Nu"),
    row(STORAGE, "v1", "csidrivers", "CSIDriver", "", "dl"),
    row(STORAGE, "v1", "csinodes", "CSINode", "", "dl"),
    row(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", "", "Nl"),
    row(STORAGE, "v1", "storageclasses", "StorageClass", "sc", "d"),
    row(STORAGE, "v1", "volumeattachments", "VolumeAttachment", "", "sdl"),
    row(STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass", "vac", "d"),
    row(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "xgl"),
    row(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "xsgl"),
    row(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", "xgl"),
    row(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "", "xgl"),
    row(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd crds",
        "xsgl",
    ),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "g"),
    row("coordination.k8s.io", "v1", "leases", "Lease", "", "Nul"),
    row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", "", "ul"),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "Ng"),
    row("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", "", "gd"),
    row("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "", "Nsd"),
    row("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", "", "Nd"),
    row("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "", "gd"),
    row("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", "", "sg"),
    row(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        "",
        "sg",
    ),
];

impl Row {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// The warning that comes with each answer.
    fn deprecation(&self) -> Option<&'static str> {
        match self.plural {
            "componentstatuses" => Some("v1 ComponentStatus is deprecated in v1.19+"),
            "endpoints" => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            _ => None,
        }
    }

    /// The resource, if its schema is known.
    pub(super) fn resource(&self, table: TableId) -> Option<Resource> {
        let ty = schema::builtin(Gvk::new(self.group, self.version, self.kind))?;
        let scale = self.has('S').then(|| Scale {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: None,
        });
        let version = Version {
            name: self.version.into(),
            api_version: api_version(self.group, self.version),
            served: true,
            ty,
            status: self.has('s'),
            scale,
            columns: Vec::new(),
            selectable: Vec::new(),
            deprecation: self.deprecation().map(str::to_owned),
        };
        let mut categories = Vec::new();
        if self.has('a') {
            categories.push("all".to_owned());
        }
        if self.has('x') {
            categories.push("api-extensions".to_owned());
        }
        Some(Resource {
            table,
            group: self.group.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind),
            short_names: self.short.split_whitespace().map(str::to_owned).collect(),
            categories,
            namespaced: self.has('N'),
            versions: vec![version],
            storage: 0,
            traits: Traits {
                generation: self.has('g') || self.has('G'),
                generation_by_annotations: self.has('G'),
                generation_by_empties: self.has('e'),
                create_on_update: self.has('u'),
                returns_deleted: self.has('d'),
                unconditional_update: !self.has('l'),
                no_collection_delete: self.has('c'),
                converted_event: self.has('E'),
                offers: match (self.has('r'), self.has('p')) {
                    (true, _) => Offers::Reads,
                    (_, true) => Offers::Posts,
                    _ => Offers::All,
                },
            },
            definition: None,
            shape: "".into(),
        })
    }
}
