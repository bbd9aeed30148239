//! What a step does.

use super::{GIVEN, found, holds, refused};

#[test]
fn what_users_do_before_a_write_comes_between_the_pass_and_its_write() {
    // Another manager takes the field: the apply that was decided before meets a conflict.
    holds(&format!(
        "{GIVEN}steps:
  - before:
      verb: apply
      kind: ConfigMap
      name: a-copy
      do:
        - patch: {{kind: ConfigMap, namespace: default, name: a-copy, manager: kubectl, merge: {{data: {{text: mine}}}}}}
  - patch: {{kind: ConfigMap, namespace: default, name: a, merge: {{data: {{text: other}}}}}}
  - expect:
      writes-include: [apply ConfigMap default/a-copy (failed)]
      objects: [{{kind: ConfigMap, metadata: {{namespace: default, name: a-copy}}, data: {{text: mine}}}}]
"
    ));
}

#[test]
fn what_comes_before_a_write_comes_once() {
    holds(&format!(
        "{GIVEN}steps:
  - before: {{verb: apply, name: a-copy, do: [{{delete: {{kind: ConfigMap, namespace: default, name: a-copy}}}}]}}
  - patch: {{kind: ConfigMap, namespace: default, name: a, merge: {{data: {{text: b}}}}}}
  - patch: {{kind: ConfigMap, namespace: default, name: a, merge: {{data: {{text: c}}}}}}
  - expect:
      objects: [{{kind: ConfigMap, metadata: {{namespace: default, name: a-copy}}, data: {{text: c}}}}]
      writes-include: [apply ConfigMap default/a-copy (failed), apply ConfigMap default/a-copy]
      quiet: true
"
    ));
}

#[test]
fn what_the_server_refuses_before_a_write_is_told() {
    let told = found(&format!(
        "{GIVEN}steps:
  - before: {{verb: apply, do: [{{delete: {{kind: ConfigMap, namespace: default, name: nobody}}}}]}}
  - patch: {{kind: ConfigMap, namespace: default, name: a, merge: {{data: {{text: b}}}}}}
"
    ));
    assert_eq!(
        told,
        "step 2: a request before a write: is carried out but DELETE /api/v1/namespaces/default/configmaps/nobody: \
         configmaps \"nobody\" not found\n"
    );
}

#[test]
fn what_is_laid_and_never_strikes_is_told_with_its_step_and_one_strike_is_enough() {
    let told = found(&format!(
        "{GIVEN}steps:
  - fail: {{verb: delete, kind: configmaps, code: 500}}
  - fail: {{verb: apply, kind: ConfigMap, name: a-copy, code: 500, times: 1000}}
  - before: {{verb: patch, kind: ConfigMap, do: []}}
  - repeat: {{times: 2, steps: [{{fail: {{verb: delete, name: 'x{{n}}', code: 500, times: 3}}}}]}}
  - patch: {{kind: ConfigMap, namespace: default, name: a, merge: {{data: {{text: other}}}}}}
  - expect: {{writes-include: [apply ConfigMap default/a-copy (failed)]}}
"
    ));
    let line = |step: &str, request: &str, times: u32| {
        format!(
            "step {step}: strikes when it comes: {request} but none came up to the end: it struck 0 of {times} times\n"
        )
    };
    let expected = [
        line("1: fail", "delete configmaps", 1),
        line("3: before", "patch ConfigMap", 1),
        line("4: fail", "delete x1", 3),
        line("4: fail", "delete x2", 3),
    ];
    assert_eq!(told, expected.concat());
}

#[test]
fn a_kind_that_stands_alone_may_be_whatever_may_be_served() {
    let crd = |kind: &str| {
        format!(
            "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: {0}s.e.com}}, \
             spec: {{group: e.com, scope: Namespaced, names: {{kind: {kind}, plural: {0}s, singular: {0}, listKind: \
             {kind}List}}, versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: \
             object}}}}}}]}}}}",
            kind.to_lowercase()
        )
    };
    let with = |step: &str| {
        format!("given: [{}]\nsteps: [{{cut-watches: {step}}}, {{create: {}}}]\n", crd("Foo"), crd("Bar"))
    };
    for kind in ["Pod", "pods", "PriorityClass", "DataVolume", "datavolumes", "Foo", "foos", "Bar", "bars"] {
        holds(&with(&format!("{{kind: {kind}}}")));
    }
    for (kind, meant) in [("Configmap", "; is ConfigMap meant?"), ("foo", ""), ("Fo", "")] {
        let expected = format!("step 1: cannot tell what is meant: no kind \"{kind}\" is known here{meant}");
        assert_eq!(refused(&with(&format!("{{kind: {kind}}}"))), expected);
        let fail = format!("steps: [{{fail: {{kind: {kind}, code: 500}}}}]\n");
        assert_eq!(refused(&fail), expected);
    }
}

#[test]
fn only_requests_come_before_a_write() {
    let told = refused("steps: [{before: {do: [{advance: 1s}]}}]\n");
    assert_eq!(told, "step 1: `before` takes apply, create, replace, patch and delete");
}

#[test]
fn steps_are_repeated_and_objects_given_by_number() {
    holds(
        "given-many: {times: 3, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: 'm{n}', namespace: default, labels: {copy: 'yes'}}}]}
steps:
  - expect:
      writes-include: [apply ConfigMap default/m1-copy, apply ConfigMap default/m2-copy, apply ConfigMap default/m3-copy]
  - repeat:
      times: 2
      steps:
        - create: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'n{n}', namespace: default, labels: {copy: 'yes'}}}
        - expect: {writes-include: ['apply ConfigMap default/n{n}-copy'], quiet: true}
",
    );
}

#[test]
fn a_difference_in_a_repetition_names_the_step_of_the_file() {
    let told = found("steps:\n  - resync: 1\n  - repeat: {times: 2, steps: [{expect: {calls: 7}}]}\n");
    assert_eq!(told, "step 2: calls of the plugin: 7 but 0\n".repeat(2));
}

#[test]
fn the_operators_grant_narrows_what_the_plugin_may_do() {
    let grant = "grant: {permissions: [{apiVersion: v1, kind: ConfigMap, verbs: [get, list]}]}\n";
    holds(&format!(
        "{grant}{GIVEN}steps: [{{expect: {{absent: [{{kind: ConfigMap, namespace: default, name: a-copy}}], \
         failed: {{controller: copy, key: default/a, kind: denied}}}}}}]\n"
    ));
    let told = refused(&format!("grant: {{permisions: []}}\n{GIVEN}steps: [{{resync: 1}}]\n"));
    assert!(told.contains("permisions"), "{told}");
}

#[test]
fn a_request_that_is_refused_is_expected_to_be() {
    let steps = |wanted: &str| {
        format!(
            "{GIVEN}steps: [{{refused: {{create: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: \
             default}}}}, {wanted}}}}}]\n"
        )
    };
    holds(&steps("code: 409, message: already exists"));
    let told = found(&steps("code: 422"));
    assert_eq!(
        told,
        "step 1: POST /api/v1/namespaces/default/configmaps?fieldManager=user: refused with 422: …… but refused with \
         409: configmaps \"a\" already exists\n"
    );
    let other = "steps: [{refused: {delete: {kind: ConfigMap, namespace: default, name: a}}}]\n";
    let told = found(&format!("{GIVEN}{other}"));
    assert!(told.ends_with("refused: …… but carried out\n"), "{told}");
    let told = refused("steps: [{refused: {code: 422}}]\n");
    assert!(told.ends_with("one request is refused: apply, create, replace, patch or delete"), "{told}");
}
