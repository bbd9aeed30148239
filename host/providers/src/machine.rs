//! The provider `machine`: a VM for each Machine of Gardener's machine class family, by the driver contract of its machine
//! controller manager.
//!
//! The provider reads the calls, keeps the operations of one machine in order, and turns what the driver says into answers.
//! A [`Driver`] does the rest: the [simulated one](simulated) for scenarios, others for clouds.

pub mod call;
pub mod code;
mod driver;
mod ledger;
mod provider;
pub mod simulated;
pub mod vsphere;

pub use driver::{Driver, DriverError, DriverFuture, Vm};
pub use provider::MachineProvider;

/// The name that plugins know the provider by.
pub const NAME: &str = "machine";
