//! Scenarios 50 to 59 and 89: which VM is the machine's.

use expect_test::expect;

use super::world::*;

const PROVISIONED: &str =
    "machineRef: vm-7, biosUUID: b-1, instanceUUID: u-1, ready: true, initialization: {provisioned: true}";
const PROVIDER_ID: &str = "providerID: vsphere://b-1";

#[test]
fn s50_a_vm_that_is_gone_before_it_was_ready_is_cloned_anew() {
    machine("machineRef: vm-7, instanceUUID: u-1").nowhere().placed().check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Warning VirtualMachineGone: the VM is gone before it was ready: it is cloned anew
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s51_a_vm_that_was_registered_anew_is_found() {
    machine("machineRef: vm-7, instanceUUID: u-1")
        .answer("vm", "{vm: vm-7}", ABSENT)
        .by_uuid(&vm("vm: vm-9"))
        .check(expect![[r#"
            u-1/power-on/0
            status machineRef=vm-9 task=PowerOn taskRef=task-9
              VirtualMachineProvisioned False PoweringOn
            event Normal VirtualMachineFound: the VM is vm-9 now
            event Normal TaskStarted: PowerOn: task-9
            again after 2s
        "#]]);
}

#[test]
fn s52_an_id_that_is_another_vms_by_now_is_dropped() {
    machine("machineRef: vm-7, instanceUUID: u-1")
        .answer("vm-by-uuid", "{}", ABSENT)
        .by_reference(&vm("instanceUuid: u-2, biosUuid: b-2, owner: ns/other/u-2"))
        .placed()
        .check(expect![[r#"
            notes that it begins
            u-1/clone/0
            status cloneMode=fullClone task=Clone taskRef=task-9
              VirtualMachineProvisioned False WaitingForClone
            event Warning VirtualMachineGone: the VM is gone before it was ready: it is cloned anew
            event Normal TaskStarted: Clone: task-9
            again after 2s
        "#]]);
}

#[test]
fn s53_a_vm_that_cannot_be_looked_up_changes_nothing() {
    let timeout = "{result: unknown, reason: Timeout, message: vCenter vc did not answer in time}";
    machine("machineRef: vm-7").answer("vm", "{}", timeout).check(expect![[r#"
        status machineRef=vm-7
          VCenterAvailable False VCenterUnreachable: vCenter vc did not answer in time
        fails (FailureKind::Transient): vCenter vc did not answer in time
    "#]]);
}

#[test]
fn a_lookup_that_is_forbidden_says_so_and_leaves_vcenter_available() {
    let forbidden = "{result: unknown, reason: NoPermission, message: no right to read vm-7}";
    machine("machineRef: vm-7").answer("vm", "{}", forbidden).check(expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned Unknown NoPermission: no right to read vm-7
        fails (FailureKind::Transient): no right to read vm-7
    "#]]);
}

#[test]
fn s54_a_vm_that_cannot_be_read_is_waited_for() {
    machine("machineRef: vm-7").by_reference(&vm("accessible: false, instanceUuid: ''")).check(expect![[
        r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False VMInaccessible: vCenter cannot read the VM's configuration
        event Warning VMInaccessible: vCenter cannot read the VM's configuration
        again after 20s
    "#
    ]]);
}

#[test]
fn s55_a_provisioned_vm_that_is_gone_is_never_cloned_anew() {
    with("", PROVIDER_ID, PROVISIONED).nowhere().check(expect![[r#"
        status biosUUID=b-1 initialization=true ready=false
          VirtualMachineProvisioned False NotFoundByBIOSUUID: no VM has the BIOS UUID b-1 any more
        event Warning NotFoundByBIOSUUID: no VM has the BIOS UUID b-1 any more
        again after 60s
    "#]]);
}

#[test]
fn s55_nor_where_somebody_took_the_provider_id_away() {
    machine(PROVISIONED).nowhere().check(expect![[r#"
        status biosUUID=b-1 initialization=true ready=false
          VirtualMachineProvisioned False NotFoundByBIOSUUID: no VM has the BIOS UUID b-1 any more
        event Warning NotFoundByBIOSUUID: no VM has the BIOS UUID b-1 any more
        again after 60s
    "#]]);
}

#[test]
fn s56_when_it_is_back_the_machine_is_ready_again() {
    with(
        "",
        PROVIDER_ID,
        "biosUUID: b-1, instanceUUID: u-1, ready: false, initialization: {provisioned: true}",
    )
    .answer("vm-by-uuid", "{kind: bios, uuid: b-1}", &hit(&running("10.0.0.5")))
    .check(expect![[r#"
            status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
              VirtualMachineProvisioned True Provisioned
        "#]]);
}

#[test]
fn s58_a_machine_that_was_moved_finds_its_vm_by_the_provider_id() {
    with("uid: u-new", PROVIDER_ID, "")
        .answer("vm-by-uuid", "{kind: bios, uuid: b-1}", &hit(&running("10.0.0.5")))
        .check(expect![[r#"
            status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
              VirtualMachineProvisioned True Provisioned
            event Normal Provisioned: vm-7 is ready
        "#]]);
}

#[test]
fn s59_of_several_vms_only_the_marked_one_is_ours() {
    let two = |owner: &str| {
        let (one, other) = (vm("vm: vm-8, owner: null"), vm(&format!("vm: vm-9, owner: {owner}")));
        format!("{{\"result\": \"ambiguous\", \"vms\": [{one}, {other}]}}")
    };
    machine("").answer("vm-by-uuid", "{}", &two("null")).check(expect![[r#"
        status
          VirtualMachineProvisioned False AmbiguousVM: vm-8, vm-9 have the machine's UUID, and not one of them its marker
        event Warning AmbiguousVM: vm-8, vm-9 have the machine's UUID, and not one of them its marker
        again after 60s
    "#]]);
    machine("").answer("vm-by-uuid", "{}", &two("ns/m-0/u-1")).check(expect![[r#"
        u-1/power-on/0
        status machineRef=vm-9 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]]);
}

#[test]
fn s89_a_vm_with_another_bios_uuid_than_the_provider_id_is_not_touched() {
    with("", PROVIDER_ID, PROVISIONED).by_reference(&vm("biosUuid: b-2")).check(expect![[r#"
        status biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned False ProviderIDMismatch: vm-7 has the BIOS UUID b-2, and the provider id says b-1
        event Warning ProviderIDMismatch: vm-7 has the BIOS UUID b-2, and the provider id says b-1
        again after 60s
    "#]]);
}

fn hit(vm: &serde_json::Value) -> String {
    serde_json::json!({"result": "hit", "vm": vm}).to_string()
}
