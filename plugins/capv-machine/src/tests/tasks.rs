//! Scenarios 1 to 22, 83 and 86: pre-checks, a task and what comes of it.

use expect_test::expect;

use super::world::*;

/// A clone that was started at that time.
fn clone_since(time: &str) -> String {
    format!(
        "taskRef: task-1, instanceUUID: u-1, operations: 1, task: {{operation: Clone, startedAt: '{time}'}}"
    )
}

fn task_of(operation: &str) -> String {
    format!(
        "taskRef: task-1, machineRef: vm-7, instanceUUID: u-1, operations: 3, task: {{operation: {operation}, startedAt: '{JUST_NOW}'}}"
    )
}

const FAILED: &str = "retry: {operation: Clone, failures: 1}, conditions: [{type: VirtualMachineProvisioned, status: 'False', reason: TaskFailed, message: 'Clone: A: b', lastTransitionTime: '2026-01-01T11:00:00Z'}]";

#[test]
fn s1_a_new_machine_gets_its_finalizer_before_anything_else() {
    with("finalizers: []", "", "").check(expect![[r#"
        adds the finalizer
    "#]]);
}

#[test]
fn s2_a_machine_without_a_vm_is_cloned() {
    machine("").nowhere().placed().check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s3_s4_a_task_in_flight_is_waited_for() {
    machine(&clone_since(JUST_NOW)).task("state: queued").check(expect![[r#"
        status task=Clone taskRef=task-1
        again after 5s
    "#]]);
    machine(&clone_since(LONG_AGO)).task("state: running").check(expect![[r#"
        status task=Clone taskRef=task-1
        again after 20s
    "#]]);
}

#[test]
fn s5_the_result_of_a_clone_is_the_machines_vm() {
    machine(&clone_since(JUST_NOW))
        .task("state: success, vm: vm-7")
        .by_reference(&vm("extraConfig: {}"))
        .check(expect![[r#"
            u-1/reconfigure/1/9d2b30b35bab
            status machineRef=vm-7 task=Reconfigure taskRef=task-9
              VirtualMachineProvisioned False Reconfiguring
            event Normal TaskStarted: Reconfigure: task-9
            again after 2s
        "#]]);
}

#[test]
fn s6_a_clone_without_a_result_is_found_by_its_uuid() {
    machine(&clone_since(JUST_NOW)).task("state: success").by_uuid(&vm("extraConfig: {}")).check(expect![[
        r#"
            u-1/reconfigure/1/9d2b30b35bab
            status machineRef=vm-7 task=Reconfigure taskRef=task-9
              VirtualMachineProvisioned False Reconfiguring
            event Normal TaskStarted: Reconfigure: task-9
            again after 2s
        "#
    ]]);
}

#[test]
fn s7_a_failed_task_is_told_as_vcenter_tells_it_and_retried_after_a_minute() {
    machine(&clone_since(JUST_NOW))
        .task("state: error, fault: {type: NoCompatibleHost, message: No host is compatible with the virtual machine.}")
        .check(expect![[r#"
            status retry=Clonex1 retryAfter=2026-01-01T12:01:00Z
              VirtualMachineProvisioned False TaskFailed: Clone: NoCompatibleHost: No host is compatible with the virtual machine.
            event Warning TaskFailed: Clone: NoCompatibleHost: No host is compatible with the virtual machine.
            again after 60s
        "#]]);
}

#[test]
fn s8_until_then_nothing_is_done() {
    machine(&format!("retryAfter: '2026-01-01T12:00:30Z', {FAILED}")).check(expect![[r#"
        status retry=Clonex1 retryAfter=2026-01-01T12:00:30Z
          VirtualMachineProvisioned False TaskFailed: Clone: A: b
        again after 30s
    "#]]);
}

#[test]
fn s9_then_it_is_tried_again() {
    machine(&format!("retryAfter: '2026-01-01T12:00:00Z', {FAILED}")).nowhere().placed().check(expect![[
        r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone retry=Clonex1 task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#
    ]]);
}

#[test]
fn s10_the_second_failure_in_a_row_waits_for_two_minutes() {
    machine(&format!("{}, {FAILED}", clone_since(JUST_NOW)))
        .task("state: error, fault: {type: A, message: b}")
        .check(expect![[r#"
            status retry=Clonex2 retryAfter=2026-01-01T12:02:00Z
              VirtualMachineProvisioned False TaskFailed: Clone: A: b
            event Warning TaskFailed: Clone: A: b
            again after 120s
        "#]]);
}

#[test]
fn s11_a_name_that_our_own_vm_has_is_no_failure() {
    machine(&clone_since(JUST_NOW))
        .task("state: error, fault: {type: DuplicateName, message: taken}")
        .by_uuid(&vm("extraConfig: {}"))
        .check(expect![[r#"
            u-1/reconfigure/1/9d2b30b35bab
            status machineRef=vm-7 task=Reconfigure taskRef=task-9
              VirtualMachineProvisioned False Reconfiguring
            event Normal TaskStarted: Reconfigure: task-9
            again after 2s
        "#]]);
}

#[test]
fn s12_a_name_that_a_stranger_has_is_a_conflict() {
    machine(&clone_since(JUST_NOW))
        .task("state: error, fault: {type: DuplicateName, message: taken}")
        .nowhere()
        .answer(
            "vm-by-name",
            "{name: m-0}",
            "{result: hit, vm: {vm: vm-99, name: m-0, power: 'on', accessible: true}}",
        )
        .check(expect![[r#"
            status nameTakenSince=2026-01-01T12:00:00Z
              VirtualMachineProvisioned False NameConflict: vm-99 has the name m-0 and is not this machine's
            event Warning NameConflict: vm-99 has the name m-0 and is not this machine's
            again after 60s
        "#]]);
}

#[test]
fn s13_a_clone_of_ours_that_still_runs_is_waited_for() {
    let taken = || {
        machine("")
            .nowhere()
            .placed()
            .outcome("clone", "{result: fault, fault: {type: DuplicateName, message: taken}}")
    };
    taken()
        .answer(
            "vm-by-name",
            "{name: m-0}",
            "{result: hit, vm: {vm: vm-8, name: m-0, power: 'off', accessible: false}}",
        )
        .check(expect![[r#"
            notes that it begins
            u-1/clone/0
            status cloneMode=fullClone nameTakenSince=2026-01-01T12:00:00Z
              VirtualMachineProvisioned False WaitingForClone: a clone that was begun earlier is awaited
            again after 20s
        "#]]);
    taken().answer("vm-by-name", "{name: m-0}", ABSENT).check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone nameTakenSince=2026-01-01T12:00:00Z retryAfter=2026-01-01T12:00:20Z
          VirtualMachineProvisioned False WaitingForClone: a clone that was begun earlier is awaited
        again after 20s
    "#]]);
}

#[test]
fn s13_after_ten_minutes_it_is_a_conflict_after_all() {
    machine("nameTakenSince: '2026-01-01T11:50:00Z'")
        .nowhere()
        .answer("vm-by-name", "{name: m-0}", "{result: hit, vm: {vm: vm-8, name: m-0, power: 'off', accessible: false}}")
        .check(expect![[r#"
            status nameTakenSince=2026-01-01T11:50:00Z retryAfter=2026-01-01T12:01:00Z
              VirtualMachineProvisioned False NameConflict: the name m-0 is taken, and not by a VM of this machine
            event Warning NameConflict: the name m-0 is taken, and not by a VM of this machine
            again after 60s
        "#]]);
}

#[test]
fn s14_a_fresh_task_that_is_not_listed_yet_is_kept() {
    machine(&clone_since(JUST_NOW)).answer("task", "{}", ABSENT).check(expect![[r#"
        status task=Clone taskRef=task-1
        again after 2s
    "#]]);
}

#[test]
fn s15_of_a_forgotten_clone_the_vm_tells() {
    machine(&clone_since(LONG_AGO)).answer("task", "{}", ABSENT).by_uuid(&vm("extraConfig: {}")).check(
        expect![[r#"
            u-1/reconfigure/1/9d2b30b35bab
            status machineRef=vm-7 task=Reconfigure taskRef=task-9
              VirtualMachineProvisioned False Reconfiguring
            event Normal TaskStarted: Reconfigure: task-9
            again after 2s
        "#]],
    );
}

#[test]
fn s16_a_forgotten_clone_without_a_vm_is_repeated() {
    machine(&clone_since(LONG_AGO)).answer("task", "{}", ABSENT).nowhere().placed().check(expect![[r#"
        notes that it begins
        u-1/clone/1
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s17_a_task_that_cannot_be_read_changes_nothing() {
    machine(&clone_since(LONG_AGO)).answer("task", "{}", UNREACHABLE).check(expect![[r#"
        status task=Clone taskRef=task-1
          VCenterAvailable False VCenterUnreachable: vCenter vc does not answer
        fails (FailureKind::Transient): vCenter vc does not answer
    "#]]);
}

#[test]
fn s18_once_vcenter_answers_again_it_is_available() {
    let lost =
        "conditions: [{type: VCenterAvailable, status: 'False', reason: VCenterUnreachable, message: away}]";
    let checked = machine(&format!("{}, {lost}", clone_since(JUST_NOW))).task("state: running").run();
    assert!(
        checked.to_string().contains(r#""reason":"Available","status":"True","type":"VCenterAvailable""#)
            || checked
                .to_string()
                .contains(r#""type":"VCenterAvailable","status":"True","reason":"Available""#),
        "{checked}"
    );
}

#[test]
fn s19_a_state_that_nobody_knows_is_told_and_the_task_kept() {
    machine(&clone_since(JUST_NOW)).task("state: weird").check(expect![[r#"
        status task=Clone taskRef=task-1
          VirtualMachineProvisioned False TaskStateUnknown: task-1 is in the state "weird", which nobody knows
        event Warning TaskStateUnknown: task-1 is in the state "weird", which nobody knows
        fails (FailureKind::Transient): task-1 is in the state "weird", which nobody knows
    "#]]);
}

#[test]
fn s20_switched_on_already_is_success() {
    machine(&task_of("PowerOn"))
        .task("state: error, fault: {type: InvalidPowerState, existing: poweredOn, requested: poweredOn}")
        .by_reference(&running(""))
        .check(expect![[r#"
            status machineRef=vm-7
              VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
            again after 10s
        "#]]);
}

#[test]
fn s21_another_power_state_in_the_way_is_a_failure() {
    machine(&task_of("PowerOn"))
        .task("state: error, fault: {type: InvalidPowerState, message: The VM is suspended., existing: suspended, requested: poweredOn}")
        .check(expect![[r#"
            status machineRef=vm-7 retry=PowerOnx1 retryAfter=2026-01-01T12:01:00Z
              VirtualMachineProvisioned False TaskFailed: PowerOn: InvalidPowerState: The VM is suspended.
            event Warning TaskFailed: PowerOn: InvalidPowerState: The VM is suspended.
            again after 60s
        "#]]);
}

#[test]
fn s22_another_task_in_the_way_is_no_failure() {
    machine(&task_of("Reconfigure"))
        .task("state: error, fault: {type: TaskInProgress, message: busy}")
        .check(expect![[r#"
            status machineRef=vm-7 retry=Reconfigurex0 retryAfter=2026-01-01T12:00:10Z
            again after 10s
        "#]]);
}

#[test]
fn s79_a_paused_machine_is_left_alone() {
    with("annotations: {cluster.x-k8s.io/paused: ''}", "", &clone_since(LONG_AGO)).check(expect![[r#"
        status task=Clone taskRef=task-1
          Paused True Paused: nothing is done about the machine
    "#]]);
}

#[test]
fn s83_a_call_that_fails_leaves_no_task() {
    machine("machineRef: vm-7, operations: 2")
        .by_reference(&vm(""))
        .outcome(
            "power-on",
            "{result: unknown, reason: NotAuthenticated, message: vCenter vc does not let us in}",
        )
        .check(expect![[r#"
            u-1/power-on/2
            status machineRef=vm-7
              VirtualMachineProvisioned False PoweringOn
              VCenterAvailable False VCenterUnreachable: vCenter vc does not let us in
            fails (FailureKind::Transient): vCenter vc does not let us in
        "#]]);
}

#[test]
fn s84_a_clone_that_was_begun_before_a_crash_is_asked_for_again_under_its_key() {
    let begun =
        format!("instanceUUID: u-1, operations: 4, task: {{operation: Clone, startedAt: '{JUST_NOW}'}}");
    machine(&begun).nowhere().placed().check(expect![[r#"
        notes that it begins
        u-1/clone/4
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
    machine(&begun).by_uuid(&vm("")).check(expect![[r#"
        u-1/power-on/5
        status machineRef=vm-7 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]]);
}

#[test]
fn s86_a_task_that_a_restart_of_vcenter_lost_is_looked_up() {
    let old = task_of("Reconfigure").replace(JUST_NOW, LONG_AGO);
    machine(&old).answer("task", "{}", ABSENT).by_reference(&vm("")).check(expect![[r#"
        u-1/power-on/3
        status machineRef=vm-7 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]]);
}

#[test]
fn a_task_that_takes_long_is_told_of_once() {
    let day_old = clone_since("2025-12-31T12:00:00Z");
    machine(&day_old).task("state: running").check(expect![[r#"
        status task=Clone taskRef=task-1
          VirtualMachineProvisioned False TaskTakesLong: Clone takes long: task-1 is still in flight
        event Warning TaskTakesLong: Clone takes long: task-1 is still in flight
        again after 20s
    "#]]);
    let told = "conditions: [{type: VirtualMachineProvisioned, status: 'False', reason: TaskTakesLong, message: 'Clone takes long: task-1 is still in flight'}]";
    let checked = machine(&format!("{day_old}, {told}")).task("state: running").run();
    assert!(!super::world::told(&checked).contains("event"), "{checked}");
}

#[test]
fn a_task_that_is_watched_is_not_polled() {
    machine(&clone_since("2026-01-01T11:59:50Z"))
        .answer("task", "{}", "{result: hit, task: {task: task-1, state: running}, watched: true}")
        .check(expect![[r#"
            status task=Clone taskRef=task-1
            again after 3590s
        "#]]);
}

#[test]
fn a_provider_that_the_host_lacks_is_told_on_the_machine() {
    machine("").check(expect![[r#"
        status
          VCenterAvailable False VCenterUnreachable: no answer of vsphere is told for vm-by-uuid {"datacenter":"/DC0","kind":"instance","server":"vc","uuid":"u-1"}
        fails (FailureKind::NotFound): no answer of vsphere is told for vm-by-uuid {"datacenter":"/DC0","kind":"instance","server":"vc","uuid":"u-1"}
    "#]]);
}

#[test]
fn a_vcenter_that_the_operator_did_not_allow_is_not_asked() {
    machine("").config("{servers: [other]}").check(expect![[r#"
        status
          VCenterAvailable False VCenterUnreachable: vCenter vc is not for this plugin
        fails (FailureKind::Invalid): vCenter vc is not for this plugin
    "#]]);
}

#[test]
fn a_machine_that_was_given_up_is_left_alone() {
    machine("failureReason: InvalidConfiguration").check(expect![[r#"
        nothing
    "#]]);
}
