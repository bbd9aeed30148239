//! What an expectation finds, and what it says of it.

use expect_test::expect;

use super::{GIVEN, found, holds, outcome, refused};

fn finds(expectation: &str, snapshot: expect_test::Expect) {
    snapshot.assert_eq(&found(&format!("{GIVEN}steps: [{{expect: {expectation}}}]\n")));
}

#[test]
fn writes_are_compared_line_by_line() {
    holds(&format!(
        "{GIVEN}steps: [{{expect: {{writes: [apply ConfigMap default/a-copy, event ConfigMap default/a], quiet: true}}}}]\n"
    ));
    finds(
        "{writes: [apply ConfigMap default/b-copy]}",
        expect![[r#"
        step 1: writes: apply ConfigMap default/b-copy but apply ConfigMap default/a-copy
        event ConfigMap default/a
    "#]],
    );
}

#[test]
fn a_rule_holds_for_an_object_or_for_all_of_a_kind() {
    holds(&format!(
        "{GIVEN}steps:\n  - expect:\n      assert:\n        - {{kind: ConfigMap, namespace: default, name: a-copy, that: \"self.data.text == 'hello'\"}}\n        - {{kind: ConfigMap, that: self.size() == 2}}\n        - {{kind: ConfigMap, namespace: elsewhere, that: self.size() == 0}}\n        - {{kind: ConfigMap, that: \"self.all(c, timestamp(c.metadata.creationTimestamp) <= timestamp(now))\"}}\n"
    ));
}

#[test]
fn a_rule_that_does_not_hold_is_told_with_the_object() {
    finds(
        "{assert: [{kind: ConfigMap, namespace: default, name: a-copy, that: self.data.size() > 1, message: two texts}]}",
        expect![[r#"
            step 1: ConfigMap default/a-copy: two texts: self.data.size() > 1 but it does not hold of {"apiVersion":"v1","data":{"text":"hello"},"kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"a-copy","namespace":"default","resourceVersion":"8","uid":"2e5d1080-d47f-47a0-b509-cd399446456c"}}
        "#]],
    );
    finds(
        "{assert: [{kind: ConfigMap, namespace: default, name: a-copy, that: self.dta.size() > 1}]}",
        expect![[r#"
            step 1: ConfigMap default/a-copy: self.dta.size() > 1 but no such key: dta, of {"apiVersion":"v1","data":{"text":"hello"},"kind":"ConfigMap","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"a-copy","namespace":"default","resourceVersion":"8","uid":"2e5d1080-d47f-47a0-b509-cd399446456c"}}
        "#]],
    );
    finds(
        "{assert: [{kind: ConfigMap, namespace: default, name: b, that: 'true'}]}",
        expect![[r#"
        step 1: ConfigMap default/b: true but no object
    "#]],
    );
}

#[test]
fn calls_are_counted_together_or_by_controller() {
    finds("{calls: 1}", expect![""]);
    finds(
        "{calls: {copy: 2, watch: 0}}",
        expect![[r#"
        step 1: calls of copy: 2 but 1
    "#]],
    );
}

#[test]
fn events_may_be_counted() {
    finds("{events: [{reason: Copied, about: ConfigMap default/a, count: 1}]}", expect![""]);
    finds(
        "{events: [{reason: Copied, count: 2}], no-events: [Copied]}",
        expect![[r#"
        step 1: events: Copied : (2 of them) but Normal Copied ConfigMap default/a: there is a copy of a
        step 1: events: no Copied but Normal Copied ConfigMap default/a: there is a copy of a
    "#]],
    );
}

#[test]
fn a_failure_is_told_by_its_kind_and_message() {
    let given = GIVEN.replace("text: hello", "fail: no good");
    holds(&format!(
        "{given}steps: [{{expect: {{failed: {{controller: copy, key: default/a, kind: invalid, message: good}}}}}}]\n"
    ));
    let other = "steps: [{expect: {failed: {controller: copy, key: default/a, kind: denied}}}]\n";
    expect![[r#"
        step 1: the last pass of copy default/a: denied but invalid: no good
    "#]]
    .assert_eq(&found(&format!("{given}{other}")));
    expect![[r#"
        step 1: the last pass of copy default/a: denied but no failure
    "#]]
    .assert_eq(&found(&format!("{GIVEN}{other}")));
}

#[test]
fn a_requeue_is_told_by_its_time() {
    let given = GIVEN.replace("text: hello", "requeue: please");
    holds(&format!(
        "{given}steps: [{{expect: {{requeue: {{controller: copy, key: default/a, after: 30s}}}}}}]\n"
    ));
    finds(
        "{requeue: {controller: copy, key: default/a, after: 30s}}",
        expect![[r#"
        step 1: requeue of copy default/a: 30s but none
    "#]],
    );
}

#[test]
fn a_text_that_must_not_be_put_out_is_found_wherever_it_is() {
    // The copy, the Event and the reply of the plugin hold it; the original may.
    let given = GIVEN.replace("text: hello", "log: hunter2");
    let told = found(&format!("{given}steps: [{{expect: {{text-absent: [hunter2]}}}}]\n"));
    for place in ["step 1: \"ConfigMap\" \"a-copy\"", "step 1: the journal"] {
        assert!(told.contains(place), "{place} is not among:\n{told}");
    }
    holds(&format!("{given}steps: [{{expect: {{text-absent: [hunter3]}}}}]\n"));
}

#[test]
fn a_text_that_users_send_may_stand_in_what_they_sent() {
    let map = |name: &str, text: &str| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{text: {text}}}}}")
    };
    holds(&format!(
        "{GIVEN}steps:
  - create: {}
  - apply: {}
  - patch: {{kind: ConfigMap, name: a, merge: {{metadata: {{labels: {{copy: null}}}}, data: {{text: hunter2}}}}}}
  - expect: {{text-absent: [hunter2]}}
",
        map("b", "hunter2"),
        map("c", "hunter2")
    ));
}

#[test]
fn an_object_without_a_namespace_is_the_one_in_the_default_namespace() {
    holds(&format!(
        "{GIVEN}steps:
  - expect:
      objects: [{{kind: ConfigMap, metadata: {{name: a}}, data: {{text: hello}}}}]
      absent: [{{kind: ConfigMap, name: nobody}}]
      assert: [{{kind: ConfigMap, name: a-copy, that: self.data.text == 'hello'}}]
"
    ));
    finds(
        "{absent: [{kind: ConfigMap, name: a}]}",
        expect![[r#"
        step 1: ConfigMap a: nothing but there
    "#]],
    );
}

#[test]
fn calls_of_a_controller_that_is_not_there_are_refused() {
    let told = refused("steps: [{resync: 1}, {repeat: {times: 2, steps: [{expect: {calls: {cpy: 1}}}]}}]\n");
    assert_eq!(told, "step 2: calls: the plugin has no \"cpy\"; it has copy, watch");
}

#[test]
fn what_was_found_before_a_step_that_cannot_be_done_is_told_too() {
    let text =
        "steps: [{expect: {calls: 7}}, {delete: {kind: ConfigMap, name: 'no body'}}, {expect: {calls: 7}}]\n";
    let outcome = outcome(text);
    assert_eq!(
        outcome.error.as_deref(),
        Some(
            "step 2: DELETE /api/v1/namespaces/default/configmaps/no%20body: configmaps \"no body\" not found"
        )
    );
    let [failure] = outcome.failures.as_slice() else { panic!("{:?}", outcome.failures) };
    assert_eq!((failure.step, failure.difference.at.as_str()), (1, "calls of the plugin"));
}

#[test]
fn a_rule_holds_after_each_step_where_it_is_to_hold_always() {
    let text = format!(
        "{GIVEN}always: [{{kind: ConfigMap, that: self.size() < 4, message: few}}]\nsteps:\n  - resync: 1\n  - create: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b, namespace: default}}}}\n  - create: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: c, namespace: default}}}}\n"
    );
    let told = found(&text);
    assert!(
        told.starts_with("step 3: all ConfigMap: few: self.size() < 4 but") && told.lines().count() == 1,
        "{told}"
    );
}

#[test]
fn a_provider_that_the_scenario_does_not_name_is_refused() {
    let told = refused("steps: [{expect: {provider: {vsphere: {}}}}]\n");
    assert_eq!(told, "step 1: the scenario has no provider \"vsphere\": name it below `providers`");
}
