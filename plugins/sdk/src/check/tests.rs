//! What a pass is to a plugin, shown by passes.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{Conclusion, Meta, Pass, Stop, act, controller, manifest, permit, reference};

/// A plugin of which each controller shows one thing.
struct Shown;

#[derive(Deserialize)]
struct Strict {
    data: BTreeMap<String, String>,
}
crate::view!(Strict as Secret: "/data");

impl Plugin for Shown {
    fn describe() -> Manifest {
        let names = [
            "batch",
            "one-by-one",
            "unserved",
            "served",
            "shape",
            "perform",
            "lists",
            "provider",
            "fails",
            "end",
        ];
        let mut built = manifest("shown", "0.1.0", "").permit(permit::<ConfigMap>().read());
        for name in names {
            built = built.controller(controller::<Namespace>(name));
        }
        built.build()
    }

    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
        let end = Conclusion::new();
        match pass.controller() {
            "batch" => {
                let (a, b) = (pass.get::<ConfigMap>(("team", "a")).ask(), pass.get::<ConfigMap>(("team", "b")).ask());
                let now = pass.clock();
                a.read()?;
                b.read()?;
                now.read().map(|_| end)
            }
            "one-by-one" => {
                pass.get::<ConfigMap>(("team", "a")).read()?;
                pass.get::<ConfigMap>(("team", "b")).read()?;
                pass.now().map(|_| end)
            }
            "unserved" => pass.list::<ConfigMap>().read().map(|_| end),
            "served" => {
                let one = pass.get::<ConfigMap>(("team", "a")).ask_if_served();
                let all = pass.list::<ConfigMap>().read_if_served()?;
                let text = format!("one: {:?}, all: {:?}", one.read()?.is_served(), all.is_served());
                Ok(end.with(act::normal(pass.key().clone(), "Shown", text)))
            }
            "shape" => pass.get::<Strict>(("team", "secret")).read().map(|found| {
                let keys: Vec<_> = found.into_iter().flat_map(|secret| secret.data.into_keys()).collect();
                end.with(act::normal(pass.key().clone(), "Keys", keys.join(" ")))
            }),
            "perform" => {
                let first = act::create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}}));
                let outcomes = pass.perform(vec![first.into()])?;
                Ok(end.with(act::normal(pass.key().clone(), "Done", format!("{} of 1", outcomes.len()))))
            }
            "lists" => {
                let labelled = pass.list::<Meta<ConfigMap>>().namespace("team").labels("a=1,!b").ask();
                let controlled = pass.list::<Meta<ConfigMap>>().controlled_by("u").ask();
                let matched = pass.list::<Meta<ConfigMap>>().field("/data/k", "v").ask();
                let names = |list: Vec<Meta<ConfigMap>>| {
                    list.into_iter().filter_map(|map| map.metadata.name).collect::<Vec<_>>().join(" ")
                };
                let text = format!("{} | {} | {}", names(labelled.read()?), names(controlled.read()?), names(matched.read()?));
                Ok(end.with(act::normal(pass.key().clone(), "Found", text)))
            }
            "provider" => {
                let vm = json!({"server": "vc", "vm": "vm-7"});
                let power = match pass.external::<BTreeMap<String, String>>("vsphere", "vm", &vm).read()? {
                    Ok(answer) => answer.into_values().collect::<String>(),
                    Err(failure) => return Ok(end.with(act::warning(pass.key().clone(), "Mute", failure.message))),
                };
                let outcomes = pass.perform(vec![act::external("vsphere", "power-on", "key-1", &vm)])?;
                let outcome = outcomes.into_iter().next().and_then(|outcome| outcome.ok().flatten());
                let text = format!("{power}: {}", outcome.unwrap_or_default());
                Ok(end.with(act::normal(pass.key().clone(), "Power", text)))
            }
            "fails" => Err(Stop::denied("no")),
            _ => Ok(end
                .with(act::apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}})).force().controlled())
                .with(act::apply_status::<Namespace>("team", &json!({"phase": "Active"})))
                .with(act::delete(reference::<ConfigMap>(("team", "b"))).uid("u").propagation(crate::Propagation::Foreground))
                .with(act::patch(reference::<Namespace>("team"), &json!({"metadata": {"labels": {"a": null}}})))
                .with(act::warning(pass.key().clone(), "Lines", "one\ntwo"))
                .with(act::enqueue("batch", pass.key().clone()))
                .with(act::external("vsphere", "clone", "key-1", &json!({})))
                .prune::<Secret>()
                .requeue_after(std::time::Duration::from_millis(1500))
                .requeue_after(std::time::Duration::from_secs(2))),
        }
    }
}

fn check(controller: &str, given: &str, expected: Expect) {
    let outcome = Check::of::<Shown>(controller).key("team").given(given).run();
    expected.assert_eq(&format!("rounds: {}\n{outcome}", outcome.rounds));
}

#[test]
fn questions_put_before_the_first_is_read_travel_together() {
    check(
        "batch",
        "",
        expect![[r#"
        rounds: 2
        nothing to do
    "#]],
    );
    check(
        "one-by-one",
        "",
        expect![[r#"
        rounds: 4
        nothing to do
    "#]],
    );
}

#[test]
fn a_kind_that_is_not_served_fails_the_pass_unless_asked_about() {
    let outcome =
        |controller| Check::of::<Shown>(controller).key("team").unserved::<ConfigMap>().run().to_string();
    expect![[r#"
        failed, not found: the API server does not serve ConfigMap
    "#]]
    .assert_eq(&outcome("unserved"));
    expect![[r#"
        event Normal Shown about Namespace team: one: false, all: false
    "#]]
    .assert_eq(&outcome("served"));
    check(
        "served",
        "",
        expect![[r#"
        rounds: 2
        event Normal Shown about Namespace team: one: true, all: true
    "#]],
    );
}

#[test]
fn an_object_of_another_shape_is_named_without_what_it_holds() {
    check(
        "shape",
        "{apiVersion: v1, kind: Secret, metadata: {name: secret, namespace: team}, data: {a: aGk=}}",
        expect![[r#"
        rounds: 2
        event Normal Keys about Namespace team: a
    "#]],
    );
    check(
        "shape",
        "{apiVersion: v1, kind: Secret, metadata: {name: secret, namespace: team}, data: S3cret}",
        expect![[r#"
        rounds: 2
        failed, invalid: Secret team/secret has an unexpected shape (line 1, column 34)
    "#]],
    );
}

#[test]
fn what_is_done_in_the_middle_is_done_once() {
    check(
        "perform",
        "",
        expect![[r#"
        rounds: 2
        first create ConfigMap team/a
          {}
        event Normal Done about Namespace team: 1 of 1
    "#]],
    );
}

#[test]
fn a_list_holds_what_matches_every_condition() {
    let given = "
- {apiVersion: v1, kind: ConfigMap, metadata: {name: z, namespace: team, labels: {a: '1'}}, data: {k: v}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: y, namespace: team, labels: {a: '1', b: ''}}, data: {k: w}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: other, labels: {a: '1'}, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: w, namespace: other, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}, data: {k: v}}
";
    check(
        "lists",
        given,
        expect![[r#"
        rounds: 2
        event Normal Found about Namespace team: z | x | w z
    "#]],
    );
}

#[test]
fn a_provider_says_what_it_was_told_and_the_later_word_counts() {
    let asked =
        || Check::of::<Shown>("provider").key("team").performs("vsphere", "power-on", "{result: task}");
    let told = asked().answers("vsphere", "vm", "{vm: vm-7}", "{power: 'off'}").answers(
        "vsphere",
        "vm",
        "{vm: vm-8}",
        "{power: 'on'}",
    );
    expect![[r#"
        first external power-on of vsphere as key-1
          {"server":"vc","vm":"vm-7"}
        event Normal Power about Namespace team: off: {"result":"task"}
    "#]]
    .assert_eq(&told.run().to_string());
    expect![[r#"
        event Warning Mute about Namespace team: no answer of vsphere is told for vm {"server":"vc","vm":"vm-7"}
    "#]]
    .assert_eq(&asked().run().to_string());
}

#[test]
fn a_failure_ends_the_pass() {
    check(
        "fails",
        "",
        expect![[r#"
        rounds: 1
        failed, denied: no
    "#]],
    );
}

#[test]
fn a_conclusion_keeps_its_order_and_the_earliest_requeue() {
    check(
        "end",
        "",
        expect![[r#"
        rounds: 1
        apply ConfigMap team/a force controlled
          {}
        apply-status Namespace team
          {"status":{"phase":"Active"}}
        delete ConfigMap team/b uid u foreground
        patch Namespace team
          {"metadata":{"labels":{"a":null}}}
        event Warning Lines about Namespace team: one two
        enqueue batch Namespace team
        external clone of vsphere as key-1
          {}
        prune Secret
        requeue after 1500ms
    "#]],
    );
}
