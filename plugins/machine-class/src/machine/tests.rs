//! The machine flow, pass by pass, against a driver whose answers are given. Whole lives are scenarios.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};

use crate::{MachineClassPlugin, names};

mod preservation;
mod token;
mod update;

const NEW: &str = "{}";
const SECRET: &str =
    "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {userData: dQ==}}";

/// A class `a`; `no-fin`, `del` and `template` say what is special about it.
fn class(marks: &str) -> String {
    let finalizer = if marks.contains("no-fin") { "example.com/x" } else { names::FINALIZER };
    let deletion = if marks.contains("del") { ", deletionTimestamp: '2026-01-01T00:00:00Z'" } else { "" };
    let template = if marks.contains("template") { ", nodeTemplate: {capacity: {cpu: 1}}" } else { "" };
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: MachineClass, metadata: {{namespace: shoot, name: a, finalizers: [{finalizer}]{deletion}}}, provider: sim, providerSpec: {{size: small}}, secretRef: {{name: s1}}{template}}}"
    )
}

/// A machine of class `a`, ten minutes old, with more metadata, spec and status.
struct Given {
    metadata: &'static str,
    spec: &'static str,
    status: &'static str,
}

impl Given {
    fn yaml(&self) -> String {
        let Self { metadata, spec, status } = self;
        format!(
            "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: m1, uid: U1, creationTimestamp: '2025-12-31T23:50:00Z', finalizers: [{}]{metadata}}}, spec: {{class: {{kind: MachineClass, name: a}}{spec}}}, status: {status}}}",
            names::FINALIZER
        )
    }
}

fn new() -> Given {
    Given { metadata: "", spec: "", status: NEW }
}

const HAS_VM: Given = Given {
    metadata: ", labels: {node: m1}",
    spec: ", providerID: 'sim:///vm-1'",
    status: "{currentStatus: {phase: Running, lastUpdateTime: '2025-12-31T23:55:00Z'}, conditions: [{type: Ready, status: 'True'}]}",
};

fn with_class(machine: &Given, marks: &str) -> Check {
    let check = Check::of::<MachineClassPlugin>("machine").key("shoot/m1").given(&machine.yaml());
    if marks == "none" { check } else { check.given(&class(marks)).given(SECRET) }
}

fn node(more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: m1, uid: N1, finalizers: [{}]}}{more}}}",
        names::NODE_FINALIZER
    )
}

/// A Node of which the machine goes, and which takes no Pods any more.
fn leaving_node() -> String {
    node(
        ", spec: {unschedulable: true}, status: {conditions: [{type: Terminating, status: 'True', reason: ScaleDown}]}",
    )
}

const DONE: &str = "{result: done, providerID: 'sim:///vm-1', nodeName: m1}";

fn failed(code: &str) -> String {
    format!(
        "{{result: failed, code: {code}, message: 'machine codes error: code = [{code}] message = [so it is]'}}"
    )
}

/// The lines that matter: actions, and of a status its phase and last operation.
fn shown(check: Check) -> String {
    let mut text = String::new();
    for line in check.run().to_string().lines() {
        let Some(body) = line.strip_prefix("  ") else {
            text += &format!("{line}\n");
            continue;
        };
        let body: serde_json::Value = serde_json::from_str(body).expect("a body is JSON");
        let Some(operation) = body.pointer("/status/lastOperation") else { continue };
        let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        text += &format!(
            "  {} {}/{} {}\n",
            body.pointer("/status/currentStatus/phase").map_or("-".to_owned(), word),
            word(&operation["type"]),
            word(&operation["state"]),
            word(&operation["description"]),
        );
    }
    text
}

fn check(check: Check, expected: Expect) {
    expected.assert_eq(&shown(check));
}

#[test]
fn the_finalizer_precedes_everything_else() {
    let text = new().yaml().replace(names::FINALIZER, "");
    let bare = Check::of::<MachineClassPlugin>("machine").key("shoot/m1").given(&text);
    check(
        bare,
        expect![[r#"
        add-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
}

#[test]
fn a_class_without_its_finalizer_is_asked_for_it_and_no_driver_is_called() {
    check(
        with_class(&new(), "no-fin"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed MachineClass a is not protected by its finalizer yet
        enqueue machine-class MachineClass shoot/a
        requeue after 5s
    "#]],
    );
}

#[test]
fn what_stands_in_the_way_of_a_vm_is_said() {
    check(
        with_class(&new(), "none"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed MachineClass a does not exist
        event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist
        requeue after 600s
    "#]],
    );
    check(
        with_class(&new(), "del"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed MachineClass a is being deleted: no VM is made of it
        event Warning ClassBeingDeleted about Machine shoot/m1: MachineClass a is being deleted: no VM is made of it
    "#]],
    );
    check(
        with_class(&new(), "no-fin del"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed MachineClass a is being deleted: no VM is made of it
        event Warning ClassBeingDeleted about Machine shoot/m1: MachineClass a is being deleted: no VM is made of it
    "#]],
    );
    check(
        with_class(&new(), "template"),
        expect![[r#"
        first apply-status Machine shoot/m1 force
          - Create/Failed nodeTemplate of the class lacks capacity.gpu, capacity.memory, instanceType, region, zone
        failed, invalid: nodeTemplate of the class lacks capacity.gpu, capacity.memory, instanceType, region, zone
    "#]],
    );
    let no_secret =
        Check::of::<MachineClassPlugin>("machine").key("shoot/m1").given(&new().yaml()).given(&class(""));
    check(
        no_secret,
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed the class refers to Secret shoot/s1, which does not exist
        event Warning SecretMissing about Machine shoot/m1: the class refers to Secret shoot/s1, which does not exist
        requeue after 600s
    "#]],
    );
    let other_kind = new().yaml().replace("kind: MachineClass,", "kind: AWSMachineClass,");
    check(
        with_class(&new(), "").given(&other_kind),
        expect![[r#"
        first apply-status Machine shoot/m1 force
          - Create/Failed spec.class.kind is "AWSMachineClass": only MachineClass can be made to a VM
        failed, invalid: spec.class.kind is "AWSMachineClass": only MachineClass can be made to a VM
    "#]],
    );
}

#[test]
fn a_class_of_another_group_is_none_of_ours() {
    let other = new().yaml().replace("class: {kind:", "class: {apiGroup: example.com, kind:");
    check(
        with_class(&new(), "").given(&other),
        expect![[r#"
        first apply-status Machine shoot/m1 force
          - Create/Failed spec.class.apiGroup is "example.com": classes are of machine.sapcloud.io
        failed, invalid: spec.class.apiGroup is "example.com": classes are of machine.sapcloud.io
    "#]],
    );
}

#[test]
fn user_data_that_no_vm_can_be_made_with_is_said() {
    let no_data =
        "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {other: dQ==}}";
    check(
        with_class(&new(), "").given(no_data),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed the Secrets of the class hold no userData
        requeue after 5s
    "#]],
    );
    let token = "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {userData: PDxCT09UU1RSQVBfVE9LRU4+Pg==}}";
    check(
        with_class(&new(), "").given(token).config("{nodes: false}"),
        expect![[r#"
            apply-status Machine shoot/m1 force
              - Create/Failed the userData of the class asks for <<BOOTSTRAP_TOKEN>>: none is made where Nodes are in another cluster, so give one in the userData
            requeue after 600s
        "#]],
    );
}

#[test]
fn a_vm_that_is_not_there_is_made_and_bound_to_its_machine() {
    let made = with_class(&new(), "")
        .answers("machine", "status", "{}", &failed("NotFound"))
        .performs("machine", "create", DONE)
        .performs("machine", "initialize", &failed("Unimplemented"));
    check(
        made,
        expect![[r#"
        first external create of machine as create/U1
        first external initialize of machine as initialize/U1/0
        apply Machine shoot/m1 force
        apply-status Machine shoot/m1 force
          Pending Create/Processing Creating machine m1 on the provider
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_vm_that_is_there_is_adopted() {
    check(
        with_class(&new(), "").answers("machine", "status", "{}", DONE),
        expect![[r#"
        apply Machine shoot/m1 force
        apply-status Machine shoot/m1 force
          Pending Create/Processing Creating machine m1 on the provider
        requeue after 5s
    "#]],
    );
}

#[test]
fn the_driver_is_told_machine_class_and_secrets() {
    let run = with_class(&new(), "")
        .answers("machine", "status", "{}", &failed("NotFound"))
        .performs("machine", "create", &failed("Internal"))
        .run();
    let [evenkeel_sdk::Action::External(told)] = &run.performed[..] else { panic!("{:?}", run.performed) };
    let told: serde_json::Value = serde_json::from_str(&told.arguments).expect("arguments are JSON");
    expect![[r#"
        {
          "class": {
            "name": "a",
            "provider": "sim",
            "providerSpec": {
              "size": "small"
            }
          },
          "machine": {
            "name": "m1",
            "namespace": "shoot",
            "uid": "U1"
          },
          "sensitive": {
            "secretData": {
              "userData": "dQ=="
            }
          }
        }"#]]
    .assert_eq(&format!("{told:#}"));
}

#[test]
fn the_driver_is_told_the_user_data_of_this_machine() {
    let named = "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {userData: PDxNQUNISU5FX05BTUU+Pg==}}";
    let run = with_class(&new(), "")
        .given(named)
        .answers("machine", "status", "{}", &failed("NotFound"))
        .performs("machine", "create", &failed("Internal"))
        .run();
    let [evenkeel_sdk::Action::External(told)] = &run.performed[..] else { panic!("{:?}", run.performed) };
    let told: serde_json::Value = serde_json::from_str(&told.arguments).expect("arguments are JSON");
    // "m1", in base64.
    assert_eq!(told["sensitive"]["secretData"]["userData"], "bTE=");
}

#[test]
fn a_vm_under_the_name_of_a_node_that_was_there_before_is_deleted_again() {
    let stale = with_class(&new(), "")
        .given("{apiVersion: v1, kind: Node, metadata: {name: old}}")
        .answers("machine", "status", "{}", &failed("NotFound"))
        .performs("machine", "create", "{result: done, providerID: 'sim:///vm-1', nodeName: old}")
        .performs("machine", "delete", "{result: done}");
    check(
        stale,
        expect![[r#"
        first external create of machine as create/U1
        first external delete of machine as delete/U1
        apply-status Machine shoot/m1 force
          Failed Create/Failed VM uses an old node object: Node old was there before the VM
        requeue after 600s
    "#]],
    );
}

fn creation_fails(code: &str) -> Check {
    with_class(&new(), "").answers("machine", "status", "{}", &failed("NotFound")).performs(
        "machine",
        "create",
        &failed(code),
    )
}

#[test]
fn each_code_has_its_period() {
    let mut text = String::new();
    for code in
        ["Unavailable", "ResourceExhausted", "Internal", "InvalidArgument", "Unauthenticated", "nonsense"]
    {
        let end = creation_fails(code).run().end.expect("it concludes");
        text += &format!("{code} {:?}\n", end.requeue_after);
    }
    expect![[r#"
        Unavailable Some(5000)
        ResourceExhausted Some(600000)
        Internal Some(180000)
        InvalidArgument Some(600000)
        Unauthenticated Some(600000)
        nonsense Some(180000)
    "#]]
    .assert_eq(&text);
    check(
        creation_fails("Unavailable"),
        expect![[r#"
        first external create of machine as create/U1
        apply-status Machine shoot/m1 force
          CrashLoopBackOff Create/Failed Cloud provider message - machine codes error: code = [Unavailable] message = [so it is]
        requeue after 5s
    "#]],
    );
    check(
        creation_fails("Unavailable").at("2026-01-01T00:10:00Z"),
        expect![[r#"
        first external create of machine as create/U1
        apply-status Machine shoot/m1 force
          Failed Create/Failed Cloud provider message - machine codes error: code = [Unavailable] message = [so it is]
        requeue after 600s
    "#]],
    );
}

#[test]
fn several_vms_behind_one_machine_are_left_alone() {
    check(
        with_class(&new(), "").answers("machine", "status", "{}", &failed("OutOfRange")),
        expect![[r#"
            apply-status Machine shoot/m1 force
              CrashLoopBackOff Create/Failed Cloud provider message - machine codes error: code = [OutOfRange] message = [so it is]
            enqueue machine-orphans MachineClass shoot/a
            requeue after 600s
        "#]],
    );
}

#[test]
fn an_initialisation_that_fails_is_tried_again_under_another_key() {
    let fails = with_class(&new(), "")
        .answers(
            "machine",
            "status",
            "{}",
            "{result: done, providerID: 'sim:///vm-1', nodeName: m1, uninitialized: true}",
        )
        .performs("machine", "initialize", &failed("Internal"));
    expect![[r#"
        first external initialize of machine as initialize/U1/0
          {"machine":{"namespace":"shoot","name":"m1","uid":"U1"},"class":{"name":"a","provider":"sim","providerSpec":{"size":"small"}},"sensitive":{"secretData":{"userData":"dQ=="}}}
        apply-status Machine shoot/m1 force
          {"status":{"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"CrashLoopBackOff"},"lastOperation":{"description":"Cloud provider message - machine codes error: code = [Internal] message = [so it is]","errorCode":"Internal","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Failed","type":"Create"}}}
        apply Machine shoot/m1 force
          {"metadata":{"annotations":{"evenkeel.dev/initialize-attempt":"1","machinepriority.machine.sapcloud.io":"3"},"labels":{"node":"m1"}},"spec":{"providerID":"sim:///vm-1"}}
        requeue after 5s
    "#]].assert_eq(&fails.run().to_string());
}

#[test]
fn a_running_machine_has_its_node_looked_after() {
    let template = Given {
        metadata: HAS_VM.metadata,
        spec: ", providerID: 'sim:///vm-1', nodeTemplate: {metadata: {labels: {pool: x}}, spec: {taints: [{key: k, effect: NoSchedule}]}}",
        status: HAS_VM.status,
    };
    let run =
        with_class(&template, "").given(&node(", status: {conditions: [{type: Ready, status: 'True'}]}"));
    expect![[r#"
        apply Machine shoot/m1 force
          {"metadata":{"annotations":{"machinepriority.machine.sapcloud.io":"3"},"labels":{"node":"m1"}},"spec":{"providerID":"sim:///vm-1"}}
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        patch Node m1
          {"spec":{"taints":[{"effect":"NoSchedule","key":"k"}]}}
        apply Node m1 force
          {"metadata":{"annotations":{"node.machine.sapcloud.io/last-applied-anno-labels-taints":"{\"Labels\":{\"pool\":\"x\"},\"Taints\":[{\"effect\":\"NoSchedule\",\"key\":\"k\"}]}"},"labels":{"node.gardener.cloud/machine-name":"m1","pool":"x"}}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2025-12-31T23:55:00Z","phase":"Running"},"lastOperation":{}}}
        requeue after 600s
    "#]].assert_eq(&run.run().to_string());
}

#[test]
fn a_running_machine_whose_class_is_gone_says_so() {
    check(
        with_class(&HAS_VM, "none").given(&node(", status: {conditions: [{type: Ready, status: 'True'}]}")),
        expect![[r#"
            apply Machine shoot/m1 force
            add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
            apply Node m1 force
            event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist: the VM cannot be deleted without it
            apply-status Machine shoot/m1 force
              Running HealthCheck/Failed MachineClass a does not exist: the VM cannot be deleted without it
            requeue after 600s
        "#]],
    );
}

#[test]
fn an_unhealthy_machine_fails_when_it_is_its_turn() {
    let unknown = Given {
        status: "{currentStatus: {phase: Unknown, lastUpdateTime: '2025-12-31T23:50:00Z'}, conditions: [{type: Ready, status: 'True'}]}",
        metadata: ", labels: {node: m1, name: pool}",
        spec: HAS_VM.spec,
    };
    let sick =
        || with_class(&unknown, "").given(&node(", status: {conditions: [{type: Ready, status: Unknown}]}"));
    check(
        sick(),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Failed HealthCheck/Failed Machine m1 was not healthy for 10m
        requeue after 600s
    "#]],
    );
    let sibling = |phase: &str| {
        format!(
            "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: m0, labels: {{name: pool}}}}, status: {{currentStatus: {{phase: {phase}, lastUpdateTime: '2025-12-31T23:50:00Z'}}}}}}"
        )
    };
    check(
        sick().given(&sibling("Running")),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Failed HealthCheck/Failed Machine m1 was not healthy for 10m
        requeue after 600s
    "#]],
    );
    check(
        sick().given(&sibling("Pending")),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Unknown -/- -
        requeue after 5s
    "#]],
    );
    check(
        sick().given(&sibling("Unknown")),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Unknown -/- -
        requeue after 5s
    "#]],
    );
}

/// A machine that is being deleted since a minute.
fn going(machine: &Given) -> String {
    machine.yaml().replace("uid: U1,", "uid: U1, deletionTimestamp: '2025-12-31T23:59:00Z',")
}

fn goes(machine: &Given, marks: &str) -> Check {
    with_class(machine, marks).given(&going(machine))
}

#[test]
fn a_machine_that_goes_takes_vm_and_node_along() {
    let all = goes(&HAS_VM, "").given(&leaving_node()).answers("machine", "status", "{}", DONE).performs(
        "machine",
        "delete",
        "{result: done}",
    );
    check(
        all,
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        first external delete of machine as delete/U1
        remove-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        delete Node m1 uid N1
        remove-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
}

#[test]
fn leftovers_of_a_vm_that_is_gone_are_looked_for_all_the_same() {
    let gone = goes(&HAS_VM, "").answers("machine", "status", "{}", &failed("NotFound")).performs(
        "machine",
        "delete",
        &failed("NotFound"),
    );
    check(
        gone,
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        first external delete of machine as delete/U1
        remove-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
}

#[test]
fn deletion_needs_no_finalizer_on_the_class_and_no_class_that_stays() {
    let goes = goes(&HAS_VM, "no-fin del template").answers("machine", "status", "{}", DONE).performs(
        "machine",
        "delete",
        "{result: done}",
    );
    check(
        goes,
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        first external delete of machine as delete/U1
        remove-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
}

#[test]
fn a_node_is_told_that_its_machine_goes_and_cordoned_before_its_pods_are_looked_at() {
    let pod =
        "{apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: a, uid: P1}, spec: {nodeName: m1}}";
    let first = |ready: &str| {
        goes(&HAS_VM, "")
            .given(&node(&format!(", status: {{conditions: [{{type: Ready, status: '{ready}'}}]}}")))
            .given(pod)
            .answers("machine", "status", "{}", DONE)
            .run()
            .to_string()
    };
    expect![[r#"
        first apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"Terminating"},"lastOperation":{"description":"Machine deletion process initiated. Getting VM Status","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Processing","type":"Delete"}}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"Terminating"},"lastOperation":{"description":"Initiate node drain","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Processing","type":"Delete"}}}
        patch Node m1
          {"spec":{"unschedulable":true}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node is being deleted","reason":"ScaleDown","status":"True","type":"Terminating"}]}}
        requeue after 5s
    "#]].assert_eq(&first("True"));
    assert!(first("False").contains(r#""reason":"Unhealthy""#));
}

#[test]
fn the_node_is_emptied_before_the_vm_goes() {
    let pods = "
- {apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: a, uid: P1}, spec: {nodeName: m1}}
- {apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: b}, spec: {nodeName: m2}}";
    let busy = goes(&HAS_VM, "").given(&leaving_node()).given(pods).answers("machine", "status", "{}", DONE);
    check(
        busy,
        expect![[r#"
            first apply-status Machine shoot/m1 force
              Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
            apply-status Machine shoot/m1 force
              Terminating Delete/Processing Initiate node drain
            delete Pod apps/a uid P1
            requeue after 5s
        "#]],
    );
}

#[test]
fn without_its_class_a_machine_with_a_vm_is_held() {
    check(
        goes(&HAS_VM, "none"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          Terminating Delete/Failed MachineClass a does not exist: without it sim:///vm-1 cannot be deleted
        event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist: without it sim:///vm-1 cannot be deleted
        requeue after 5s
    "#]],
    );
}

#[test]
fn without_its_class_a_machine_that_never_had_a_vm_goes() {
    let known = |keys: &str| {
        goes(&new(), "none").answers("machine", "operations", "{}", &format!("{{operations: [{keys}]}}"))
    };
    check(
        known(""),
        expect![[r#"
        remove-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
    check(
        known("create/U1"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Delete/Failed MachineClass a does not exist: without it a VM that may exist cannot be deleted
        event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist: without it a VM that may exist cannot be deleted
        requeue after 5s
    "#]],
    );
    // A host without the provider cannot tell.
    check(
        goes(&new(), "none"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Delete/Failed MachineClass a does not exist, and the provider cannot tell whether there is a VM: no answer of machine is told for operations {"uid":"U1"}
        event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist, and the provider cannot tell whether there is a VM: no answer of machine is told for operations {"uid":"U1"}
        requeue after 5s
    "#]],
    );
}

#[test]
fn somebody_may_take_the_vm_upon_them() {
    let abandoned = |id: &str| {
        let text = going(&HAS_VM)
            .replace("labels:", &format!("annotations: {{evenkeel.dev/abandon-vm: '{id}'}}, labels:"));
        goes(&HAS_VM, "none").given(&text).given(&node(""))
    };
    check(
        abandoned("sim:///vm-1"),
        expect![[r#"
        event Warning VMAbandoned about Machine shoot/m1: VM sim:///vm-1 is left to its fate: annotation evenkeel.dev/abandon-vm says so
        remove-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        delete Node m1 uid N1
        remove-finalizer Machine shoot/m1 machine.sapcloud.io/machine-controller-manager
    "#]],
    );
    check(
        abandoned("sim:///vm-2"),
        expect![[r#"
        apply-status Machine shoot/m1 force
          Terminating Delete/Failed MachineClass a does not exist: without it sim:///vm-1 cannot be deleted
        event Warning ClassMissing about Machine shoot/m1: MachineClass a does not exist: without it sim:///vm-1 cannot be deleted
        requeue after 5s
    "#]],
    );
}

#[test]
fn without_its_secret_no_driver_is_called() {
    let text = going(&HAS_VM);
    let check_ = Check::of::<MachineClassPlugin>("machine").key("shoot/m1").given(&text).given(&class(""));
    check(
        check_,
        expect![[r#"
        apply-status Machine shoot/m1 force
          Terminating Delete/Failed Secret shoot/s1 does not exist: without it the VM cannot be deleted
        event Warning SecretMissing about Machine shoot/m1: Secret shoot/s1 does not exist: without it the VM cannot be deleted
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_driver_that_fails_is_asked_again_in_its_time() {
    let fails = |code: &str| {
        goes(&HAS_VM, "").answers("machine", "status", "{}", DONE).performs(
            "machine",
            "delete",
            &failed(code),
        )
    };
    check(
        fails("Unavailable"),
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        first external delete of machine as delete/U1
        apply-status Machine shoot/m1 force
          Terminating Delete/Failed Initiate VM deletion. Cloud provider message - machine codes error: code = [Unavailable] message = [so it is]
        requeue after 5s
    "#]],
    );
    check(
        fails("Unauthenticated"),
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        first external delete of machine as delete/U1
        apply-status Machine shoot/m1 force
          Terminating Delete/Failed Initiate VM deletion. Cloud provider message - machine codes error: code = [Unauthenticated] message = [so it is]
        requeue after 600s
    "#]],
    );
}

#[test]
fn an_operator_may_leave_machines_to_somebody_else() {
    check(
        with_class(&new(), "").config("{machines: false}"),
        expect![[r#"
        nothing to do
    "#]],
    );
    check(
        goes(&HAS_VM, "").config("{machines: false}"),
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn without_nodes_a_machine_is_available_once_it_has_a_vm() {
    check(
        with_class(&new(), "").config("{nodes: false}").answers("machine", "status", "{}", DONE),
        expect![[r#"
            apply Machine shoot/m1 force
            apply-status Machine shoot/m1 force
              Available Create/Successful Created machine m1 on the provider
            requeue after 5s
        "#]],
    );
}
