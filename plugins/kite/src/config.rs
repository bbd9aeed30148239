//! The runtime configuration: a ConfigMap that the platform's operator edits while everything runs.
//!
//! No value of it can stop Kite: what cannot be used counts as absent, and an event says so. Each controller asks for
//! just the keys that it uses, so that a new base domain does not run a pass of every user.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_sdk::{Action, Asked, Pass, Stop, act, reference};
use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;

use crate::names;

mod quantity;
mod read;

#[cfg(test)]
mod tests;

/// Keys that R1 uses.
pub const USER_KEYS: &[&str] = &[
    "/data/quotaEnabled",
    "/data/quotaRequestsCpu",
    "/data/quotaRequestsMemory",
    "/data/quotaPersistentVolumeClaims",
    "/data/quotaVirtualMachines",
    "/data/apiServerCIDR",
    "/data/platformNamespace",
    "/data/cdiNamespace",
    "/data/reservedNamespaces",
];

/// Keys that R2 uses.
pub const NAMESPACE_KEYS: &[&str] = &[
    "/data/orphanNamespaceGraceSeconds",
    "/data/platformNamespace",
    "/data/cdiNamespace",
    "/data/reservedNamespaces",
];

/// Keys that R3 to R6 use.
pub const MACHINE_KEYS: &[&str] = &[
    "/data/baseDomain",
    "/data/vmStorageClassName",
    "/data/goldenImageNamespace",
    "/data/defaultVmImage",
    "/data/allowedImages",
    "/data/checkGoldenImage",
    "/data/platformNamespace",
    "/data/cdiNamespace",
    "/data/reservedNamespaces",
    "/data/reservedDomainPrefixes",
    "/data/ingressClassName",
    "/data/ingressTLSSecretName",
    "/data/guestSSHPasswordAuth",
];

/// The configuration, every value valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// What host names end in, as it was written (R3 judges it); none where it is missing or blank.
    pub base_domain: Option<String>,
    /// Storage class of the disks; none for the cluster's default.
    pub vm_storage_class: Option<String>,
    /// Where the golden images are.
    pub golden_image_namespace: String,
    /// Which of them may be used.
    pub allowed_images: AllowedImages,
    /// Whether R3 waits for the golden image before it creates a disk.
    pub check_golden_image: bool,
    /// How long a namespace that nobody references is kept; zero deletes it at once.
    pub orphan_grace: Duration,
    /// Namespaces reserved besides the built-in ones; a trailing `*` matches any ending.
    pub reserved_namespaces: Vec<String>,
    /// Domain prefixes reserved besides the built-in ones.
    pub reserved_domain_prefixes: Vec<String>,
    /// Limits of a user's namespace; none where the quota is off.
    pub quota: Option<Quota>,
    /// Namespace of the platform.
    pub platform_namespace: String,
    /// Namespace of CDI.
    pub cdi_namespace: String,
    /// Address range of the API server that tenants may reach; none for no way to it.
    pub api_server_cidr: Option<String>,
    /// Class of the Ingresses.
    pub ingress_class: String,
    /// TLS Secret of the Ingresses, in the tenant's namespace; none for the class's default certificate.
    pub ingress_tls_secret: Option<String>,
    /// Whether guests accept passwords over SSH.
    pub guest_ssh_password_auth: bool,
    /// What could not be used, as `key: what is wrong`, by key.
    pub problems: Vec<String>,
}

/// Which golden images may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedImages {
    /// Any claim in the golden namespace.
    Any,
    /// These; the first is the default image.
    Named(Vec<String>),
}

/// Limits of a user's namespace, as quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// `requests.cpu`.
    pub requests_cpu: String,
    /// `requests.memory`.
    pub requests_memory: String,
    /// `persistentvolumeclaims`.
    pub persistent_volume_claims: String,
    /// `count/virtualmachines.kubevirt.io`.
    pub virtual_machines: String,
}

/// The question for the configuration, put together with a pass's other questions.
pub struct Question<'p> {
    asked: Asked<'p, Option<Data>>,
    keys: &'static [&'static str],
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    data: BTreeMap<String, String>,
}
evenkeel_sdk::view!(Data as ConfigMap: "/data");

impl RuntimeConfig {
    /// Asks for the configuration; `keys` are those that the controller uses, as [`USER_KEYS`].
    pub fn ask<'p>(pass: &'p Pass, keys: &'static [&'static str]) -> Question<'p> {
        let place = (names::CONFIG_NAMESPACE, names::CONFIG_NAME);
        Question { asked: pass.get::<Data>(place).view(keys).ask(), keys }
    }

    /// From the ConfigMap's data; every key counts.
    pub fn parse(data: &BTreeMap<String, String>) -> Self {
        read::config(data)
    }

    /// Whether a namespace belongs to the platform.
    pub fn is_reserved_namespace(&self, name: &str) -> bool {
        names::is_built_in_namespace(name)
            || name == self.platform_namespace
            || name == self.cdi_namespace
            || self.reserved_namespaces.iter().any(|reserved| match reserved.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == reserved,
            })
    }

    /// Whether a domain prefix belongs to the platform.
    pub fn is_reserved_domain_prefix(&self, prefix: &str) -> bool {
        names::is_built_in_domain_prefix(prefix) || self.reserved_domain_prefixes.iter().any(|r| r == prefix)
    }

    /// Whether a machine may start from an image.
    pub fn allows_image(&self, image: &str) -> bool {
        match &self.allowed_images {
            AllowedImages::Any => true,
            AllowedImages::Named(images) => images.iter().any(|allowed| allowed == image),
        }
    }

    /// The event that tells the operator what could not be used, if there is anything.
    pub fn complaint(&self) -> Option<Action> {
        if self.problems.is_empty() {
            return None;
        }
        let about = reference::<ConfigMap>((names::CONFIG_NAMESPACE, names::CONFIG_NAME));
        let message = format!("defaults are used instead of: {}", self.problems.join("; "));
        Some(act::warning(about, "InvalidConfig", message))
    }
}

impl Default for RuntimeConfig {
    /// What holds without a ConfigMap.
    fn default() -> Self {
        Self::parse(&BTreeMap::new())
    }
}

impl Question<'_> {
    /// The configuration; a missing ConfigMap is one without keys. Only the keys asked for are looked at.
    pub fn read(self) -> Result<RuntimeConfig, Stop> {
        let mut data = self.asked.read()?.map(|map| map.data).unwrap_or_default();
        data.retain(|key, _| self.keys.iter().any(|pointer| pointer.strip_prefix("/data/") == Some(key)));
        Ok(RuntimeConfig::parse(&data))
    }
}
