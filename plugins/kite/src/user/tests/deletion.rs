//! What goes with a user, and what stays.

use evenkeel_sdk::FailureKind;
use expect_test::expect;

use super::{apply_quota, check, check_failed};

const DELETED: &str = "
apiVersion: anacnu.com/v1
kind: KiteUser
metadata: {name: ku-a, uid: u-a, generation: 2, deletionTimestamp: 2026-01-01T00:00:00Z, finalizers: [kite.anacnu.com/kite-user-cleanup]}
spec: {namespace: tenant-a}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-from-other-namespaces, namespace: tenant-a, uid: i, labels: {kite.anacnu.com/managed-by: kite-controller}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: tenant-isolation-egress, namespace: tenant-a, uid: e, labels: {kite.anacnu.com/managed-by: kite-controller}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: kite-user-quota-policy, namespace: tenant-a, uid: q, labels: {kite.anacnu.com/managed-by: kite-controller}}
---
";

#[test]
fn the_last_user_of_a_namespace_takes_its_policies_along() {
    check(
        DELETED,
        expect![[r#"
        delete ResourceQuota tenant-a/kite-user-quota-policy uid q
        delete NetworkPolicy tenant-a/tenant-isolation-egress uid e
        delete NetworkPolicy tenant-a/deny-from-other-namespaces uid i
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
}

#[test]
fn policies_stay_while_a_machine_is_there() {
    let machine =
        "{apiVersion: anacnu.com/v1, kind: KiteVirtualMachine, metadata: {name: vm-a, namespace: tenant-a}}";
    check(
        &format!("{DELETED}{machine}"),
        expect![[r#"
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
}

#[test]
fn policies_stay_while_another_user_lives_and_go_while_the_other_is_going_too() {
    let other = "apiVersion: anacnu.com/v1\nkind: KiteUser\nspec: {namespace: tenant-a}\n";
    check(
        &format!("{DELETED}{other}metadata: {{name: ku-b}}"),
        expect![[r#"
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
    check(
        &format!("{DELETED}{other}metadata: {{name: ku-b, deletionTimestamp: 2026-01-01T00:00:00Z}}"),
        expect![[r#"
        delete ResourceQuota tenant-a/kite-user-quota-policy uid q
        delete NetworkPolicy tenant-a/tenant-isolation-egress uid e
        delete NetworkPolicy tenant-a/deny-from-other-namespaces uid i
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
}

#[test]
fn nothing_is_touched_in_a_namespace_that_is_not_ours() {
    check(
        &format!("{DELETED}{{apiVersion: v1, kind: Namespace, metadata: {{name: tenant-a}}}}"),
        expect![[r#"
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
}

#[test]
fn a_cleanup_that_failed_once_shows_in_the_status() {
    let (kind, message) = (FailureKind::Transient, "500 InternalError: boom");
    check_failed(
        kind,
        message,
        apply_quota(),
        1,
        DELETED,
        expect![[r#"
        apply-status KiteUser ku-a
          Deleting Deleting of none: cleanup is under way: 500 InternalError: boom
        delete ResourceQuota tenant-a/kite-user-quota-policy uid q
        delete NetworkPolicy tenant-a/tenant-isolation-egress uid e
        delete NetworkPolicy tenant-a/deny-from-other-namespaces uid i
        remove-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
    "#]],
    );
}

#[test]
fn a_user_without_our_finalizer_is_let_go() {
    let given = "{apiVersion: anacnu.com/v1, kind: KiteUser, metadata: {name: ku-a, deletionTimestamp: 2026-01-01T00:00:00Z}}";
    check(
        given,
        expect![[r#"
        nothing to do
    "#]],
    );
}
