//! The parts of a machine, a file a part.
//!
//! Only typed JSON values are built: nothing that a user wrote becomes part of a text that is parsed again, and a part's
//! namespace and name come from the machine's own key.

pub mod cloud_init;
pub mod data_volume;
pub mod ingress;
pub mod service;
pub mod virtual_machine;

#[cfg(test)]
mod tests;
