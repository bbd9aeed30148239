//! Gardener's machine classes, their Secrets, and the machines made of them.
//!
//! Four controllers. `machine-class` holds a class while machines refer to it, `machine-class-secret` holds a Secret
//! while classes do, `machine` gives each Machine its VM by the provider `machine`, `machine-orphans` has VMs deleted that no
//! Machine owns. The first two are of use alone, beside a machine controller of somebody else.

use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop};

pub mod class;
pub mod config;
mod crd;
pub mod duration;
pub mod kinds;
#[cfg(test)]
mod laws;
pub mod machine;
mod manifest;
pub mod names;
pub mod orphans;
pub mod secret;
mod words;

/// The plugin.
pub struct MachineClassPlugin;

impl Plugin for MachineClassPlugin {
    fn describe() -> Manifest {
        manifest::describe()
    }

    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
        match pass.controller() {
            names::MACHINE_CLASS => class::reconcile(pass),
            names::SECRET => secret::reconcile(pass),
            names::MACHINE => machine::reconcile(pass),
            names::ORPHANS => orphans::reconcile(pass),
            other => Err(Stop::invalid(format!("machine-class has no controller named {other:?}"))),
        }
    }
}

evenkeel_sdk::plugin!(MachineClassPlugin);
