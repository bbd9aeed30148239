//! Scenarios 28 to 41 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use crate::Kite;
use crate::api::KiteUser;

const MANAGED: &str = "kite.anacnu.com/managed-by: kite-controller";

fn namespace(metadata: &str) -> Check {
    let now = "2026-01-01T01:00:00Z";
    let given =
        format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: tenant-a, uid: n-a, {metadata}}}}}");
    Check::of::<Kite>("namespace").key("tenant-a").at(now).given(&given)
}

fn check(metadata: &str, given: &str, expected: Expect) {
    expected.assert_eq(&namespace(metadata).given(given).run().to_string());
}

fn orphaned(since: &str) -> String {
    format!("labels: {{{MANAGED}}}, annotations: {{kite.anacnu.com/orphaned-since: '{since}'}}")
}

const USER: &str =
    "{apiVersion: anacnu.com/v1, kind: KiteUser, metadata: {name: ku-a}, spec: {namespace: tenant-a}}";
const GOING: &str = "{apiVersion: anacnu.com/v1, kind: KiteUser, metadata: {name: ku-a, deletionTimestamp: 2026-01-01T00:00:00Z}, spec: {namespace: tenant-a}}";
const NO_GRACE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: kite-runtime-config, namespace: kite}, data: {orphanNamespaceGraceSeconds: '0'}}";

#[test]
fn a_namespace_that_is_referenced_is_kept() {
    check(
        &format!("labels: {{{MANAGED}}}"),
        USER,
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_namespace_that_is_not_ours_is_none_of_our_business() {
    check(
        "labels: {}",
        "",
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn the_grace_begins_when_nobody_references_it() {
    check(
        &format!("labels: {{{MANAGED}}}"),
        "",
        expect![[r#"
        patch Namespace tenant-a
          {"metadata":{"annotations":{"kite.anacnu.com/orphaned-since":"2026-01-01T01:00:00Z"}}}
        requeue after 300s
    "#]],
    );
    check(
        &format!("labels: {{{MANAGED}}}"),
        GOING,
        expect![[r#"
        patch Namespace tenant-a
          {"metadata":{"annotations":{"kite.anacnu.com/orphaned-since":"2026-01-01T01:00:00Z"}}}
        requeue after 300s
    "#]],
    );
}

#[test]
fn the_grace_ends_to_the_second() {
    check(
        &orphaned("2026-01-01T00:55:01Z"),
        "",
        expect![[r#"
        requeue after 1s
    "#]],
    );
    check(
        &orphaned("2026-01-01T00:55:00Z"),
        "",
        expect![[r#"
        delete Namespace tenant-a uid n-a
    "#]],
    );
}

#[test]
fn without_grace_it_goes_at_once() {
    check(
        &format!("labels: {{{MANAGED}}}"),
        NO_GRACE,
        expect![[r#"
        delete Namespace tenant-a uid n-a
    "#]],
    );
}

#[test]
fn a_user_who_comes_back_ends_the_grace() {
    check(
        &orphaned("2026-01-01T00:58:00Z"),
        USER,
        expect![[r#"
        patch Namespace tenant-a
          {"metadata":{"annotations":{"kite.anacnu.com/orphaned-since":null}}}
    "#]],
    );
}

#[test]
fn a_note_that_cannot_be_right_is_written_anew() {
    for since in ["yesterday", "2026-01-01T01:00:01Z", ""] {
        check(
            &orphaned(since),
            "",
            expect![[r#"
            patch Namespace tenant-a
              {"metadata":{"annotations":{"kite.anacnu.com/orphaned-since":"2026-01-01T01:00:00Z"}}}
            requeue after 300s
        "#]],
        );
    }
}

#[test]
fn the_platforms_namespaces_are_protected_from_a_wrong_label() {
    let given =
        format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: kubevirt, labels: {{{MANAGED}}}}}}}");
    let check = Check::of::<Kite>("namespace").key("kubevirt").given(&given).given(NO_GRACE);
    expect![[r#"
        event Warning ProtectedNamespace about Namespace kubevirt: kubevirt belongs to the platform: the label kite.anacnu.com/managed-by is ignored
    "#]].assert_eq(&check.run().to_string());
}

#[test]
fn the_annotation_retain_keeps_it() {
    check(
        &format!("labels: {{{MANAGED}}}, annotations: {{kite.anacnu.com/retain: 'true'}}"),
        NO_GRACE,
        expect![[r#"
        event Normal NamespaceRetained about Namespace tenant-a: no user references tenant-a; the annotation kite.anacnu.com/retain keeps it
    "#]],
    );
}

#[test]
fn what_is_going_already_is_not_deleted_again() {
    check(
        &format!("labels: {{{MANAGED}}}, deletionTimestamp: 2026-01-01T00:00:00Z"),
        NO_GRACE,
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn users_that_cannot_be_listed_are_not_no_users() {
    let checked = namespace(&format!("labels: {{{MANAGED}}}")).given(NO_GRACE).unserved::<KiteUser>().run();
    expect![[r#"
        failed, not found: the API server does not serve KiteUser.anacnu.com
    "#]]
    .assert_eq(&checked.to_string());
}
