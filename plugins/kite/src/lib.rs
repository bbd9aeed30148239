//! Kite: users, namespaces, virtual machines and their disks.
//!
//! Six controllers; each is a module with the fields that it reads, one pure function and what it renders.

use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop};

pub mod api;
pub mod config;
pub mod credentials;
pub mod data_volume;
pub mod disk;
pub mod domain;
pub mod evidence;
pub mod identity;
pub mod kinds;
#[cfg(test)]
mod laws;
pub mod machine;
mod manifest;
pub mod names;
pub mod namespace;
pub mod ownership;
pub mod quantity;
pub mod render;
pub mod spec;
pub mod status;
pub mod summary;
pub mod user;
pub mod verdict;
pub mod vm_service;
pub mod vm_status;

/// The plugin.
pub struct Kite;

impl Plugin for Kite {
    fn describe() -> Manifest {
        manifest::describe()
    }

    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
        match pass.controller() {
            names::KITE_USER => user::reconcile(pass),
            names::NAMESPACE => namespace::reconcile(pass),
            names::VIRTUAL_MACHINE => machine::reconcile(pass),
            names::VM_STATUS => vm_status::reconcile(pass),
            names::VM_SERVICE => vm_service::reconcile(pass),
            names::DATA_VOLUME => data_volume::reconcile(pass),
            other => Err(Stop::invalid(format!("Kite has no controller named {other:?}"))),
        }
    }
}

evenkeel_sdk::plugin!(Kite);
