//! Scenarios 60 to 78: the end of a machine.

use expect_test::{Expect, expect};
use serde_json::Value;

use super::world::*;

const HAS_VM: &str = "machineRef: vm-7, instanceUUID: u-1, operations: 4";

fn task_of(operation: &str, started_at: &str) -> String {
    format!("{HAS_VM}, taskRef: task-1, task: {{operation: {operation}, startedAt: '{started_at}'}}")
}

/// A VM that runs, of a machine that is switched off in this way.
fn soft(mode: &str, status: &str, tools: bool) -> World {
    let spec = format!("powerOffMode: {mode}");
    with("deletionTimestamp: '2026-01-01T11:00:00Z'", &spec, &format!("{HAS_VM}{status}"))
        .by_reference(&vm(&format!("power: 'on', toolsRunning: {tools}, guestStateChangeSupported: true")))
}

fn going(status: &str, vm: &Value, expected: Expect) {
    deleted(status).by_reference(vm).check(expected);
}

#[test]
fn s60_a_machine_that_never_had_a_vm_goes_at_once() {
    deleted("").nowhere().check(expect![[r#"
        removes the finalizer
    "#]]);
}

#[test]
fn s61_a_clone_in_flight_is_waited_for() {
    deleted(&task_of("Clone", JUST_NOW)).task("state: running").check(expect![[r#"
        status machineRef=vm-7 task=Clone taskRef=task-1
          VirtualMachineProvisioned False Deleting: Clone is in flight
        again after 5s
    "#]]);
}

#[test]
fn s62_what_it_made_is_destroyed() {
    deleted(&task_of("Clone", JUST_NOW)).task("state: success, vm: vm-7").by_reference(&vm("")).check(
        expect![[r#"
        u-1/destroy/4
        status machineRef=vm-7 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s63_a_clone_that_failed_keeps_nobody_waiting() {
    deleted(&task_of("Clone", JUST_NOW)).nowhere().task("state: error, fault: {type: A, message: b}").check(
        expect![[r#"
        event Warning TaskFailed: Clone: A: b
        removes the finalizer
    "#]],
    );
}

#[test]
fn s64_a_running_vm_is_switched_off_first() {
    going(
        HAS_VM,
        &running("10.0.0.5"),
        expect![[r#"
        u-1/power-off/4
        status machineRef=vm-7 task=PowerOff taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being switched off
        event Normal TaskStarted: PowerOff: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s65_then_it_is_destroyed() {
    deleted(&task_of("PowerOff", JUST_NOW)).task("state: success").by_reference(&vm("")).check(expect![[
        r#"
        u-1/destroy/4
        status machineRef=vm-7 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#
    ]]);
}

#[test]
fn s66_s67_then_the_object_goes() {
    deleted(&task_of("Destroy", JUST_NOW)).nowhere().task("state: success").check(expect![[r#"
        removes the finalizer
    "#]]);
    deleted(&task_of("Destroy", JUST_NOW))
        .nowhere()
        .task("state: error, fault: {type: ManagedObjectNotFound}")
        .check(expect![[r#"
            removes the finalizer
        "#]]);
}

#[test]
fn s68_a_vm_that_cannot_be_destroyed_says_why_and_is_tried_again() {
    deleted(&task_of("Destroy", JUST_NOW))
        .task("state: error, fault: {type: FileLocked, message: a file is locked}")
        .check(expect![[r#"
            status machineRef=vm-7 retry=Destroyx1 retryAfter=2026-01-01T12:01:00Z
              VirtualMachineProvisioned False Deleting: Destroy: FileLocked: a file is locked
            event Warning TaskFailed: Destroy: FileLocked: a file is locked
            again after 60s
        "#]]);
    let held = "retry: {operation: Destroy, failures: 1}, retryAfter: '2026-01-01T12:00:30Z', conditions: [{type: VirtualMachineProvisioned, status: 'False', reason: Deleting, message: 'Destroy: FileLocked'}]";
    deleted(&format!("{HAS_VM}, {held}")).check(expect![[r#"
        status machineRef=vm-7 retry=Destroyx1 retryAfter=2026-01-01T12:00:30Z
          VirtualMachineProvisioned False Deleting: Destroy: FileLocked
        again after 30s
    "#]]);
}

#[test]
fn a_wait_for_what_no_longer_matters_is_not_waited_for() {
    let held = "retry: {operation: PowerOn, failures: 1}, retryAfter: '2026-01-01T12:00:30Z'";
    deleted(&format!("{HAS_VM}, {held}")).by_reference(&vm("")).check(expect![[r#"
        u-1/destroy/4
        status machineRef=vm-7 retry=PowerOnx1 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#]]);
}

#[test]
fn s69_a_guest_is_asked_to_shut_down() {
    soft("trySoft", "", true).outcome("shutdown-guest", "{result: done}").check(expect![[r#"
        u-1/shutdown-guest/4
        status guestShutdownAt=2026-01-01T12:00:00Z machineRef=vm-7
          VirtualMachineProvisioned False Deleting: the guest is shutting down
          GuestSoftPowerOffSucceeded False InProgress: the guest is shutting down
        again after 20s
    "#]]);
}

#[test]
fn s69_it_is_asked_once() {
    soft("trySoft", ", guestShutdownAt: '2026-01-01T11:59:55Z'", true).check(expect![[r#"
        status guestShutdownAt=2026-01-01T11:59:55Z machineRef=vm-7
          VirtualMachineProvisioned False Deleting: the guest is shutting down
          GuestSoftPowerOffSucceeded False InProgress: the guest is shutting down
        again after 20s
    "#]]);
}

#[test]
fn s70_after_its_time_it_is_switched_off() {
    soft("trySoft", ", guestShutdownAt: '2026-01-01T11:55:00Z'", true).check(expect![[r#"
        u-1/power-off/4
        status guestShutdownAt=2026-01-01T11:55:00Z machineRef=vm-7 task=PowerOff taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being switched off
          GuestSoftPowerOffSucceeded False Failed: the guest does not shut down: the VM is switched off
        event Normal TaskStarted: PowerOff: task-9
        again after 2s
    "#]]);
    soft("soft", ", guestShutdownAt: '2026-01-01T11:55:00Z'", true).check(expect![[r#"
        status guestShutdownAt=2026-01-01T11:55:00Z machineRef=vm-7
          VirtualMachineProvisioned False Deleting: the guest is shutting down
          GuestSoftPowerOffSucceeded False InProgress: the guest is shutting down
        again after 20s
    "#]]);
}

#[test]
fn s71_s72_a_guest_that_cannot_be_asked() {
    soft("soft", "", false).check(expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False Deleting: the guest cannot be asked to shut down: VMware Tools do not run
          GuestSoftPowerOffSucceeded False Failed: the guest cannot be asked to shut down: VMware Tools do not run
        event Warning GuestSoftPowerOffFailed: the guest cannot be asked to shut down: VMware Tools do not run
        again after 20s
    "#]]);
    soft("trySoft", "", false).check(expect![[r#"
        u-1/power-off/4
        status machineRef=vm-7 task=PowerOff taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being switched off
          GuestSoftPowerOffSucceeded False Failed: the guest does not shut down: the VM is switched off
        event Normal TaskStarted: PowerOff: task-9
        again after 2s
    "#]]);
}

#[test]
fn a_guest_that_turns_out_not_to_listen_is_switched_off_in_its_stead() {
    let fault = "{result: fault, fault: {type: ToolsUnavailable}}";
    soft("trySoft", "", true).outcome("shutdown-guest", fault).check(expect![[r#"
        u-1/shutdown-guest/4
        u-1/power-off/4
        status machineRef=vm-7 task=PowerOff taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being switched off
          GuestSoftPowerOffSucceeded False Failed: the guest cannot be asked to shut down: ToolsUnavailable
        event Normal TaskStarted: PowerOff: task-9
        again after 2s
    "#]]);
    soft("soft", "", true).outcome("shutdown-guest", fault).check(expect![[r#"
        u-1/shutdown-guest/4
        status machineRef=vm-7
          VirtualMachineProvisioned False Deleting: the guest cannot be asked to shut down: ToolsUnavailable
          GuestSoftPowerOffSucceeded False Failed: the guest cannot be asked to shut down: ToolsUnavailable
        event Warning GuestSoftPowerOffFailed: the guest cannot be asked to shut down: ToolsUnavailable
        again after 20s
    "#]]);
}

#[test]
fn a_guest_that_shut_down_is_told_of() {
    going(
        &format!("{HAS_VM}, guestShutdownAt: '2026-01-01T11:55:00Z'"),
        &vm(""),
        expect![[r#"
        u-1/destroy/4
        status guestShutdownAt=2026-01-01T11:55:00Z machineRef=vm-7 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
          GuestSoftPowerOffSucceeded True Succeeded
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s73_a_suspended_vm_is_destroyed_as_it_is() {
    going(
        HAS_VM,
        &vm("power: suspended"),
        expect![[r#"
        u-1/destroy/4
        status machineRef=vm-7 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s74_a_lookup_that_is_forbidden_keeps_the_object() {
    let forbidden = "{result: unknown, reason: NoPermission, message: no right to look for VMs in /DC0}";
    deleted("").answer("vm-by-uuid", "{}", forbidden).check(expect![[r#"
        status
          VirtualMachineProvisioned False Deleting: no right to look for VMs in /DC0
        fails (FailureKind::Transient): no right to look for VMs in /DC0
    "#]]);
    deleted("").answer("vm-by-uuid", "{}", UNREACHABLE).check(expect![[r#"
        status
          VirtualMachineProvisioned False Deleting: vCenter vc does not answer
          VCenterAvailable False VCenterUnreachable: vCenter vc does not answer
        fails (FailureKind::Transient): vCenter vc does not answer
    "#]]);
}

#[test]
fn s76_a_stranger_of_its_name_is_left_alone() {
    let stranger =
        "{result: hit, vm: {vm: vm-99, name: m-0, power: 'on', accessible: true, instanceUuid: u-99}}";
    deleted("nameTakenSince: '2026-01-01T11:00:00Z'").nowhere().answer("vm-by-name", "{}", stranger).check(
        expect![[r#"
        removes the finalizer
    "#]],
    );
}

#[test]
fn s77_a_machine_that_was_given_up_is_cleaned_up_all_the_same() {
    going(
        &format!("{HAS_VM}, failureReason: InvalidConfiguration"),
        &vm(""),
        expect![[r#"
        u-1/destroy/4
        status failureReason=InvalidConfiguration machineRef=vm-7 task=Destroy taskRef=task-9
          VirtualMachineProvisioned False Deleting: the VM is being destroyed
        event Normal TaskStarted: Destroy: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s78_a_vm_that_went_off_by_itself_is_destroyed() {
    deleted(&task_of("PowerOff", JUST_NOW))
        .task("state: error, fault: {type: InvalidPowerState, existing: poweredOff, requested: poweredOff}")
        .by_reference(&vm(""))
        .check(expect![[r#"
            u-1/destroy/4
            status machineRef=vm-7 task=Destroy taskRef=task-9
              VirtualMachineProvisioned False Deleting: the VM is being destroyed
            event Normal TaskStarted: Destroy: task-9
            again after 2s
        "#]]);
}

#[test]
fn a_vm_that_is_not_ours_is_never_destroyed() {
    deleted(HAS_VM)
        .answer("vm-by-uuid", "{}", ABSENT)
        .by_reference(&vm("instanceUuid: u-2, biosUuid: b-2, owner: ns/other/u-2"))
        .check(expect![[r#"
            removes the finalizer
        "#]]);
}

#[test]
fn before_the_object_goes_its_vm_is_looked_for_by_both_uuids() {
    with("deletionTimestamp: '2026-01-01T11:00:00Z'", "providerID: vsphere://b-1", "instanceUUID: u-1")
        .answer("vm-by-uuid", "{kind: bios}", ABSENT)
        .by_uuid(&vm("biosUuid: b-2"))
        .check(expect![[r#"
            u-1/destroy/0
            status machineRef=vm-7 task=Destroy taskRef=task-9
              VirtualMachineProvisioned False Deleting: the VM is being destroyed
            event Normal TaskStarted: Destroy: task-9
            again after 2s
        "#]]);
}

#[test]
fn a_clone_whose_task_was_never_noted_is_waited_for() {
    let begun = |at: &str| {
        deleted(&format!("operations: 0, task: {{operation: Clone, startedAt: '{at}'}}")).nowhere()
    };
    begun(JUST_NOW).answer("vm-by-name", "{}", ABSENT).check(expect![[r#"
        status task=Clone
          VirtualMachineProvisioned False Deleting: a clone that was begun earlier is awaited
        again after 2s
    "#]]);
    begun(LONG_AGO).answer("vm-by-name", "{}", ABSENT).check(expect![[r#"
        removes the finalizer
    "#]]);
    let in_the_making = "{result: hit, vm: {vm: vm-8, name: m-0, power: 'off', accessible: false}}";
    begun(LONG_AGO).answer("vm-by-name", "{}", in_the_making).check(expect![[r#"
        status task=Clone
          VirtualMachineProvisioned False Deleting: a clone that was begun earlier is awaited
        again after 20s
    "#]]);
}

#[test]
fn a_machine_without_our_finalizer_is_none_of_our_business() {
    with("deletionTimestamp: '2026-01-01T11:00:00Z', finalizers: [other]", "", HAS_VM).check(expect![[r#"
        nothing
    "#]]);
}
