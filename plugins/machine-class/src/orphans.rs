//! VMs that no machine owns: what is left where an answer was lost, a machine was taken away by force, or one has two VMs.
//!
//! A VM is deleted only where the API server itself shows no machine for it, and only when it had none a whole period ago and
//! ever since: the host looks at the API server before each deletion, and the provider keeps the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, LogLevel, Pass, Stop, act};

use crate::class;
use crate::config::Config;
use crate::duration::GoDuration;
use crate::kinds::{Machine, MachineClass, MachineHead, Named};
use crate::machine::content::Content;
use crate::machine::driver::{Class, ClassCall, Collected, DriverError, Fate, Listed};
use crate::names;

#[cfg(test)]
mod tests;

/// What of a class runs the search anew: where its VMs are, and who may see them.
pub const VIEW: &[&str] = &[
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/provider",
    "/providerSpec",
    "/secretRef",
    "/credentialsSecretRef",
];

/// Look through the VMs of a class.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(class) = pass.primary::<MachineClass>()? else { return Ok(Conclusion::new()) };
    let config: Config = pass.config()?;
    let period = config.orphans.0;
    if !config.machines || period.is_zero() {
        return Ok(Conclusion::new());
    }
    // Whoever asks for the time is run when it has come.
    let now = pass.clock();
    let content = Content::of(pass, class)?;
    now.read()?;
    if !content.missing_secrets.is_empty() {
        return Ok(Conclusion::new());
    }
    let call = ClassCall::of(&content);
    let (vms, suspected) = match call.list(pass)? {
        Listed::Done { machines, suspected } => (machines, suspected),
        Listed::Failed(error) => return Ok(cannot_list(pass, &error, period)),
    };
    let orphans = if vms.is_empty() { BTreeMap::new() } else { unowned(pass, vms)? };
    if orphans.is_empty() && suspected.is_empty() {
        return Ok(Conclusion::new().requeue_after(period));
    }
    // Also where none is left, so that what was one is none any more.
    let collected = call.collect(pass, &orphans, period)?;
    Ok(tell(pass, &config, &orphans, &collected))
}

/// A driver that cannot list is not asked again.
fn cannot_list(pass: &Pass, error: &DriverError, period: Duration) -> Conclusion {
    if error.class() == Class::Unimplemented {
        return Conclusion::new();
    }
    pass.log(LogLevel::Warn, format!("the VMs of the class cannot be listed: {}", error.message));
    Conclusion::new().requeue_after(period)
}

/// Those of the VMs that no machine owns. A machine without a VM may get the one that bears its name.
fn unowned(pass: &Pass, vms: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Stop> {
    let machines = pass.list::<MachineHead>().namespace(pass.namespace());
    let machines = machines.view(&["/metadata/name", "/spec/providerID"]).read()?;
    let owned: BTreeSet<&str> = machines.iter().map(|machine| machine.spec.provider_id.as_str()).collect();
    let without = machines.iter().filter(|machine| machine.spec.provider_id.is_empty());
    let wanting: BTreeSet<&str> = without.map(MachineHead::name).collect();
    let is_nobodys = |id: &str, name: &str| !owned.contains(id) && !wanting.contains(name);
    Ok(vms.into_iter().filter(|(id, name)| is_nobodys(id, name)).collect())
}

/// Says what is found and done, and when to look again.
fn tell(
    pass: &Pass,
    config: &Config,
    orphans: &BTreeMap<String, String>,
    collected: &[Collected],
) -> Conclusion {
    let period = config.orphans.0;
    let mut end = Conclusion::new();
    let mut again = period;
    for Collected { provider_id, fate } in collected {
        let about = || pass.key().clone();
        let machine = orphans.get(provider_id).map(String::as_str).unwrap_or_default();
        match fate {
            Fate::Waits { seconds } => {
                again = again.min(Duration::from_secs(*seconds));
                let message = format!(
                    "VM {provider_id} was made for machine {machine} and is no machine's: it is deleted unless that changes within {}",
                    GoDuration(period)
                );
                end.push(act::warning(about(), names::ORPHAN_FOUND, message));
            }
            Fate::Going => again = again.min(config.short_retry.0),
            Fate::Deleted => {
                let message =
                    format!("VM {provider_id} of machine {machine} was deleted: it was no machine's");
                end.push(act::normal(about(), names::ORPHAN_DELETED, message));
            }
            Fate::Failed { message } => {
                let message = format!("VM {provider_id} is no machine's and cannot be deleted: {message}");
                end.push(act::warning(about(), names::ORPHAN_KEPT, message));
            }
        }
    }
    end.requeue_after(again)
}

/// The search that a machine asks for of which the driver knows several VMs.
pub(crate) fn search(machine: &Machine, error: &DriverError) -> Option<Action> {
    let class = &machine.spec.class.name;
    (error.is_ambiguous() && !class.is_empty())
        .then(|| act::enqueue(names::ORPHANS, class::reference(machine.namespace(), class)))
}
