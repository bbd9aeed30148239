//! R4: what KubeVirt says about a machine, in the machine's status.

use evenkeel_sdk::{Conclusion, Pass, Stop, act};

use crate::api::KiteVirtualMachine;
use crate::evidence::{self, Evidence, MACHINE_VIEW};
use crate::identity::Identity;
use crate::kinds::VirtualMachine;
use crate::names;
use crate::ownership::labelled_machine;
use crate::spec::Power;
use crate::status::Draft;

#[cfg(test)]
mod tests;

/// Mirror the state of KubeVirt's machine, and have R3 put it right where its power is not what the user wants.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let (namespace, name) = (pass.namespace(), pass.name());
    let vm = pass.primary::<VirtualMachine>()?;
    let is_gone = vm.is_none();
    // Labels are anybody's to write: they count only where they name the object's own place.
    let seen = if is_gone { pass.last_seen::<VirtualMachine>()? } else { vm };
    if seen.is_some_and(|vm| labelled_machine(&vm.metadata) != Some(name)) {
        return Ok(Conclusion::new());
    }
    let machine = pass.get::<KiteVirtualMachine>((namespace, name)).view(MACHINE_VIEW).ask();
    let questions = evidence::ask(pass, namespace, name);
    let Some(machine) = machine.read()? else { return Ok(Conclusion::new()) };
    let evidence = questions.read()?;
    let id = Identity::of(&machine);
    if !is_gone && evidence.own_vm(&id).is_none() {
        return Ok(Conclusion::new());
    }

    let summary = evidence.summary_by_status(&machine);
    let mut draft = Draft::summarized(&machine, evidence.now, &summary);
    let node = evidence.own_instance(&id).and_then(|instance| instance.status.node_name.clone());
    draft.fields.node_name = node.filter(|node| !node.is_empty());
    let mut end = Conclusion::new().with(draft.into_action());
    if !evidence.is_deleting(&machine) && (is_gone || has_drifted(&evidence, &machine, &id)) {
        end.push(act::enqueue(names::VIRTUAL_MACHINE, id.reference()));
    }
    Ok(match summary.again_after {
        Some(wait) => end.requeue_after(wait),
        None => end,
    })
}

/// Whether KubeVirt was told something else than the user wants.
fn has_drifted(evidence: &Evidence, machine: &KiteVirtualMachine, id: &Identity) -> bool {
    let wanted = Power::wanted(&machine.spec).map(Power::run_strategy);
    let is_other = |vm: &VirtualMachine| wanted.is_some() && vm.spec.run_strategy.as_deref() != wanted;
    evidence.own_vm(id).is_some_and(|vm| vm.spec.running.is_some() || is_other(vm))
}
