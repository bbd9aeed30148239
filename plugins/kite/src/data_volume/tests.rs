//! Scenarios 115 to 126 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};
use serde_json::Value;

use crate::Kite;

const LABELS: &str = "labels: {kite.anacnu.com/managed-by: kite-controller, kite.anacnu.com/kite-vm-name: vm-a, kite.anacnu.com/kite-vm-namespace: tenant-a}";

fn check(status: &str, given: &str, expected: Expect) {
    let objects = format!(
        "- {{apiVersion: v1, kind: Namespace, metadata: {{name: tenant-a}}}}\n- {{apiVersion: anacnu.com/v1, kind: KiteVirtualMachine, metadata: {{namespace: tenant-a, name: vm-a, uid: U1, generation: 1}}, spec: {{}}, status: {status}}}"
    );
    let pass = Check::of::<Kite>("data-volume").key("tenant-a/vm-a-disk").given(&objects).given(given);
    let mut text = String::new();
    for line in pass.run().to_string().lines() {
        let Some(body) = line.strip_prefix("  ") else {
            text += &format!("{line}\n");
            continue;
        };
        let Ok(body) = serde_json::from_str::<Value>(body) else { continue };
        let status = &body["status"];
        let word = |key: &str| status[key].as_str().unwrap_or("none");
        let ready =
            status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DiskReady").unwrap();
        text += &format!(
            "  {}: {} {} {:?} {}\n",
            word("phase"),
            word("dataVolumePhase"),
            word("dataVolumeProgress"),
            word("dataVolumeMessage"),
            ready["reason"].as_str().unwrap()
        );
    }
    expected.assert_eq(&text);
}

fn volume(status: &str) -> String {
    format!(
        "{{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, metadata: {{namespace: tenant-a, name: vm-a-disk, {LABELS}}}, status: {status}}}"
    )
}

#[test]
fn a_copy_under_way_is_mirrored() {
    check(
        "{}",
        &volume("{phase: CloneInProgress, progress: 13.45%}"),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: CloneInProgress 13.45% "DataVolume phase is CloneInProgress" DataVolumeProgress
    "#]],
    );
    check(
        "{}",
        &volume("{}"),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: Pending none "DataVolume phase is Pending" DataVolumePending
    "#]],
    );
}

#[test]
fn progress_within_a_percent_stays_as_it_was() {
    let shown = |reason: &str| {
        format!(
            "{{dataVolumePhase: CloneInProgress, dataVolumeProgress: 13.45%, conditions: [{{type: DiskReady, status: 'False', reason: {reason}}}]}}"
        )
    };
    check(
        &shown("DataVolumeProgress"),
        &volume("{phase: CloneInProgress, progress: 13.90%}"),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: CloneInProgress 13.45% "DataVolume phase is CloneInProgress" DataVolumeProgress
    "#]],
    );
    check(
        &shown("DataVolumeProgress"),
        &volume("{phase: CloneInProgress, progress: 14.02%}"),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: CloneInProgress 14.02% "DataVolume phase is CloneInProgress" DataVolumeProgress
    "#]],
    );
    check(
        &shown("DataVolumeRetrying"),
        &volume("{phase: CloneInProgress, progress: 13.90%}"),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: CloneInProgress 13.90% "DataVolume phase is CloneInProgress" DataVolumeProgress
    "#]],
    );
}

#[test]
fn a_disk_that_is_gone_keeps_what_was_known_and_is_told_to_r3() {
    check(
        "{dataVolumePhase: Succeeded, dataVolumeProgress: 100.0%, dataVolumeMessage: m}",
        "[]",
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: Succeeded 100.0% "m" DataVolumeMissing
        enqueue virtual-machine KiteVirtualMachine tenant-a/vm-a
    "#]],
    );
}

#[test]
fn a_claim_without_its_volume_is_a_disk() {
    let claim = format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{namespace: tenant-a, name: vm-a-disk, {LABELS}}}}}"
    );
    check(
        "{dataVolumePhase: CloneInProgress}",
        &claim,
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning: Succeeded 100.0% "the disk is filled" DataVolumeReady
        enqueue virtual-machine KiteVirtualMachine tenant-a/vm-a
    "#]],
    );
}

#[test]
fn labels_of_another_place_are_not_believed() {
    check(
        "{}",
        &volume("{phase: Failed}").replace("kite-vm-namespace: tenant-a", "kite-vm-namespace: tenant-b"),
        expect![[r#"
            nothing to do
        "#]],
    );
}
