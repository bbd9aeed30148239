//! The two Services: SSH and web.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::identity::Identity;
use crate::names;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// For SSH.
    Ssh,
    /// For the web, behind the Ingress.
    Web,
}

impl Which {
    /// Both, in the order that they are applied.
    pub const BOTH: [Self; 2] = [Self::Ssh, Self::Web];

    /// The Service's name.
    pub fn name(self, machine: &Identity) -> String {
        self.name_for(&machine.name)
    }

    /// The Service's name for a machine of this name.
    pub fn name_for(self, machine: &str) -> String {
        format!("{}{machine}", self.prefix())
    }

    /// Which Service bears this name, and the name of the machine that it would be for.
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        Self::BOTH.into_iter().find_map(|which| Some((which, name.strip_prefix(which.prefix())?)))
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Ssh => "vps-access-",
            Self::Web => "vps-web-",
        }
    }

    /// The other one.
    pub fn sibling(self) -> Self {
        match self {
            Self::Ssh => Self::Web,
            Self::Web => Self::Ssh,
        }
    }

    /// Name and number of its one port.
    pub fn port(self) -> (&'static str, u16) {
        match self {
            Self::Ssh => ("ssh", 22),
            Self::Web => ("http", 80),
        }
    }
}

/// The labels of the pods behind a Service. KubeVirt copies them from the template; its own name label holds the
/// hostname, which two machines can share.
pub fn selector(machine: &Identity) -> BTreeMap<String, String> {
    let mut labels = machine.labels();
    labels.remove(names::VM_NAMESPACE_LABEL);
    labels
}

/// The Service.
pub fn service(machine: &Identity, which: Which) -> Value {
    let (name, port) = which.port();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": machine.metadata(&which.name(machine)),
        "spec": {
            "type": "ClusterIP",
            "selector": selector(machine),
            "ports": [{ "name": name, "protocol": "TCP", "port": port, "targetPort": port }],
        },
    })
}
