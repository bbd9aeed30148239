//! Scenarios 89 to 106 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use crate::Kite;

const MACHINE: &str = "
- {apiVersion: v1, kind: Namespace, metadata: {name: tenant-a}}
- {apiVersion: anacnu.com/v1, kind: KiteVirtualMachine, metadata: {namespace: tenant-a, name: vm-a, uid: U1, generation: 1}, spec: {powerState: 'On'}}
";
const LABELS: &str = "labels: {kite.anacnu.com/managed-by: kite-controller, kite.anacnu.com/kite-vm-name: vm-a, kite.anacnu.com/kite-vm-namespace: tenant-a}";

fn vm(metadata: &str, rest: &str) -> String {
    format!(
        "{{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {{namespace: tenant-a, name: vm-a, {metadata}}}, {rest}}}"
    )
}

fn check(given: &[&str], expected: Expect) {
    let pass = Check::of::<Kite>("vm-status").key("tenant-a/vm-a").given(MACHINE);
    let pass = given.iter().fold(pass, |pass, given| pass.given(given));
    expected.assert_eq(&crate::machine::tests::brief(&pass.run()));
}

#[test]
fn a_machine_that_runs_is_mirrored() {
    check(
        &[&vm(LABELS, "spec: {runStrategy: Always}, status: {printableStatus: Running}")],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Running On generation=null domain=none
            VirtualMachineReady True/Running the machine is running
    "#]],
    );
}

#[test]
fn drift_is_left_to_r3() {
    check(
        &[&vm(LABELS, "spec: {runStrategy: Halted}, status: {printableStatus: Running}")],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Running On generation=null domain=none
            VirtualMachineReady True/Running the machine is running
        enqueue virtual-machine KiteVirtualMachine tenant-a/vm-a
    "#]],
    );
    check(
        &[&vm(LABELS, "spec: {runStrategy: Always, running: true}, status: {printableStatus: Running}")],
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Running On generation=null domain=none
                VirtualMachineReady True/Running the machine is running
            enqueue virtual-machine KiteVirtualMachine tenant-a/vm-a
        "#]],
    );
}

#[test]
fn a_machine_that_is_gone_is_told_to_r3() {
    check(
        &[],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning Off generation=null domain=none
            VirtualMachineReady False/Provisioning the machine is being set up
        enqueue virtual-machine KiteVirtualMachine tenant-a/vm-a
    "#]],
    );
}

#[test]
fn labels_of_another_place_are_not_believed() {
    check(
        &[&vm(&LABELS.replace("tenant-a", "tenant-b"), "spec: {}")],
        expect![[r#"
        nothing to do
    "#]],
    );
    check(
        &[&vm("labels: {}", "spec: {}")],
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_machine_that_goes_is_not_put_right() {
    let going = MACHINE.replace("generation: 1}", "generation: 1, deletionTimestamp: 2026-01-01T00:00:00Z}");
    check(
        &[&going, &vm(LABELS, "spec: {runStrategy: Halted}, status: {printableStatus: Terminating}")],
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Deleting Off generation=null domain=none
                VirtualMachineReady False/Deleting waiting for the virtual machine to go
        "#]],
    );
}

#[test]
fn r3_s_verdict_counts_for_its_generation_only() {
    let judged = |generation: u32| {
        let status = format!(
            "status: {{currentPowerState: 'On', conditions: [{{type: ResourcesApplied, status: 'False', reason: InvalidSpec, message: bad, observedGeneration: {generation}}}]}}"
        );
        MACHINE
            .replace("spec: {powerState: 'On'}", &format!("spec: {{powerState: 'On'}}, {status}"))
            .replace("generation: 1}, spec", "generation: 2}, spec")
    };
    let running = vm(LABELS, "spec: {runStrategy: Always}, status: {printableStatus: Running}");
    check(
        &[&judged(2), &running],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed On generation=null domain=none
            VirtualMachineReady False/InvalidSpec bad
    "#]],
    );
    check(
        &[&judged(1), &running],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Running On generation=null domain=none
            VirtualMachineReady True/Running the machine is running
    "#]],
    );
    let unknown = vm(LABELS, "spec: {runStrategy: Always}, status: {printableStatus: Unknown}");
    check(
        &[&judged(1), &unknown],
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Unknown On generation=null domain=none
            VirtualMachineReady Unknown/Unknown KubeVirt does not know the machine's state
    "#]],
    );
}
