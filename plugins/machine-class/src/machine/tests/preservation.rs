//! Machines that are kept though they failed, with their Nodes.

use super::*;

/// A machine that has its VM, in this phase since five minutes, with more metadata and status.
fn machine(phase: &str, annotations: &str, more_status: &str) -> String {
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: m1, uid: U1, creationTimestamp: '2025-12-31T20:00:00Z', finalizers: [{}], labels: {{node: m1, name: pool}}, annotations: {{{annotations}}}}}, spec: {{class: {{kind: MachineClass, name: a}}, providerID: 'sim:///vm-1', machinePreserveTimeout: 2h}}, status: {{currentStatus: {{phase: {phase}, lastUpdateTime: '2025-12-31T23:55:00Z'{more_status}}}, conditions: [{{type: Ready, status: 'True'}}]}}}}",
        names::FINALIZER
    )
}

const PRESERVE: &str = "node.machine.sapcloud.io/preserve";

/// Its Node, well or not, with more metadata, conditions and taints.
fn given_node(ready: &str, metadata: &str, conditions: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: m1, uid: N1, finalizers: [{}]{metadata}}}, spec: {{{spec}}}, status: {{conditions: [{{type: Ready, status: '{ready}'}}{conditions}]}}}}",
        names::NODE_FINALIZER
    )
}

fn looked_after(machine: &str, node: &str) -> Check {
    with_class(&new(), "").given(machine).given(node)
}

const TAINT: &str = "taints: [{key: node.machine.sapcloud.io/preserved, effect: NoSchedule}]";
const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: a, uid: P1}, spec: {nodeName: m1}}";

/// Node and status as they are written, without what is always so.
fn written(check: Check) -> String {
    let text = check.run().to_string();
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = String::new();
    let mut at = lines.iter().peekable();
    while let Some(line) = at.next() {
        let body = at.next_if(|next| next.starts_with("  ")).copied().unwrap_or_default();
        let always = line.starts_with("apply Machine") || line.starts_with("add-finalizer");
        if !always {
            shown += &format!("{line}\n");
            shown += &body.replace(r#","lastOperation":{}"#, "");
            shown += if body.is_empty() { "" } else { "\n" };
        }
    }
    shown
}

#[test]
fn a_running_machine_that_is_kept_says_until_when_and_its_node_stays() {
    let kept =
        looked_after(&machine("Running", &format!("{PRESERVE}: now"), ""), &given_node("True", "", "", ""));
    expect![[r#"
        apply Node m1 force
          {"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true","node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node is kept until 2026-01-01T02:00:00Z","reason":"PreservedByUser","status":"True","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2025-12-31T23:55:00Z","phase":"Running","preserveExpiryTime":"2026-01-01T02:00:00Z"}}}
        requeue after 600s
    "#]].assert_eq(&written(kept));
}

#[test]
fn a_machine_that_fails_is_kept_from_that_very_pass_on() {
    let fails = looked_after(
        &machine("Unknown", &format!("{PRESERVE}: when-failed"), ""),
        &given_node("False", "", "", ""),
    );
    expect![[r#"
        patch Node m1
          {"spec":{"taints":[{"effect":"NoSchedule","key":"node.machine.sapcloud.io/preserved"}]}}
        apply Node m1 force
          {"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true","node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:30:00Z","message":"The machine of this Node failed and is kept until 2026-01-01T02:30:00Z; its Pods leave","reason":"PreservedByUser","status":"False","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"False","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:30:00Z","phase":"Failed","preserveExpiryTime":"2026-01-01T02:30:00Z"},"lastOperation":{"description":"Machine m1 was not healthy for 10m","lastUpdateTime":"2026-01-01T00:30:00Z","state":"Failed","type":"HealthCheck"}}}
        requeue after 5s
    "#]].assert_eq(&written(fails.at("2026-01-01T00:30:00Z")));
}

#[test]
fn the_pods_of_a_kept_machine_leave_once_no_more_come() {
    let status = ", preserveExpiryTime: '2026-01-01T01:55:00Z'";
    let failed = machine("Failed", &format!("{PRESERVE}: when-failed"), status);
    let busy = looked_after(&failed, &given_node("False", "", "", TAINT)).given(POD);
    expect![[r#"
        apply Node m1 force
          {"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true","node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node failed and is kept until 2026-01-01T01:55:00Z; its Pods leave","reason":"PreservedByUser","status":"False","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"False","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2025-12-31T23:55:00Z","phase":"Failed","preserveExpiryTime":"2026-01-01T01:55:00Z"}}}
        delete Pod apps/a uid P1
        requeue after 5s
    "#]].assert_eq(&written(busy));
    let empty = looked_after(&failed, &given_node("False", "", "", TAINT));
    expect![[r#"
        apply Node m1 force
          {"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true","node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node failed and is kept until 2026-01-01T01:55:00Z; its Pods have left","reason":"PreservedByUser","status":"True","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"False","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2025-12-31T23:55:00Z","phase":"Failed","preserveExpiryTime":"2026-01-01T01:55:00Z"}}}
        requeue after 5s
    "#]].assert_eq(&written(empty));
}

#[test]
fn pods_that_somebody_brings_to_a_kept_node_stay() {
    let status = ", preserveExpiryTime: '2026-01-01T01:55:00Z'";
    let failed = machine("Failed", &format!("{PRESERVE}: when-failed"), status);
    let condition = ", {type: Preserved, status: 'True', reason: PreservedByUser, message: x}";
    let debugged = looked_after(&failed, &given_node("False", "", condition, TAINT)).given(POD);
    assert!(!written(debugged).contains("delete Pod"));
}

#[test]
fn a_kept_machine_of_which_the_node_recovers_runs_again() {
    let status = ", preserveExpiryTime: '2026-01-01T01:55:00Z'";
    let condition = ", {type: Preserved, status: 'True', reason: PreservedByUser, message: x, lastTransitionTime: '2025-12-31T23:56:00Z'}";
    let recovers = |wish: &str| {
        looked_after(
            &machine("Failed", &format!("{PRESERVE}: {wish}"), status),
            &given_node("True", "", condition, TAINT),
        )
    };
    // It stays kept, but Pods may come again.
    expect![[r#"
        patch Node m1
          {"spec":{"taints":[]}}
        apply Node m1 force
          {"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true","node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2025-12-31T23:56:00Z","message":"The machine of this Node is kept until 2026-01-01T01:55:00Z","reason":"PreservedByUser","status":"True","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"},{"lastTransitionTime":"2025-12-31T23:56:00Z","message":"x","reason":"PreservedByUser","status":"True","type":"Preserved"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"Running","preserveExpiryTime":"2026-01-01T01:55:00Z"},"lastOperation":{"description":"Machine m1 successfully re-joined the cluster","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Successful","type":"HealthCheck"}}}
        requeue after 600s
    "#]].assert_eq(&written(recovers("now")));
    // It was to be kept only while it had failed.
    expect![[r#"
        patch Node m1
          {"spec":{"taints":[]}}
        apply Node m1 force
          {"metadata":{"annotations":{"node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node is kept no longer","reason":"PreservationStopped","status":"False","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"},{"lastTransitionTime":"2025-12-31T23:56:00Z","message":"x","reason":"PreservedByUser","status":"True","type":"Preserved"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"Running"},"lastOperation":{"description":"Machine m1 successfully re-joined the cluster","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Successful","type":"HealthCheck"}}}
        requeue after 600s
    "#]].assert_eq(&written(recovers("when-failed")));
}

#[test]
fn once_its_time_has_come_a_machine_is_kept_no_longer() {
    let status = ", preserveExpiryTime: '2026-01-01T00:00:00Z'";
    let condition = ", {type: Preserved, status: 'True', reason: PreservedByUser, message: x}";
    let over = looked_after(
        &machine("Failed", &format!("{PRESERVE}: when-failed"), status),
        &given_node("False", "", condition, TAINT),
    );
    expect![[r#"
        patch Machine shoot/m1
          {"metadata":{"annotations":{"node.machine.sapcloud.io/preserve":null}}}
        patch Node m1
          {"spec":{"taints":[]}}
        apply Node m1 force
          {"metadata":{"annotations":{"node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Node m1 force
          {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"The machine of this Node is kept no longer","reason":"PreservationStopped","status":"False","type":"Preserved"}]}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"False","type":"Ready"},{"message":"x","reason":"PreservedByUser","status":"True","type":"Preserved"}],"currentStatus":{"lastUpdateTime":"2025-12-31T23:55:00Z","phase":"Failed"}}}
        requeue after 600s
    "#]].assert_eq(&written(over));
}

#[test]
fn what_the_node_says_takes_the_machines_word_away() {
    let annotation = format!(", annotations: {{{PRESERVE}: now}}");
    let both = looked_after(
        &machine("Running", &format!("{PRESERVE}: 'false'"), ""),
        &given_node("True", &annotation, "", ""),
    );
    let text = written(both);
    assert!(text.starts_with(&format!(
        "patch Machine shoot/m1\n  {{\"metadata\":{{\"annotations\":{{\"{PRESERVE}\":null}}}}}}\n"
    )));
    assert!(text.contains("preserveExpiryTime"), "{text}");
}

#[test]
fn a_value_that_nobody_knows_is_told() {
    let typo =
        looked_after(&machine("Running", &format!("{PRESERVE}: nwo"), ""), &given_node("True", "", "", ""));
    check(
        typo,
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        event Warning PreserveUnknown about Machine shoot/m1: annotation node.machine.sapcloud.io/preserve is "nwo": it may be now, when-failed, auto-preserved or false, and nothing is changed until it is
        apply-status Machine shoot/m1 force
          Running -/- -
        requeue after 600s
    "#]],
    );
}

#[test]
fn a_machine_that_is_kept_does_not_hold_up_the_others_of_its_deployment() {
    let sibling = |until: &str| {
        format!(
            "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: m0, labels: {{name: pool}}}}, status: {{currentStatus: {{phase: Failed, lastUpdateTime: '2025-12-31T23:50:00Z'{until}}}}}}}"
        )
    };
    let sick = || {
        looked_after(&machine("Unknown", "", ""), &given_node("False", "", "", "")).at("2026-01-01T00:30:00Z")
    };
    let phase = |check: Check| written(check).contains(r#""phase":"Failed""#);
    assert!(!phase(sick().given(&sibling(""))));
    assert!(phase(sick().given(&sibling(", preserveExpiryTime: '2026-01-01T01:55:00Z'"))));
}

#[test]
fn a_machine_that_never_got_its_vm_is_kept_from_that_very_pass_on_too() {
    let asked = Given {
        metadata: ", annotations: {node.machine.sapcloud.io/preserve: when-failed}",
        spec: ", creationTimeout: 10m",
        status: NEW,
    };
    let fails = with_class(&asked, "").answers("machine", "status", "{}", &failed("NotFound")).performs(
        "machine",
        "create",
        &failed("Internal"),
    );
    let text = written(fails);
    assert!(text.contains(r#""phase":"Failed","preserveExpiryTime":"2026-01-05T00:00:00Z""#), "{text}");
}

#[test]
fn a_kept_machine_that_somebody_deletes_goes() {
    let status = ", preserveExpiryTime: '2026-01-01T01:55:00Z'";
    let going = machine("Failed", &format!("{PRESERVE}: now"), status)
        .replace("uid: U1,", "uid: U1, deletionTimestamp: '2025-12-31T23:59:00Z',");
    let goes = looked_after(&going, &given_node("True", "", "", ""))
        .answers("machine", "status", "{}", DONE)
        .performs("machine", "delete", "{result: done}");
    check(
        goes,
        expect![[r#"
        first apply-status Machine shoot/m1 force
          Terminating Delete/Processing Machine deletion process initiated. Getting VM Status
        apply-status Machine shoot/m1 force
          Terminating Delete/Processing Initiate node drain
        patch Node m1
        apply-status Node m1 force
        requeue after 5s
    "#]],
    );
}
