//! Scenarios 1 to 27 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::check::{Check, Checked};
use evenkeel_sdk::{Action, FailureKind, act};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::Kite;

mod deletion;

const USER: &str = "
apiVersion: anacnu.com/v1
kind: KiteUser
metadata: {name: ku-a, uid: u-a, generation: 1, creationTimestamp: 2026-01-01T00:00:00Z, finalizers: [kite.anacnu.com/kite-user-cleanup]}
spec: {username: ann, password: $2a$secret, namespace: tenant-a}
";

const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: tenant-a, uid: n-a, labels: {name: tenant-a, kite.anacnu.com/managed-by: kite-controller}}
";

fn user() -> Check {
    Check::of::<Kite>("kite-user").key("ku-a").given(USER)
}

fn check(given: &str, expected: Expect) {
    expected.assert_eq(&brief(&user().given(NAMESPACE).given(given).run()));
}

/// The actions, and of a status what a person looks at.
fn brief(checked: &Checked) -> String {
    let mut text = String::new();
    let full = checked.to_string();
    for line in full.lines() {
        match line.strip_prefix("  ") {
            None => text += &format!("{line}\n"),
            Some(body) => {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                if let Some(status) = body.get("status") {
                    let reason = status["conditions"][0]["reason"].as_str().unwrap();
                    let observed = status["observedNamespace"].as_str().unwrap_or("none");
                    let message = status["message"].as_str().unwrap();
                    text += &format!(
                        "  {} {reason} of {observed}: {message}\n",
                        status["phase"].as_str().unwrap()
                    );
                }
            }
        }
    }
    text
}

#[test]
fn a_new_user_gets_everything_in_order() {
    let given = "
apiVersion: anacnu.com/v1
kind: KiteUser
metadata: {name: ku-a, uid: u-a, generation: 1}
spec: {namespace: tenant-a}
";
    expect![[r#"
        add-finalizer KiteUser ku-a kite.anacnu.com/kite-user-cleanup
        create Namespace tenant-a
          {"metadata":{"annotations":{"kite.anacnu.com/created-for":"ku-a/u-a"},"labels":{"kite.anacnu.com/managed-by":"kite-controller","name":"tenant-a"}}}
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
          {"metadata":{"labels":{"kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"ingress":[{"from":[{"podSelector":{}},{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kite"}}},{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"cdi"}}}]},{"from":[{"ipBlock":{"cidr":"0.0.0.0/0"}}],"ports":[{"port":22,"protocol":"TCP"}]},{"from":[{"ipBlock":{"cidr":"0.0.0.0/0"}}],"ports":[{"port":80,"protocol":"TCP"}]}],"podSelector":{},"policyTypes":["Ingress"]}}
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
          {"metadata":{"labels":{"kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"egress":[{"to":[{"podSelector":{}}]},{"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kite"}}}]},{"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"cdi"}}}]},{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}],"to":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"kube-system"}},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}]},{"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.0.0.0/8","172.16.0.0/12","192.168.0.0/16","169.254.0.0/16","100.64.0.0/10"]}}]}],"podSelector":{},"policyTypes":["Egress"]}}
        apply ResourceQuota tenant-a/kite-user-quota-policy force
          {"metadata":{"labels":{"kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"hard":{"count/virtualmachines.kubevirt.io":"3","persistentvolumeclaims":"10","requests.cpu":"6","requests.memory":"16Gi"}}}
        apply-status KiteUser ku-a
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"the namespace tenant-a, its network policies and its quota are in place","observedGeneration":1,"reason":"Reconciled","status":"True","type":"NamespaceReady"}],"message":"the namespace tenant-a, its network policies and its quota are in place","observedGeneration":1,"observedNamespace":"tenant-a","phase":"Ready"}}
    "#]].assert_eq(&Check::of::<Kite>("kite-user").key("ku-a").given(given).run().to_string());
}

#[test]
fn a_pass_needs_two_rounds_at_most() {
    assert_eq!(user().given(NAMESPACE).run().rounds, 2);
}

#[test]
fn a_namespace_that_exists_and_is_ours_is_not_written_where_its_labels_are_right() {
    check(
        "",
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply ResourceQuota tenant-a/kite-user-quota-policy force
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
    "#]],
    );
}

#[test]
fn a_missing_name_label_is_applied_without_force() {
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a, labels: {kite.anacnu.com/managed-by: kite-controller}}}",
        expect![[r#"
            apply Namespace tenant-a
            apply NetworkPolicy tenant-a/deny-from-other-namespaces force
            apply NetworkPolicy tenant-a/tenant-isolation-egress force
            apply ResourceQuota tenant-a/kite-user-quota-policy force
            apply-status KiteUser ku-a
              Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
        "#]],
    );
}

#[test]
fn a_namespace_of_somebody_else_is_left_alone() {
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a, labels: {name: tenant-a}}}",
        expect![[r#"
        apply-status KiteUser ku-a
          Failed NamespaceNotManaged of none: the namespace tenant-a exists and is not Kite's
        requeue after 180s
    "#]],
    );
}

#[test]
fn a_namespace_that_is_going_is_waited_for() {
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a, deletionTimestamp: 2026-01-01T00:00:00Z,
          labels: {kite.anacnu.com/managed-by: kite-controller}}}",
        expect![[r#"
            apply-status KiteUser ku-a
              Pending NamespaceTerminating of none: waiting until the old namespace tenant-a is gone
            requeue after 5s
        "#]],
    );
}

#[test]
fn a_namespace_that_was_orphaned_is_not_any_more() {
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a, labels: {name: tenant-a, kite.anacnu.com/managed-by: kite-controller},
          annotations: {kite.anacnu.com/orphaned-since: 2026-01-01T00:00:00Z}}}",
        expect![[r#"
            patch Namespace tenant-a
            apply NetworkPolicy tenant-a/deny-from-other-namespaces force
            apply NetworkPolicy tenant-a/tenant-isolation-egress force
            apply ResourceQuota tenant-a/kite-user-quota-policy force
            apply-status KiteUser ku-a
              Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
        "#]],
    );
}

#[test]
fn a_name_that_is_no_label_is_refused() {
    for name in ["\"\"", "Team_A", "a.b", "\"a\\nb\"", &"a".repeat(64)] {
        let given = format!(
            "{{apiVersion: anacnu.com/v1, kind: KiteUser, metadata: {{name: ku-a, finalizers: [kite.anacnu.com/kite-user-cleanup]}}, spec: {{namespace: {name}}}}}"
        );
        expect![[r#"
            apply-status KiteUser ku-a
              Failed InvalidSpec of none: spec.namespace: not a DNS label (1 to 63 of a-z, 0-9 and -)
        "#]]
        .assert_eq(&brief(&user().given(&given).run()));
    }
}

#[test]
fn a_reserved_name_is_refused_whether_it_exists_or_not() {
    let given = "
{apiVersion: anacnu.com/v1, kind: KiteUser, metadata: {name: ku-a, finalizers: [kite.anacnu.com/kite-user-cleanup]}, spec: {namespace: ops-1},
 status: {observedNamespace: tenant-a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kite-runtime-config, namespace: kite}, data: {reservedNamespaces: ops-*}}
";
    check(
        given,
        expect![[r#"
        apply-status KiteUser ku-a
          Failed NamespaceReserved of tenant-a: the name ops-1 belongs to the platform
    "#]],
    );
}

#[test]
fn without_quotas_one_of_ours_goes_and_a_foreign_one_stays() {
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kite-runtime-config, namespace: kite}, data: {quotaEnabled: 'false'}}";
    let quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: kite-user-quota-policy, namespace: tenant-a, uid: q";
    check(
        &format!("{config}\n---\n{quota}, labels: {{kite.anacnu.com/managed-by: kite-controller}}}}}}"),
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        delete ResourceQuota tenant-a/kite-user-quota-policy uid q
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a and its network policies are in place
    "#]],
    );
    check(
        &format!("{config}\n---\n{quota}}}}}"),
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a and its network policies are in place
    "#]],
    );
}

#[test]
fn bad_configuration_stops_nobody_and_is_told() {
    check(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: kite-runtime-config, namespace: kite},
          data: {quotaEnabled: maybe, apiServerCIDR: everything, baseDomain: '!'}}",
        expect![[r#"
            apply NetworkPolicy tenant-a/deny-from-other-namespaces force
            apply NetworkPolicy tenant-a/tenant-isolation-egress force
            apply ResourceQuota tenant-a/kite-user-quota-policy force
            event Warning InvalidConfig about ConfigMap kite/kite-runtime-config: defaults are used instead of: apiServerCIDR: not an address range; quotaEnabled: neither true nor false
            apply-status KiteUser ku-a
              Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
        "#]],
    );
}

#[test]
fn who_comes_second_into_a_namespace_is_told_once() {
    let other = "
apiVersion: anacnu.com/v1
kind: KiteUser
metadata: {name: ku-0, uid: u-0, creationTimestamp: 2025-01-01T00:00:00Z}
spec: {namespace: tenant-a}
";
    check(
        other,
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply ResourceQuota tenant-a/kite-user-quota-policy force
        event Warning SharedNamespace about KiteUser ku-a: the namespace tenant-a is shared with the user ku-0
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
    "#]],
    );
    let settled = format!("{}status: {{observedNamespace: tenant-a}}\n", USER.trim_start());
    check(
        &format!("{other}---\n{settled}"),
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply ResourceQuota tenant-a/kite-user-quota-policy force
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
    "#]],
    );
}

fn apply_quota() -> Action {
    let object =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "kite-user-quota-policy"}});
    act::apply(&object).into()
}

fn check_failed(kind: FailureKind, message: &str, action: Action, count: u32, given: &str, expected: Expect) {
    let checked = user().given(NAMESPACE).given(given).failed(kind, message, Some(action), count).run();
    expected.assert_eq(&brief(&checked));
}

#[test]
fn two_failures_in_a_row_are_a_hiccup() {
    let (kind, message) = (FailureKind::Transient, "500 InternalError: boom");
    check_failed(
        kind,
        message,
        apply_quota(),
        2,
        "",
        expect![[r#"
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply ResourceQuota tenant-a/kite-user-quota-policy force
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
    "#]],
    );
}

#[test]
fn the_third_failure_is_told_before_the_next_try() {
    let (kind, message) = (FailureKind::Transient, "500 InternalError: boom");
    check_failed(
        kind,
        message,
        apply_quota(),
        3,
        "",
        expect![[r#"
        apply-status KiteUser ku-a
          Failed ApplyFailed of none: 500 InternalError: boom
        apply NetworkPolicy tenant-a/deny-from-other-namespaces force
        apply NetworkPolicy tenant-a/tenant-isolation-egress force
        apply ResourceQuota tenant-a/kite-user-quota-policy force
        apply-status KiteUser ku-a
          Ready Reconciled of tenant-a: the namespace tenant-a, its network policies and its quota are in place
    "#]],
    );
}

#[test]
fn what_the_api_server_will_not_have_is_told_and_not_sent_again_at_once() {
    let (kind, message) = (FailureKind::Invalid, "422 Invalid: spec.hard: bad");
    check_failed(
        kind,
        message,
        apply_quota(),
        1,
        "",
        expect![[r#"
        apply-status KiteUser ku-a
          Failed ApplyFailed of none: 422 Invalid: spec.hard: bad
        requeue after 180s
    "#]],
    );
}

#[test]
fn a_label_that_somebody_else_owns_is_named_with_its_owner() {
    let labels = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-a"}});
    check_failed(
        FailureKind::Conflict,
        "409 Conflict: conflict with \"gitops\": .metadata.labels.name",
        act::apply(&labels).into(),
        1,
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a, labels: {name: other, kite.anacnu.com/managed-by: kite-controller}}}",
        expect![[r#"
            apply-status KiteUser ku-a
              Failed FieldConflict of none: 409 Conflict: conflict with "gitops": .metadata.labels.name
            requeue after 180s
        "#]],
    );
}

/// Texts that turn a document inside out where somebody pastes them into one.
const HOSTILE: [&str; 8] = [
    "a\n---\nkind: Secret",
    "'\"`",
    "{{x}}",
    "a: b",
    "\u{0}\u{7f}\u{1b}",
    "../kube-system",
    "${IFS}",
    "tenant-b/x",
];

#[test]
fn no_text_of_a_user_reaches_another_namespace_or_name() {
    let huge = "x".repeat(100_000);
    for text in HOSTILE.into_iter().chain([huge.as_str()]) {
        let user = json!({
            "apiVersion": "anacnu.com/v1",
            "kind": "KiteUser",
            "metadata": {"name": "ku-a", "uid": text, "finalizers": ["kite.anacnu.com/kite-user-cleanup"]},
            "spec": {"username": text, "email": text, "password": text, "namespace": text, "profile_image": text},
            "status": {"phase": text, "message": text, "observedNamespace": text, "conditions": [{"type": text, "status": text}]},
        });
        let checked = self::user().object(user.clone()).run();
        assert_eq!(checked.brief(), "apply-status KiteUser ku-a\n", "{text}");

        let mut tame = user;
        tame["spec"]["namespace"] = "tenant-a".into();
        for line in self::user().given(NAMESPACE).object(tame).run().brief().lines() {
            let named = line.contains("tenant-a") || line.contains("KiteUser ku-a");
            assert!(named, "{text}: {line}");
        }
    }
}
