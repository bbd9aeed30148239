//! Kite: users, namespaces, virtual machines and their disks.
//!
//! Six controllers; each is a module with the fields that it reads, one pure function and what it renders.

use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop};

pub mod api;
pub mod config;
pub mod kinds;
mod manifest;
pub mod names;
pub mod namespace;
pub mod user;

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
            other => Err(Stop::invalid(format!("Kite has no controller named {other:?}"))),
        }
    }
}

evenkeel_sdk::plugin!(Kite);
