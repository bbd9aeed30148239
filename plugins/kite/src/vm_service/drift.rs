//! How a Service differs from what it should be. Fields that Kite does not render (cluster addresses, annotations) are
//! nobody's business here.

use crate::identity::Identity;
use crate::kinds::{Port, VmService};
use crate::ownership::{Ownership, classify, has_labels};
use crate::render::service::{Which, selector};

/// How one Service differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    name: String,
    is_missing: bool,
    changed: Vec<&'static str>,
    foreign: Vec<String>,
}

impl Drift {
    /// Compares a Service with what it should be.
    pub fn of(service: Option<&VmService>, which: Which, id: &Identity) -> Self {
        let name = which.name(id);
        let Some(service) = service else {
            return Self { name, is_missing: true, changed: Vec::new(), foreign: Vec::new() };
        };
        let (mut changed, mut foreign) = (Vec::new(), Vec::new());
        if !has_labels(&service.metadata, id) {
            changed.push("metadata.labels");
        }
        if classify(Some(&service.metadata), id) != Ownership::Owned {
            changed.push("metadata.ownerReferences");
        }
        let (wanted, found) = (selector(id), &service.spec.selector);
        if wanted.iter().any(|(key, value)| found.get(key) != Some(value)) {
            changed.push("spec.selector");
        }
        let extra = found.keys().filter(|key| !wanted.contains_key(*key));
        foreign.extend(extra.map(|key| format!("{name} spec.selector.{key}")));
        let (ours, others): (Vec<_>, Vec<_>) =
            service.spec.ports.iter().partition(|port| is_place_of(port, which));
        if !ours.iter().any(|port| is_right(port, which)) {
            changed.push("spec.ports");
        }
        foreign
            .extend(others.iter().map(|port| format!("{name} spec.ports {}/{}", port.port, protocol(port))));
        if service.spec.type_ != "ClusterIP" {
            changed.push("spec.type");
        }
        Self { name, is_missing: false, changed, foreign }
    }

    /// Whether an apply would put something right.
    pub fn is_wrong(&self) -> bool {
        self.is_missing || !self.changed.is_empty()
    }

    /// What an apply cannot take away: it belongs to another manager.
    pub fn foreign(&self) -> Vec<String> {
        self.foreign.clone()
    }

    /// What an apply puts right, as a sentence.
    pub fn repaired(&self) -> String {
        if self.is_missing {
            return format!("the Service {} was missing and is made again", self.name);
        }
        format!("the Service {} was changed and is put right: {}", self.name, self.changed.join(", "))
    }
}

/// Ports are told apart by number and protocol, as server-side apply does.
fn is_place_of(port: &Port, which: Which) -> bool {
    port.port == i64::from(which.port().1) && protocol(port) == "TCP"
}

fn is_right(port: &Port, which: Which) -> bool {
    let (name, number) = which.port();
    // A target port that is absent is the port itself.
    let target_is_right = port.target_port.is_null() || port.target_port == number;
    port.name == name && target_is_right
}

fn protocol(port: &Port) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}
