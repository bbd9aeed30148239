//! Stand-ins for the outside world: kinds of other projects, and something that acts on their objects.
//!
//! **These are stand-ins.** The definitions say no more of KubeVirt and CDI than tests and demos need, and no virtual machine
//! runs anywhere: *stages* (after KWOK's idea) wait until an object looks in a certain way, let some time pass and change it.
//! They are data in YAML, so a test brings its own: see [`Stages::parse`] and `kubevirt.stages.yaml` beside this file.
//!
//! [`start`] runs stages against an API by ordinary requests, with tokio's time only, so that paused time works.

mod agenda;
mod client;
mod engine;
mod stages;
mod template;

use serde_json::Value;

pub use client::Service;
pub use engine::{Running, start};
pub use stages::{Stage, Stages, StagesError};

/// Annotation that turns a stand-in's behaviour: `fail`, `slow`, `stuck`.
pub const KNOB: &str = "standin.evenkeel.dev/behaviour";

/// The outside projects that there are stand-ins for.
pub const PROJECTS: [&str; 2] = ["cdi", "kubevirt"];

/// The stand-in CustomResourceDefinitions of a project (`kubevirt`, `cdi`); none for a name that is not known.
pub fn crds(project: &str) -> Option<Vec<Value>> {
    let text = match project {
        "kubevirt" => include_str!("standins/kubevirt.crds.yaml"),
        "cdi" => include_str!("standins/cdi.crds.yaml"),
        _ => return None,
    };
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple_with_options(text, options);
    assert!(documents.is_ok(), "a file of ours is YAML, as a test says: {documents:?}");
    documents.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::crd;

    #[test]
    fn the_definitions_are_accepted_and_serve_their_kinds() {
        let mut kinds = Vec::new();
        for project in PROJECTS {
            for mut definition in crds(project).expect("a known project") {
                crd::prepare(&mut definition);
                let compiled = crd::compile(&definition).expect("a good definition");
                kinds.push(format!("{}/{}", compiled.group, compiled.kind));
            }
        }
        let known = [
            "cdi.kubevirt.io/DataVolume",
            "kubevirt.io/VirtualMachine",
            "kubevirt.io/VirtualMachineInstance",
        ];
        assert_eq!(kinds, known);
    }

    #[test]
    fn an_unknown_project_has_none() {
        assert_eq!(crds("openstack"), None);
    }
}
