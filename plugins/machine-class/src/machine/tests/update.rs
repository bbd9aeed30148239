//! Updates in place, a step a pass.

use super::*;

/// A machine that has its VM, in this phase since five minutes.
fn machine(phase: &str) -> String {
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, metadata: {{namespace: shoot, name: m1, uid: U1, creationTimestamp: '2025-12-31T20:00:00Z', finalizers: [{}], labels: {{node: m1}}}}, spec: {{class: {{kind: MachineClass, name: a}}, providerID: 'sim:///vm-1'}}, status: {{currentStatus: {{phase: {phase}, lastUpdateTime: '2025-12-31T23:55:00Z'}}, conditions: [{{type: Ready, status: 'True'}}]}}}}",
        names::FINALIZER
    )
}

/// Its Node, with these labels of an update (`candidate-for-update` and so on) and at this stage.
fn given_node(labels: &str, stage: &str, spec: &str) -> String {
    let labels: Vec<String> = labels
        .split_whitespace()
        .map(|label| {
            let (key, value) = label.split_once('=').unwrap_or((label, "true"));
            format!("node.machine.sapcloud.io/{key}: '{value}'")
        })
        .collect();
    let condition = if stage.is_empty() {
        String::new()
    } else {
        format!(
            ", {{type: InPlaceUpdate, status: 'True', reason: {stage}, lastTransitionTime: '2025-12-31T23:50:00Z'}}"
        )
    };
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: m1, uid: N1, finalizers: [{}], labels: {{{}}}, annotations: {{node.machine.sapcloud.io/update-failed-reason: no such image}}}}, spec: {{{spec}}}, status: {{conditions: [{{type: Ready, status: 'True'}}{condition}]}}}}",
        names::NODE_FINALIZER,
        labels.join(", "),
    )
}

/// The stage that is written, how the Node is set, who leaves, and phase and last operation.
fn step(check: Check) -> String {
    let mut said = Vec::new();
    let mut again = String::new();
    for line in check.run().to_string().lines() {
        if line.starts_with("delete Pod") {
            said.push(line.to_owned());
        } else if let Some(wait) = line.strip_prefix("requeue after ") {
            again = format!("again after {wait}");
        }
        let Ok(body) = serde_json::from_str::<serde_json::Value>(line.trim()) else { continue };
        if body.pointer("/spec/unschedulable").is_some() {
            said.push("cordon".to_owned());
        }
        let of_node = body.pointer("/status/currentStatus").is_none();
        let conditions =
            body.pointer("/status/conditions").filter(|_| of_node).and_then(serde_json::Value::as_array);
        for condition in conditions.into_iter().flatten().filter(|it| it["type"] == "InPlaceUpdate") {
            let word = |key: &str| condition[key].as_str().unwrap_or("-").to_owned();
            said.push(format!(
                "Node {} since {}: {}",
                word("reason"),
                word("lastTransitionTime"),
                word("message")
            ));
        }
        if let Some(phase) = body.pointer("/status/currentStatus/phase") {
            let operation = &body["status"]["lastOperation"];
            let word = |key: &str| operation[key].as_str().unwrap_or("-").to_owned();
            let words = format!("{}/{} {}", word("type"), word("state"), word("description"));
            said.push(format!("Machine {} {words}", phase.as_str().unwrap_or("-")));
        }
    }
    said.push(again);
    said.join("\n") + "\n"
}

fn check_step(phase: &str, labels: &str, stage: &str, spec: &str, more: &str, expected: Expect) {
    let check =
        with_class(&new(), "").given(&machine(phase)).given(&given_node(labels, stage, spec)).given(more);
    expected.assert_eq(&step(check));
}

const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: a, uid: P1}, spec: {nodeName: m1}}";
const BOTH: &str = "candidate-for-update selected-for-update";
const CORDONED: &str = "unschedulable: true";

#[test]
fn a_node_is_a_candidate_before_it_is_selected() {
    check_step(
        "Running",
        "candidate-for-update",
        "",
        "",
        "",
        expect![[r#"
        Node CandidateForUpdate since 2026-01-01T00:00:00Z: The Node is to be updated in place
        Machine Running -/- -
        again after 5s
    "#]],
    );
    check_step(
        "Running",
        BOTH,
        "",
        "",
        "",
        expect![[r#"
        Node CandidateForUpdate since 2026-01-01T00:00:00Z: The Node is to be updated in place
        Machine Running -/- -
        again after 5s
    "#]],
    );
    check_step(
        "Running",
        BOTH,
        "CandidateForUpdate",
        "",
        "",
        expect![[r#"
        Node SelectedForUpdate since 2026-01-01T00:00:00Z: The Node is emptied for an update in place
        Machine Running -/- -
        again after 5s
    "#]],
    );
}

#[test]
fn a_selected_node_is_cordoned_then_emptied_and_then_its_machine_is_being_updated() {
    check_step(
        "Running",
        BOTH,
        "SelectedForUpdate",
        "",
        POD,
        expect![[r#"
        cordon
        Node SelectedForUpdate since 2025-12-31T23:50:00Z: -
        Machine Running -/- -
        again after 5s
    "#]],
    );
    check_step(
        "Running",
        BOTH,
        "SelectedForUpdate",
        CORDONED,
        POD,
        expect![[r#"
        Node SelectedForUpdate since 2025-12-31T23:50:00Z: -
        Machine Running DrainNode/Processing Machine m1 is emptied for an update in place
        delete Pod apps/a uid P1
        again after 5s
    "#]],
    );
    check_step(
        "Running",
        BOTH,
        "SelectedForUpdate",
        CORDONED,
        "",
        expect![[r#"
        Node DrainSuccessful since 2026-01-01T00:00:00Z: The Node was emptied for an update in place
        Machine InPlaceUpdating InPlaceUpdate/Processing Machine m1 is being updated in place
        again after 5s
    "#]],
    );
    check_step(
        "InPlaceUpdating",
        BOTH,
        "DrainSuccessful",
        CORDONED,
        "",
        expect![[r#"
        Node ReadyForUpdate since 2026-01-01T00:00:00Z: The update in place may begin
        Machine InPlaceUpdating -/- -
        again after 5s
    "#]],
    );
    check_step(
        "InPlaceUpdating",
        BOTH,
        "ReadyForUpdate",
        CORDONED,
        "",
        expect![[r#"
        Node ReadyForUpdate since 2025-12-31T23:50:00Z: -
        Machine InPlaceUpdating -/- -
        again after 900s
    "#]],
    );
}

#[test]
fn whoever_takes_the_label_away_calls_the_update_off() {
    check_step(
        "Running",
        "selected-for-update",
        "SelectedForUpdate",
        CORDONED,
        POD,
        expect![[r#"
        Node SelectedForUpdate since 2025-12-31T23:50:00Z: -
        Machine Running -/- -
        again after 600s
    "#]],
    );
}

#[test]
fn a_budget_holds_an_update_up_for_the_drain_timeout() {
    let budget = "
- {apiVersion: v1, kind: Pod, metadata: {namespace: apps, name: a, uid: P1}, spec: {nodeName: m1}}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: apps, name: b}, spec: {selector: {}}, status: {disruptionsAllowed: 0}}";
    check_step(
        "Running",
        BOTH,
        "SelectedForUpdate",
        CORDONED,
        budget,
        expect![[r#"
        Node SelectedForUpdate since 2025-12-31T23:50:00Z: -
        Machine Running DrainNode/Processing Machine m1 is emptied for an update in place: apps/a still there
        again after 5s
    "#]],
    );
    let late = with_class(&new(), "")
        .given(&machine("Running"))
        .given(&given_node(BOTH, "SelectedForUpdate", CORDONED))
        .given(budget)
        .at("2026-01-01T01:50:00Z");
    expect![[r#"
        Node SelectedForUpdate since 2025-12-31T23:50:00Z: -
        Machine Running DrainNode/Processing Machine m1 is emptied for an update in place
        delete Pod apps/a uid P1
        again after 5s
    "#]]
    .assert_eq(&step(late));
}

#[test]
fn what_came_of_an_update_is_told_by_the_agent_on_the_node() {
    let done = "candidate-for-update selected-for-update update-result=successful";
    check_step(
        "InPlaceUpdating",
        done,
        "ReadyForUpdate",
        CORDONED,
        "",
        expect![[r#"
        Node UpdateSuccessful since 2026-01-01T00:00:00Z: The Node was updated in place
        Machine InPlaceUpdateSuccessful InPlaceUpdate/Successful Machine m1 was updated in place
        again after 5s
    "#]],
    );
    check_step(
        "InPlaceUpdateSuccessful",
        done,
        "UpdateSuccessful",
        CORDONED,
        "",
        expect![[r#"
        Node UpdateSuccessful since 2025-12-31T23:50:00Z: -
        Machine Running HealthCheck/Successful Machine m1 successfully re-joined the cluster
        again after 600s
    "#]],
    );
    let failed = "candidate-for-update selected-for-update update-result=failed";
    check_step(
        "InPlaceUpdating",
        failed,
        "ReadyForUpdate",
        CORDONED,
        "",
        expect![[r#"
        Node UpdateFailed since 2026-01-01T00:00:00Z: The update in place failed: no such image
        Machine InPlaceUpdateFailed InPlaceUpdate/Failed Machine m1 was not updated in place: no such image
        again after 5s
    "#]],
    );
    check_step(
        "InPlaceUpdateFailed",
        done,
        "UpdateFailed",
        CORDONED,
        "",
        expect![[r#"
        Node UpdateSuccessful since 2026-01-01T00:00:00Z: The Node was updated in place
        Machine InPlaceUpdateSuccessful InPlaceUpdate/Successful Machine m1 was updated in place
        again after 5s
    "#]],
    );
}

#[test]
fn an_update_that_takes_too_long_has_failed_and_so_has_the_machine_in_the_end() {
    let slow = |phase: &str, now: &str| {
        let check = with_class(&new(), "").given(&machine(phase)).given(&given_node(
            BOTH,
            "ReadyForUpdate",
            CORDONED,
        ));
        step(check.at(now))
    };
    expect![[r#"
        Node ReadyForUpdate since 2025-12-31T23:50:00Z: -
        Machine InPlaceUpdateFailed InPlaceUpdate/Failed Machine m1 was not updated in place within 20m
        again after 600s
    "#]]
    .assert_eq(&slow("InPlaceUpdating", "2026-01-01T00:15:00Z"));
    expect![[r#"
        Node ReadyForUpdate since 2025-12-31T23:50:00Z: -
        Machine Failed HealthCheck/Failed Machine m1 was not put right for 10m after its update in place failed
        again after 600s
    "#]].assert_eq(&slow("InPlaceUpdateFailed", "2026-01-01T00:05:00Z"));
}

#[test]
fn a_machine_that_has_failed_or_has_not_joined_is_not_updated() {
    for phase in ["Failed", "Pending"] {
        let selected = given_node(BOTH, "SelectedForUpdate", "")
            .replace("{type: Ready, status: 'True'}", "{type: Ready, status: 'False'}");
        let run = step(with_class(&new(), "").given(&machine(phase)).given(&selected).given(POD));
        assert!(!run.contains("delete Pod") && !run.contains("cordon"), "{phase}: {run}");
    }
}
