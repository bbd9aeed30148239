//! The kind that users write, and its CustomResourceDefinition.

pub mod machine;
pub mod network;
pub mod status;

pub use machine::{CloneMode, PowerOffMode, VSphereMachine, VSphereMachineSpec};
pub use network::{Device, DhcpOverrides, Network, Route};
pub use status::{Address, Initialization, NetworkStatus, Operation, Retry, Task, VSphereMachineStatus};

#[cfg(test)]
mod tests;
