//! The class controller's decisions, one by one. The scenarios C1 to C40 tell the same as stories, on an API server.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use super::*;
use crate::MachineClassPlugin;

/// A class `a` in namespace `shoot`; `fin` and `del` as the specification has them, other words are finalizers.
pub(crate) fn class(marks: &str) -> String {
    let mut finalizers = Vec::new();
    let mut deletion = "";
    for mark in marks.split_whitespace() {
        match mark {
            "fin" => finalizers.push(names::FINALIZER),
            "del" => deletion = ", deletionTimestamp: '2026-01-01T00:00:00Z'",
            finalizer => finalizers.push(finalizer),
        }
    }
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineClass, metadata: {{namespace: shoot, name: a, uid: C1, finalizers: [{}]{deletion}}}, provider: sim, providerSpec: {{}}}}",
        finalizers.join(", ")
    )
}

/// A machine that names class `a`; `del`, `vm`, `kind=…`, `group=…`, `class=…`, `ns=…` say what is special about it.
fn machine(name: &str, marks: &str) -> String {
    let of = |key: &str, default: &'static str| {
        marks.split_whitespace().find_map(|mark| mark.strip_prefix(key)).unwrap_or(default).to_owned()
    };
    let has = |mark: &str| marks.split_whitespace().any(|word| word == mark);
    let deletion = if has("del") { ", deletionTimestamp: '2026-01-01T00:00:00Z'" } else { "" };
    let vm = if has("vm") { ", providerID: 'aws:///i-1'" } else { "" };
    format!(
        "- {{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: {}, name: {name}{deletion}}}, spec: {{class: {{apiGroup: '{}', kind: {}, name: {}}}{vm}}}}}\n",
        of("ns=", "shoot"),
        of("group=", ""),
        of("kind=", "MachineClass"),
        of("class=", "a"),
    )
}

fn check_with(config: &str, class_marks: &str, others: &str, expected: Expect) {
    let mut check = Check::of::<MachineClassPlugin>("machine-class").key("shoot/a").config(config);
    if class_marks != "gone" {
        check = check.given(&class(class_marks));
    }
    if !others.is_empty() {
        check = check.given(others);
    }
    expected.assert_eq(&check.run().to_string());
}

fn check(class_marks: &str, machines: &[(&str, &str)], expected: Expect) {
    let machines: String = machines.iter().map(|(name, marks)| machine(name, marks)).collect();
    check_with("{}", class_marks, &machines, expected);
}

#[test]
fn k0_a_class_that_is_gone_needs_nothing() {
    check(
        "gone",
        &[("m1", "")],
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn k1_the_first_reference_places_the_finalizer_and_wakes_the_machines() {
    check(
        "",
        &[("m2", ""), ("m1", ""), ("m3", "del")],
        expect![[r#"
        first add-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
        enqueue machine Machine shoot/m1
        enqueue machine Machine shoot/m2
        requeue after 600s
    "#]],
    );
}

#[test]
fn k2_a_class_that_is_held_is_left_alone_whoever_refers() {
    check(
        "fin",
        &[("m1", "")],
        expect![[r#"
        requeue after 600s
    "#]],
    );
    check(
        "fin",
        &[("m1", "del")],
        expect![[r#"
        requeue after 600s
    "#]],
    );
}

#[test]
fn k3_and_k4_without_a_reference_the_finalizer_goes() {
    check(
        "fin",
        &[],
        expect![[r#"
        remove-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
        requeue after 600s
    "#]],
    );
    check(
        "",
        &[],
        expect![[r#"
        requeue after 600s
    "#]],
    );
}

#[test]
fn k5_a_class_that_is_deleted_in_use_is_held_and_says_by_whom() {
    check(
        "fin del",
        &[("m1", ""), ("m2", "del")],
        expect![[r#"
        event Warning StillReferenced about MachineClass shoot/a: 2 machines still refer to this class: m1, m2
        requeue after 5s
    "#]],
    );
}

#[test]
fn k6_a_class_that_can_be_held_no_more_says_what_holds_it() {
    check(
        "example.com/x del",
        &[("m1", "")],
        expect![[r#"
        event Warning DeletedWhileReferenced about MachineClass shoot/a: machines refer to this class, and it can no longer be given the finalizer machine.sapcloud.io/machine-controller-manager: only example.com/x holds it
        requeue after 5s
    "#]],
    );
}

#[test]
fn k7_and_k8_a_class_that_is_deleted_unused_goes() {
    check(
        "fin del",
        &[],
        expect![[r#"
        remove-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
    "#]],
    );
    check(
        "example.com/x del",
        &[],
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_machine_refers_by_its_kind_and_group_or_because_it_has_a_vm() {
    for marks in ["kind=AWSMachineClass", "group=example.com", "ns=other", "class=b"] {
        check(
            "",
            &[("m1", marks)],
            expect![[r#"
            requeue after 600s
        "#]],
        );
    }
    for marks in ["kind=AWSMachineClass vm", "group=example.com vm", "group=machine.sapcloud.io"] {
        check(
            "",
            &[("m1", marks)],
            expect![[r#"
            first add-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
            enqueue machine Machine shoot/m1
            requeue after 600s
        "#]],
        );
    }
}

#[test]
fn the_config_says_when_machines_are_woken() {
    let two = machine("m1", "") + &machine("m2", "del");
    check_with(
        "{enqueue: always}",
        "fin",
        &two,
        expect![[r#"
        enqueue machine Machine shoot/m1
        requeue after 600s
    "#]],
    );
    check_with(
        "{enqueue: never}",
        "",
        &two,
        expect![[r#"
        first add-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
        requeue after 600s
    "#]],
    );
}

#[test]
fn templates_count_where_the_operator_wants_them_to() {
    let set = "- {apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineSet, metadata: {namespace: shoot, name: s}, spec: {template: {spec: {class: {kind: MachineClass, name: a}}}}}";
    check_with(
        "{}",
        "fin",
        set,
        expect![[r#"
        remove-finalizer MachineClass shoot/a machine.sapcloud.io/machine-controller-manager
        requeue after 600s
    "#]],
    );
    check_with(
        "{guardTemplates: true}",
        "fin",
        set,
        expect![[r#"
        requeue after 600s
    "#]],
    );
    check_with(
        "{guardTemplates: true}",
        "fin del",
        set,
        expect![[r#"
        event Warning StillReferenced about MachineClass shoot/a: 1 template still refers to this class: MachineSet s
        requeue after 5s
    "#]],
    );
}

#[test]
fn the_periods_are_the_operators_to_choose() {
    let config = "{shortRetry: 7s, longRetry: 3m}";
    for (marks, seconds) in [("", 180), ("fin", 180), ("fin del", 7), ("example.com/x del", 7)] {
        let run = Check::of::<MachineClassPlugin>("machine-class").key("shoot/a").config(config);
        let run = run.given(&class(marks)).given(&machine("m1", "")).run();
        let end = run.end.expect("it concludes");
        assert_eq!(end.requeue_after, Some(seconds * 1000), "{marks}");
    }
}
