//! The search for VMs without machines, pass by pass. What time does to it is told by scenarios.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use crate::MachineClassPlugin;

const CLASS: &str = "{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineClass, metadata: {namespace: shoot, name: a, uid: C1}, provider: sim, providerSpec: {size: small}, secretRef: {name: s1}}";
const SECRET: &str =
    "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {userData: dQ==}}";

fn machine(name: &str, provider_id: &str) -> String {
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: {name}}}, spec: {{class: {{kind: MachineClass, name: a}}, providerID: '{provider_id}'}}}}"
    )
}

/// A search that finds these VMs, with these machines there as `name=providerID`.
fn search(listed: &str, machines: &[&str]) -> Check {
    let check = Check::of::<MachineClassPlugin>("machine-orphans").key("shoot/a").given(CLASS).given(SECRET);
    machines
        .iter()
        .filter_map(|machine| machine.split_once('='))
        .fold(check.answers("machine", "list", "{}", listed), |check, (name, id)| {
            check.given(&machine(name, id))
        })
}

fn check(check: Check, expected: Expect) {
    expected.assert_eq(&check.run().to_string());
}

fn done(machines: &str) -> String {
    format!("{{result: done, machines: {{{machines}}}, suspected: []}}")
}

#[test]
fn vms_that_machines_own_or_may_get_are_left_alone() {
    check(
        search(&done(""), &[]),
        expect![[r#"
        requeue after 900s
    "#]],
    );
    check(
        search(&done("'sim:///vm-1': m1, 'sim:///vm-2': m2"), &["m1=sim:///vm-1", "m2="]),
        expect![[r#"
        requeue after 900s
    "#]],
    );
    check(
        search(&done("'sim:///vm-1': m1"), &["renamed=sim:///vm-1"]),
        expect![[r#"
        requeue after 900s
    "#]],
    );
}

#[test]
fn a_vm_of_nobody_is_told_of_and_waited_for() {
    let waits = "{orphans: [{providerID: 'sim:///vm-1', state: waits, seconds: 900}]}";
    let said = |machines: &[&str]| {
        let orphan = search(&done("'sim:///vm-1': m1"), machines).performs("machine", "collect", waits);
        orphan.run().to_string()
    };
    // Without any machine, beside one of the name that has another VM, and beside one of another name that has none.
    let alone = said(&[]);
    expect![[r#"
        first external collect of machine as collect/C1
          {"class":{"name":"a","uid":"C1","provider":"sim","providerSpec":{"size":"small"}},"sensitive":{"secretData":{"userData":"dQ=="}},"orphans":{"sim:///vm-1":"m1"},"waitSeconds":900}
        event Warning OrphanFound about MachineClass shoot/a: VM sim:///vm-1 was made for machine m1 and is no machine's: it is deleted unless that changes within 15m
        requeue after 900s
    "#]]
    .assert_eq(&alone);
    assert_eq!(said(&["m1=sim:///vm-2"]), alone);
    assert_eq!(said(&["m2="]), alone);
}

#[test]
fn what_was_an_orphan_and_is_none_any_more_is_told_to_the_provider() {
    let found = "{result: done, machines: {'sim:///vm-1': m1}, suspected: ['sim:///vm-1']}";
    let owned = search(found, &["m1=sim:///vm-1"]).performs("machine", "collect", "{orphans: []}");
    check(
        owned,
        expect![[r#"
        first external collect of machine as collect/C1
          {"class":{"name":"a","uid":"C1","provider":"sim","providerSpec":{"size":"small"}},"sensitive":{"secretData":{"userData":"dQ=="}},"orphans":{},"waitSeconds":900}
        requeue after 900s
    "#]],
    );
}

#[test]
fn what_became_of_orphans_is_told() {
    let fates = "{orphans: [{providerID: 'sim:///vm-1', state: deleted}, {providerID: 'sim:///vm-2', state: going}, {providerID: 'sim:///vm-3', state: failed, message: 'several VMs: a, b'}]}";
    let orphans = search(&done("'sim:///vm-1': m1, 'sim:///vm-2': m2, 'sim:///vm-3': m3"), &[])
        .performs("machine", "collect", fates);
    check(
        orphans,
        expect![[r#"
        first external collect of machine as collect/C1
          {"class":{"name":"a","uid":"C1","provider":"sim","providerSpec":{"size":"small"}},"sensitive":{"secretData":{"userData":"dQ=="}},"orphans":{"sim:///vm-1":"m1","sim:///vm-2":"m2","sim:///vm-3":"m3"},"waitSeconds":900}
        event Normal OrphanDeleted about MachineClass shoot/a: VM sim:///vm-1 of machine m1 was deleted: it was no machine's
        event Warning OrphanKept about MachineClass shoot/a: VM sim:///vm-3 is no machine's and cannot be deleted: several VMs: a, b
        requeue after 5s
    "#]],
    );
}

#[test]
fn where_nobody_can_or_shall_look_nothing_is_deleted() {
    let failed = |code: &str| format!("{{result: failed, code: {code}, message: so it is}}");
    check(
        search(&failed("Unimplemented"), &[]),
        expect![[r#"
        nothing to do
    "#]],
    );
    check(
        search(&failed("Unavailable"), &[]),
        expect![[r#"
        requeue after 900s
    "#]],
    );
    let orphan = || search(&done("'sim:///vm-1': m1"), &[]);
    check(
        orphan().config("{orphans: 0s}"),
        expect![[r#"
        nothing to do
    "#]],
    );
    check(
        orphan().config("{machines: false}"),
        expect![[r#"
        nothing to do
    "#]],
    );
    let without_secret = Check::of::<MachineClassPlugin>("machine-orphans").key("shoot/a").given(CLASS);
    check(
        without_secret,
        expect![[r#"
        nothing to do
    "#]],
    );
}
