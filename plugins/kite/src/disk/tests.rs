use expect_test::{Expect, expect};

use super::*;

fn check(status: &str, expected: Expect) {
    let status: DataVolumeStatus = serde_saphyr::from_str(status).unwrap();
    let volume = DataVolume { status, ..DataVolume::default() };
    expected.assert_eq(&text(&Disk::of(Some(&volume), false)));
}

fn text(disk: &Disk) -> String {
    let Disk { state, ready, reason, message, phase } = disk;
    format!("{state:?} {ready:?}/{reason} phase={} {message}", phase.as_deref().unwrap_or("none"))
}

#[test]
fn each_phase_has_its_state() {
    let phases = [
        "",
        "Pending",
        "PVCBound",
        "ImportScheduled",
        "ImportInProgress",
        "CloneScheduled",
        "CloneInProgress",
        "SnapshotForSmartCloneInProgress",
        "CloneFromSnapshotSourceInProgress",
        "SmartClonePVCInProgress",
        "CSICloneInProgress",
        "ExpansionInProgress",
        "NamespaceTransferInProgress",
        "UploadScheduled",
        "UploadReady",
        "WaitForFirstConsumer",
        "PendingPopulation",
        "Succeeded",
        "Failed",
        "Unknown",
        "Paused",
        "PrepClaimInProgress",
        "RebindInProgress",
        "NewInCdi",
    ];
    let mut table = String::new();
    for phase in phases {
        let status = DataVolumeStatus { phase: Some(phase.to_owned()), ..DataVolumeStatus::default() };
        let Disk { state, ready, reason, .. } = Disk::of_status(&status);
        table += &format!("{phase:?}: {state:?} {ready:?}/{reason}\n");
    }
    expect![[r#"
        "": Waiting False/DataVolumePending
        "Pending": Waiting False/DataVolumePending
        "PVCBound": InProgress False/DataVolumeProgress
        "ImportScheduled": InProgress False/DataVolumeProgress
        "ImportInProgress": InProgress False/DataVolumeProgress
        "CloneScheduled": InProgress False/DataVolumeProgress
        "CloneInProgress": InProgress False/DataVolumeProgress
        "SnapshotForSmartCloneInProgress": InProgress False/DataVolumeProgress
        "CloneFromSnapshotSourceInProgress": InProgress False/DataVolumeProgress
        "SmartClonePVCInProgress": InProgress False/DataVolumeProgress
        "CSICloneInProgress": InProgress False/DataVolumeProgress
        "ExpansionInProgress": InProgress False/DataVolumeProgress
        "NamespaceTransferInProgress": InProgress False/DataVolumeProgress
        "UploadScheduled": InProgress False/DataVolumeProgress
        "UploadReady": InProgress False/DataVolumeProgress
        "WaitForFirstConsumer": WaitingConsumer False/WaitingForFirstConsumer
        "PendingPopulation": WaitingConsumer False/WaitingForFirstConsumer
        "Succeeded": Ready True/DataVolumeReady
        "Failed": Failed False/DataVolumeFailed
        "Unknown": Waiting Unknown/DataVolumePending
        "Paused": Waiting False/DataVolumePending
        "PrepClaimInProgress": InProgress False/DataVolumeProgress
        "RebindInProgress": InProgress False/DataVolumeProgress
        "NewInCdi": Waiting False/DataVolumePending
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_new_volume_is_pending() {
    check("{}", expect![[r#"Waiting False/DataVolumePending phase=Pending DataVolume phase is Pending"#]]);
}

#[test]
fn a_crashing_copy_is_retried_at_first() {
    let status = |restarts: u32| {
        format!(
            "{{phase: ImportInProgress, restartCount: {restarts}, conditions: [{{type: Bound, status: 'True', message: PVC vm-a-disk Bound}}, {{type: Running, status: 'False', reason: Error, message: unable to connect}}]}}"
        )
    };
    check(
        &status(1),
        expect![[r#"InProgress False/DataVolumeRetrying phase=ImportInProgress unable to connect"#]],
    );
    check(&status(3), expect![[r#"Failed False/DataVolumeError phase=ImportInProgress unable to connect"#]]);
}

#[test]
fn a_finished_volume_stays_ready_though_its_pod_once_failed() {
    check(
        "{phase: Succeeded, restartCount: 1, conditions: [{type: Running, status: 'False', reason: Error, message: x}]}",
        expect![[r#"Ready True/DataVolumeReady phase=Succeeded x"#]],
    );
}

#[test]
fn a_full_quota_and_a_missing_source_are_told() {
    check(
        "{phase: Pending, conditions: [{type: Bound, status: 'False', reason: ErrExceededQuota, message: exceeded quota}]}",
        expect![[r#"Waiting False/QuotaExceeded phase=Pending exceeded quota"#]],
    );
    check(
        "{phase: Pending, conditions: [{type: Bound, status: Unknown, reason: CloneWithoutSource, message: no source}]}",
        expect![[r#"Waiting False/GoldenImageMissing phase=Pending no source"#]],
    );
}

#[test]
fn the_message_is_the_first_that_says_something() {
    check(
        "{phase: CloneInProgress, conditions: [{type: Bound, status: 'True', message: bound}, {type: Ready, status: 'False', message: ''}, {type: Running, status: 'True', message: running}]}",
        expect![[r#"InProgress False/DataVolumeProgress phase=CloneInProgress running"#]],
    );
    check(
        "{phase: CloneInProgress, conditions: [{type: Ready, status: 'False', message: not ready}]}",
        expect![[r#"InProgress False/DataVolumeProgress phase=CloneInProgress not ready"#]],
    );
}

#[test]
fn a_message_becomes_one_line_of_1024_bytes() {
    let message = "line\n".repeat(1000);
    let status = DataVolumeStatus {
        conditions: vec![Condition { type_: "Ready".into(), message, ..Condition::default() }],
        ..DataVolumeStatus::default()
    };
    let disk = Disk::of_status(&status);
    assert_eq!(disk.message.len(), 1024);
    assert!(!disk.message.contains('\n'));
}

#[test]
fn a_collected_volume_leaves_a_disk_and_a_lost_one_does_not() {
    expect![[r#"Ready True/DataVolumeReady phase=Succeeded the disk is filled"#]]
        .assert_eq(&text(&Disk::of(None, true)));
    expect![[r#"Missing False/DataVolumeMissing phase=none there is no DataVolume"#]]
        .assert_eq(&text(&Disk::of(None, false)));
}

#[test]
fn progress_is_a_percentage_or_not_available() {
    for good in ["N/A", "0%", "13.45%", "99.9999%", "100%", "100.0%", "100.0000%"] {
        assert_eq!(progress(good), Some(good));
    }
    let long = "1".repeat(1000);
    for bad in
        ["", "%", "abc", "13.45", "9999%", "101%", "100.1%", "1.23456%", "-1%", "1.%", ".1%", "1 %", &long]
    {
        assert_eq!(progress(bad), None, "{bad}");
    }
}

#[test]
fn only_whole_percents_count() {
    assert!(is_same_percent("13.45%", "13.90%"));
    assert!(!is_same_percent("13.90%", "14.02%"));
    assert!(!is_same_percent("N/A", "0.00%"));
    assert!(is_same_percent("100.0%", "100%"));
}
