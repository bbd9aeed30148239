//! The machine controller: a VM for each Machine, its Node looked after, and all of it gone with the Machine.

use evenkeel_sdk::{Conclusion, Pass, Stop, act};

use crate::config::Config;
use crate::kinds::{Machine, Named};
use crate::names;

pub mod content;
pub mod creation;
pub mod deletion;
pub mod drain;
pub mod driver;
mod emptying;
pub mod gate;
pub mod health;
pub mod live;
pub mod node;
mod owned;
pub mod preservation;
pub mod status;
#[cfg(test)]
mod tests;
pub mod token;
pub mod update;
pub mod user_data;

/// What of a Machine runs its pass. Its status does not: nobody but this controller writes it, and its own writes are no
/// news to it.
pub const VIEW: &[&str] = &[
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/finalizers",
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
    "/spec",
];

/// Bring the Machine one step closer to what it shall be.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(machine) = pass.primary::<Machine>()? else { return Ok(Conclusion::new()) };
    let config: Config = pass.config()?;
    if !config.machines {
        return Ok(Conclusion::new());
    }
    if machine.is_deleting() {
        return deletion::reconcile(pass, &machine, &config);
    }
    if !machine.bears(names::FINALIZER) {
        // Before anything else, also on a machine that came with a VM: its change runs the next pass.
        return Ok(Conclusion::from(act::add_finalizer(pass.key().clone(), names::FINALIZER)));
    }
    let needs_vm = match machine.phase() {
        "" | "CrashLoopBackOff" => true,
        // Its set replaces it.
        "Failed" => false,
        _ => machine.spec.provider_id.is_empty(),
    };
    if needs_vm {
        creation::reconcile(pass, &machine, &config)
    } else {
        live::reconcile(pass, &machine, &config)
    }
}
