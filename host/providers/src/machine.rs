//! The provider `machine`: a VM for each Machine of Gardener's machine class family, by the driver contract of its machine
//! controller manager.
//!
//! The provider reads the calls, keeps the operations of one machine in order, and turns what the driver says into answers.
//! A [`Driver`] does the rest: the [simulated one](simulated) for scenarios and trials, [another](vsphere) on vCenter.

pub mod call;
pub mod code;
mod driver;
mod drivers;
mod ledger;
mod orphans;
mod provider;
pub mod simulated;
mod tokens;
pub mod vsphere;

pub use driver::{Driver, DriverError, DriverFuture, Progress, Teller, UnderWay, Vm};
pub use drivers::Drivers;
pub use provider::MachineProvider;

/// The name that plugins know the provider by.
pub const NAME: &str = "machine";
