use expect_test::{Expect, expect};

use super::*;
use crate::kinds::{DataVolume, DataVolumeStatus};
use crate::verdict::Reason;

fn disk(phase: &str) -> Disk {
    let status = DataVolumeStatus { phase: Some(phase.to_owned()), ..DataVolumeStatus::default() };
    Disk::of(Some(&DataVolume { status, ..DataVolume::default() }), false)
}

/// Text of a summary: `phase power ready/reason message`.
fn text(summary: &Summary) -> String {
    let Summary { phase, power, ready, reason, message, again_after } = summary;
    let power = power.map_or("unchanged", Power::as_str);
    let again = again_after.map(|wait| format!(" (again after {wait:?})")).unwrap_or_default();
    format!("{phase} {power} {ready:?}/{reason} {message}{again}")
}

/// A small world in YAML: `deleting`, `wanted`, `vm` (none if absent), `instance`, `disk` (a phase).
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct World {
    deleting: bool,
    wanted: String,
    vm: Option<VirtualMachine>,
    instance: bool,
    disk: String,
}

impl Default for World {
    fn default() -> Self {
        Self { deleting: false, wanted: "On".into(), vm: None, instance: false, disk: "Succeeded".into() }
    }
}

fn sum(world: &str, verdict: Option<&Verdict>) -> String {
    let World { deleting, wanted, vm, instance, disk: phase } = serde_saphyr::from_str(world).unwrap();
    let wanted = if wanted == "On" { Power::On } else { Power::Off };
    let (disk, now) = (disk(&phase), "2026-01-01T12:00:00Z".parse().unwrap());
    let facts =
        Facts { deleting, wanted, verdict, vm: vm.as_ref(), has_instance: instance, disk: &disk, now };
    text(&summarize(facts))
}

fn check(world: &str, expected: Expect) {
    expected.assert_eq(&sum(world, None));
}

#[test]
fn the_whole_table() {
    let states = [
        "Running",
        "Paused",
        "Migrating",
        "Starting",
        "Stopping",
        "Stopped",
        "Provisioning",
        "WaitingForVolumeBinding",
        "WaitingForReceiver",
        "Terminating",
        "CrashLoopBackOff",
        "ErrorUnschedulable",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrorPvcNotFound",
        "DataVolumeError",
        "Unknown",
        "",
        "Weird\n",
    ];
    let mut lines = String::new();
    for state in states {
        for wanted in ["On", "Off"] {
            // The disk counts only for a machine that is stopped.
            let disks = if state == "Stopped" {
                &["Succeeded", "PendingPopulation", "CloneInProgress"][..]
            } else {
                &["Paused"]
            };
            for disk in disks {
                let state = serde_json::Value::from(state);
                let world = format!(
                    "{{wanted: '{wanted}', disk: {disk}, vm: {{status: {{printableStatus: {state}}}}}}}"
                );
                lines += &format!("{state} {wanted} {disk}: {}\n", sum(&world, None));
            }
        }
    }
    expect_test::expect_file!["table.txt"].assert_eq(&lines);
}

#[test]
fn an_unrecognized_state_is_quoted_up_to_64_characters() {
    let state = "x".repeat(100);
    let quoted = sum(&format!("vm: {{status: {{printableStatus: {state}}}}}"), None);
    assert!(quoted.ends_with(&format!("\"{}\"", "x".repeat(64))), "{quoted}");
}

#[test]
fn without_a_machine_it_is_set_up() {
    check("{}", expect!["Provisioning Off False/Provisioning the machine is being set up"]);
}

#[test]
fn deleting_wins() {
    check(
        "{deleting: true, vm: {status: {printableStatus: Running}}}",
        expect!["Deleting On False/Deleting waiting for the virtual machine to go"],
    );
    check(
        "{deleting: true, instance: true}",
        expect!["Deleting Off False/Deleting waiting for the virtual machine to go"],
    );
    check("{deleting: true}", expect!["Deleting Off False/Deleting removing the disk and the Secrets"]);
}

#[test]
fn a_machine_that_does_not_go_has_its_finalizers_named_after_ten_minutes() {
    let world = |since: &str| {
        format!(
            "{{deleting: true, vm: {{metadata: {{deletionTimestamp: '{since}', finalizers: [a/b, c/d]}}, status: {{printableStatus: Terminating}}}}}}"
        )
    };
    check(
        &world("2026-01-01T11:50:01Z"),
        expect!["Deleting Off False/Deleting waiting for the virtual machine to go (again after 1s)"],
    );
    check(
        &world("2026-01-01T11:50:00Z"),
        expect![
            "Deleting Off False/Deleting waiting for the virtual machine to go; its finalizers are: a/b, c/d"
        ],
    );
}

#[test]
fn a_final_verdict_is_a_failure_whatever_runs() {
    let refused = Verdict::refused(Reason::InvalidSpec, "spec.cpu: must be 1 to 128");
    let world = "vm: {status: {printableStatus: Running}}";
    expect!["Failed On False/InvalidSpec spec.cpu: must be 1 to 128"].assert_eq(&sum(world, Some(&refused)));
    expect!["Failed Off False/InvalidSpec spec.cpu: must be 1 to 128"].assert_eq(&sum("{}", Some(&refused)));
}

#[test]
fn a_verdict_that_time_lifts_only_speaks_while_there_is_no_machine() {
    let pending = Verdict::pending(Reason::GoldenImageMissing, "waiting for the image ubuntu-22.04");
    expect!["Provisioning Off False/Provisioning waiting for the image ubuntu-22.04"]
        .assert_eq(&sum("{}", Some(&pending)));
    expect!["Running On True/Running the machine is running"]
        .assert_eq(&sum("vm: {status: {printableStatus: Running}}", Some(&pending)));
}

#[test]
fn a_failed_disk_fails_a_machine_that_does_not_run() {
    check(
        "{disk: Failed, vm: {status: {printableStatus: Stopped}}}",
        expect!["Failed Off False/DataVolumeError DataVolume phase is Failed"],
    );
    check(
        "{disk: Failed, vm: {status: {printableStatus: Starting}}}",
        expect!["Failed On False/DataVolumeError DataVolume phase is Failed"],
    );
    check("{disk: Failed}", expect!["Failed Off False/DataVolumeError DataVolume phase is Failed"]);
    check(
        "{disk: Failed, vm: {status: {printableStatus: Running}}}",
        expect!["Running On True/Running the machine is running"],
    );
}

#[test]
fn a_needed_restart_is_mentioned() {
    check(
        "vm: {status: {printableStatus: Running, conditions: [{type: RestartRequired, status: 'True'}]}}",
        expect!["Running On True/Running the machine is running; a restart is needed for the latest changes"],
    );
}
