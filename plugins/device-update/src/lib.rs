//! Updates of a device as flightctl's agent does them, with a way back from everything.
//!
//! One controller, `device`. Its primary is the Device of the machine that the host runs on; the goal comes from a management
//! service or from the object itself. A pass reads the four files that survive everything, decides how far it can go, and has
//! the provider `device` do it. [`decide`] has the decisions in order; each phase has its module.

pub use evenkeel_device_words as words;
use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop};

pub mod activating;
pub mod adopt;
pub mod applying;
pub mod boot;
pub mod config;
pub mod crd;
pub mod decide;
pub mod device;
pub mod failure;
pub mod files;
pub mod flow;
pub mod form;
pub mod hooks;
pub mod image;
#[cfg(test)]
mod laws;
mod manifest;
pub mod names;
pub mod observe;
pub mod preparing;
pub mod primary;
pub mod repair;
pub mod rollback;
pub mod staging;
pub mod state;
pub mod status;
pub mod steady;
pub mod verifying;

/// The plugin.
pub struct DeviceUpdate;

impl Plugin for DeviceUpdate {
    fn describe() -> Manifest {
        manifest::describe()
    }

    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
        match pass.controller() {
            names::CONTROLLER => decide::reconcile(pass),
            other => Err(Stop::invalid(format!("device-update has no controller named {other:?}"))),
        }
    }
}

evenkeel_sdk::plugin!(DeviceUpdate);
