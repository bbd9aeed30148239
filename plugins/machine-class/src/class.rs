//! The class controller: our finalizer holds a class while machines refer to it.

use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act};

use crate::config::{Config, EnqueueWhen};
use crate::kinds::{
    ClassHead, Machine, MachineClass, MachineDeployment, MachineHead, MachineSet, Named, place,
};
use crate::names;
use crate::words::{listed, still_refer};

#[cfg(test)]
mod tests;

/// What of a class runs its pass: its content does not, as nothing here reads it.
pub const VIEW: &[&str] = &[
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/deletionTimestamp",
    "/metadata/finalizers",
];

/// How a class stands, in the specification's numbers: what is to be done follows from it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// K1: live, referred to, without our finalizer.
    Unprotected,
    /// K2: live, referred to, held.
    Protected,
    /// K3: live, held for nobody.
    HeldForNobody,
    /// K4: live, and nobody's business.
    Unused,
    /// K5: being deleted, held as it is referred to.
    Held,
    /// K6: being deleted and referred to, and held by others at best.
    Slipping,
    /// K7: being deleted, held for nobody: let go.
    Releasable,
    /// K8: being deleted, none of our business.
    Leaving,
}

impl Standing {
    /// From what counts: is it being deleted, does anybody refer to it, does it bear our finalizer.
    pub fn of(deleting: bool, referred: bool, held: bool) -> Self {
        match (deleting, referred, held) {
            (false, true, false) => Self::Unprotected,
            (false, true, true) => Self::Protected,
            (false, false, true) => Self::HeldForNobody,
            (false, false, false) => Self::Unused,
            (true, true, true) => Self::Held,
            (true, true, false) => Self::Slipping,
            (true, false, true) => Self::Releasable,
            (true, false, false) => Self::Leaving,
        }
    }
}

/// Whether a machine that names the class holds it: by its kind, or because it has a VM whatever its kind says.
pub fn refers(machine: &MachineHead) -> bool {
    machine.spec.class.is_ours() || !machine.spec.provider_id.is_empty()
}

/// Hold the class while machines refer to it, and wake them when it is held.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(class) = pass.primary::<ClassHead>()? else { return Ok(Conclusion::new()) };
    let config: Config = pass.config()?;
    let (machines, templates) = referring(pass, &config)?;
    let key = pass.key().clone();
    let held = class.bears(names::FINALIZER);
    let referred = !machines.is_empty() || !templates.is_empty();
    let end = Conclusion::new();
    Ok(match Standing::of(class.is_deleting(), referred, held) {
        Standing::Unprotected => {
            pass.perform(vec![act::add_finalizer(key, names::FINALIZER)])?;
            let mut end = end.requeue_after(config.long_retry.0);
            if config.enqueue != EnqueueWhen::Never {
                end.extend(wake(&machines));
            }
            end
        }
        Standing::Protected => {
            let mut end = end.requeue_after(config.long_retry.0);
            if config.enqueue == EnqueueWhen::Always {
                end.extend(wake(&machines));
            }
            end
        }
        Standing::HeldForNobody => {
            end.with(act::remove_finalizer(key, names::FINALIZER)).requeue_after(config.long_retry.0)
        }
        Standing::Unused => end.requeue_after(config.long_retry.0),
        Standing::Held => end
            .with(act::warning(key, names::STILL_REFERENCED, still_referenced(&machines, &templates)))
            .requeue_after(config.short_retry.0),
        Standing::Slipping => end
            .with(act::warning(key, names::DELETED_WHILE_REFERENCED, slipping(&class)))
            .requeue_after(config.short_retry.0),
        Standing::Releasable => end.with(act::remove_finalizer(key, names::FINALIZER)),
        Standing::Leaving => end,
    })
}

/// The machines that hold the class, and the names of the templates that do where the operator wants them to.
fn referring(pass: &Pass, config: &Config) -> Result<(Vec<MachineHead>, Vec<String>), Stop> {
    let namespace = pass.namespace();
    let machines =
        pass.list::<MachineHead>().namespace(namespace).field("/spec/class/name", pass.name()).ask();
    let template = "/spec/template/spec/class/name";
    let templates = config.guard_templates.then(|| {
        (
            pass.list::<MachineSet>().namespace(namespace).field(template, pass.name()).ask(),
            pass.list::<MachineDeployment>().namespace(namespace).field(template, pass.name()).ask(),
        )
    });
    let machines = machines.read()?.into_iter().filter(refers).collect();
    let Some((sets, deployments)) = templates else { return Ok((machines, Vec::new())) };
    let heads = [
        sets.read()?.into_iter().map(|set| ("MachineSet", set.0)).collect::<Vec<_>>(),
        deployments.read()?.into_iter().map(|deployment| ("MachineDeployment", deployment.0)).collect(),
    ];
    let users = heads.into_iter().flatten().filter(|(_, head)| head.spec.template.spec.class.is_ours());
    Ok((machines, users.map(|(kind, head)| format!("{kind} {}", head.name())).collect()))
}

/// Every machine that is to have a VM, in the order that they were listed. It is a hint: each looks at its class itself.
fn wake(machines: &[MachineHead]) -> impl Iterator<Item = Action> {
    machines
        .iter()
        .filter(|machine| !machine.is_deleting())
        .map(|machine| act::enqueue(names::MACHINE, place::<Machine>(machine.namespace(), machine.name())))
}

fn still_referenced(machines: &[MachineHead], templates: &[String]) -> String {
    let names = |machines: &[MachineHead]| {
        machines.iter().map(|machine| machine.name().to_owned()).collect::<Vec<_>>()
    };
    match (machines.is_empty(), templates.is_empty()) {
        (_, true) => still_refer("machine", "this class", &names(machines)),
        (true, false) => still_refer("template", "this class", templates),
        (false, false) => {
            format!(
                "{}; templates: {}",
                still_refer("machine", "this class", &names(machines)),
                listed(templates)
            )
        }
    }
}

fn slipping(class: &ClassHead) -> String {
    let held_by = match class.finalizers() {
        [] => "no finalizer".to_owned(),
        finalizers => listed(finalizers),
    };
    format!(
        "machines refer to this class, and it can no longer be given the finalizer {}: only {held_by} holds it",
        names::FINALIZER
    )
}

/// The place of a class.
pub(crate) fn reference(namespace: &str, name: &str) -> evenkeel_sdk::ObjectRef {
    place::<MachineClass>(namespace, name)
}
