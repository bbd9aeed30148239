//! Whether anything is done about a machine at all.

use crate::api::VSphereMachine;
use crate::names;

/// What comes before everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It is left as it is, and says so.
    Pause,
    /// Its finalizer comes first, so that no VM outlives its object.
    Finalize,
    /// It has no need of us: it goes and was never ours, or cannot be helped.
    Ignore,
    /// Go on.
    Go,
}

/// Whether anything is done about a machine.
pub fn gate(machine: &VSphereMachine) -> Gate {
    let metadata = &machine.metadata;
    let is_annotated = |key: &str| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let is_deleting = metadata.deletion_timestamp.is_some();
    let is_held = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::FINALIZER);
    let has_failed = machine.status.as_ref().and_then(|status| status.failure_reason.as_deref());
    if is_annotated(names::PAUSED) || is_annotated(names::MAINTENANCE) {
        Gate::Pause
    } else if is_deleting {
        if is_held { Gate::Go } else { Gate::Ignore }
    } else if !is_held {
        Gate::Finalize
    } else if has_failed.is_some_and(|reason| !reason.is_empty()) {
        Gate::Ignore
    } else {
        Gate::Go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metadata: &str, status: &str, expected: Gate) {
        let text = format!(
            "{{metadata: {{name: m, {metadata}}}, spec: {{server: v, template: t, datacenter: d, network: {{devices: []}}}}, status: {{{status}}}}}"
        );
        let machine: VSphereMachine = serde_saphyr::from_str(&format!(
            "{{apiVersion: {}/v1alpha1, kind: VSphereMachine, {}",
            names::GROUP,
            &text[1..]
        ))
        .unwrap();
        assert_eq!(gate(&machine), expected, "{text}");
    }

    const HELD: &str = "finalizers: [vspheremachine.infrastructure.reconcilers.dev]";
    const GOES: &str = "deletionTimestamp: '2026-01-01T00:00:00Z'";

    #[test]
    fn a_machine_gets_its_finalizer_first() {
        check("", "", Gate::Finalize);
        check(HELD, "", Gate::Go);
    }

    #[test]
    fn a_machine_that_goes_is_ours_while_our_finalizer_holds_it() {
        check(&format!("{HELD}, {GOES}"), "", Gate::Go);
        check(&format!("finalizers: [other], {GOES}"), "", Gate::Ignore);
    }

    #[test]
    fn a_machine_that_cannot_be_helped_can_still_be_deleted() {
        check(HELD, "failureReason: InvalidConfiguration", Gate::Ignore);
        check(HELD, "failureReason: ''", Gate::Go);
        check(&format!("{HELD}, {GOES}"), "failureReason: InvalidConfiguration", Gate::Go);
    }

    #[test]
    fn a_paused_machine_is_left_alone_whatever_else_it_is() {
        check("annotations: {cluster.x-k8s.io/paused: ''}", "", Gate::Pause);
        check(
            &format!("{HELD}, {GOES}, annotations: {{capv.infrastructure.reconcilers.dev/maintenance: x}}"),
            "",
            Gate::Pause,
        );
        check("annotations: {other/paused: ''}", "", Gate::Finalize);
    }
}
