//! The Secret controller's decisions, one by one. The scenarios S1 to S12 tell the same as stories.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use crate::{MachineClassPlugin, names};

/// A Secret `s1` in `shoot`, and classes as `namespace/name field=reference …`.
fn check_with(config: &str, marks: &str, classes: &[&str], expected: Expect) {
    let finalizer = if marks.contains("fin") { names::SECRET_FINALIZER } else { "" };
    let deletion = if marks.contains("del") { ", deletionTimestamp: '2026-01-01T00:00:00Z'" } else { "" };
    let secret = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{namespace: shoot, name: s1, finalizers: [{finalizer}]{deletion}}}}}"
    );
    let mut check = Check::of::<MachineClassPlugin>("machine-class-secret").key("shoot/s1").config(config);
    check = check.given(&secret);
    for class in classes {
        let mut words = class.split_whitespace();
        let (namespace, name) = words.next().and_then(|place| place.split_once('/')).expect("a place");
        let references: String = words
            .filter_map(|word| word.split_once('='))
            .map(|(field, place)| match place.split_once('/') {
                Some((namespace, name)) => format!(", {field}: {{namespace: {namespace}, name: {name}}}"),
                None => format!(", {field}: {{name: {place}}}"),
            })
            .collect();
        check = check.given(&format!(
            "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineClass, metadata: {{namespace: {namespace}, name: {name}}}, providerSpec: {{}}{references}}}"
        ));
    }
    expected.assert_eq(&check.run().to_string());
}

fn check(marks: &str, classes: &[&str], expected: Expect) {
    check_with("{}", marks, classes, expected);
}

#[test]
fn z1_either_reference_protects_the_secret() {
    for class in
        ["shoot/a secretRef=shoot/s1", "shoot/a credentialsSecretRef=shoot/s1", "shoot/a secretRef=s1"]
    {
        check(
            "",
            &[class],
            expect![[r#"
            add-finalizer Secret shoot/s1 machine.sapcloud.io/machine-controller
            requeue after 600s
        "#]],
        );
    }
    check(
        "",
        &["other/a secretRef=shoot/s1"],
        expect![[r#"
        add-finalizer Secret shoot/s1 machine.sapcloud.io/machine-controller
        requeue after 600s
    "#]],
    );
}

#[test]
fn z2_a_secret_that_is_held_is_left_alone() {
    check(
        "fin",
        &["shoot/a secretRef=shoot/s1"],
        expect![[r#"
        requeue after 600s
    "#]],
    );
}

#[test]
fn z3_and_z4_a_reference_to_another_place_does_not_count() {
    for class in ["shoot/a secretRef=other/s1", "other/a secretRef=s1", "shoot/a secretRef=s2", "shoot/a"] {
        check(
            "fin",
            &[class],
            expect![[r#"
            remove-finalizer Secret shoot/s1 machine.sapcloud.io/machine-controller
            requeue after 600s
        "#]],
        );
        check(
            "",
            &[class],
            expect![[r#"
            requeue after 600s
        "#]],
        );
    }
    check(
        "fin del",
        &[],
        expect![[r#"
        remove-finalizer Secret shoot/s1 machine.sapcloud.io/machine-controller
    "#]],
    );
}

#[test]
fn z5_and_z6_a_secret_that_is_deleted_in_use_says_who_uses_it() {
    let both = ["shoot/b secretRef=s1", "shoot/a credentialsSecretRef=s1 secretRef=s1"];
    check(
        "fin del",
        &both,
        expect![[r#"
        event Warning StillReferenced about Secret shoot/s1: 2 classes still refer to this Secret: shoot/a, shoot/b
        requeue after 5s
    "#]],
    );
    check(
        "del",
        &both,
        expect![[r#"
        event Warning DeletedWhileReferenced about Secret shoot/s1: 2 classes still refer to this Secret: shoot/a, shoot/b; it can no longer be given the finalizer machine.sapcloud.io/machine-controller
    "#]],
    );
}

#[test]
fn an_operator_may_say_in_which_namespaces_classes_are() {
    check_with(
        "{namespaces: [shoot]}",
        "",
        &["shoot/a secretRef=s1"],
        expect![[r#"
        add-finalizer Secret shoot/s1 machine.sapcloud.io/machine-controller
        requeue after 600s
    "#]],
    );
    check_with(
        "{namespaces: [shoot]}",
        "",
        &["other/a secretRef=shoot/s1"],
        expect![[r#"
        requeue after 600s
    "#]],
    );
}
