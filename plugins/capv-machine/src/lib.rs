//! Machines of a cluster as virtual machines on vSphere: one controller, one step a pass.
//!
//! A pass reads a machine's task and VM and then does at most one thing: clone, reconfigure, switch on or off, destroy.
//! `machine` has the way through it; a module each has what is decided about the task, the VM, the clone, the end.

use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop};

pub mod addresses;
pub mod api;
mod bootstrap;
mod cloning;
pub mod config;
mod deletion;
mod draft;
mod gate;
pub mod identity;
mod lookup;
mod machine;
mod manifest;
pub mod metadata;
pub mod names;
mod operate;
mod provision;
pub mod reasons;
pub mod seam;
pub mod task;
mod timing;
pub mod validity;

#[cfg(test)]
mod tests;

/// The plugin.
pub struct CapvMachine;

impl Plugin for CapvMachine {
    fn describe() -> Manifest {
        manifest::describe()
    }

    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
        match pass.controller() {
            names::CONTROLLER => machine::reconcile(pass),
            other => Err(Stop::invalid(format!("there is no controller named {other:?}"))),
        }
    }
}

evenkeel_sdk::plugin!(CapvMachine);
