//! R3: everything that makes up a machine: disk, login, KubeVirt's machine, Services, Ingress; and its end.

use evenkeel_sdk::{Conclusion, Pass, Stop};

use crate::api::KiteVirtualMachine;
use crate::identity::Identity;

mod deletion;
mod desired;
mod disk;
mod parts;
mod plan;
mod status;

#[cfg(test)]
pub(crate) mod tests;

/// What R3 reads of a machine. Of the status only what it has to remember: its own writes run no pass.
pub const VIEW: &[&str] = &[
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/deletionTimestamp",
    "/metadata/finalizers",
    "/metadata/annotations/kite.anacnu.com~1allow-disk-recreate",
    "/spec",
    "/status/dataVolumePhase",
];

/// Bring a machine's parts about, or take them down, and say in the status how far it is.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(machine) = pass.primary::<KiteVirtualMachine>()? else { return Ok(Conclusion::new()) };
    let uid = machine.metadata.uid.clone().unwrap_or_default();
    let id = Identity { namespace: pass.namespace().to_owned(), name: pass.name().to_owned(), uid };
    let parts = parts::ask(pass, &id).read()?;
    if parts.evidence.is_deleting(&machine) {
        return Ok(deletion::conclude(&machine, &id, &parts));
    }
    desired::conclude(pass, &machine, &id, &parts)
}
