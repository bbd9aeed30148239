//! What holds for any input: files however damaged, specs however odd, words however quoted.

use evenkeel_sdk::check::{Check, Checked};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hooks::Command;
use crate::{DeviceUpdate, failure, files, image, names, words};

/// A Device of a version, with files and an OS of which some specs have some.
fn device(version: u8, os: bool, files: &[(String, u8)]) -> Value {
    let inline: Vec<_> = files
        .iter()
        .map(|(path, content)| json!({"path": path, "sha256": format!("sha256:{content}"), "size": 1}))
        .collect();
    let mut spec = json!({"config": [{"name": "c", "inline": inline}]});
    if os {
        spec["os"] = json!({"image": format!("quay.io/x/os:{version}")});
    }
    let annotations =
        json!({names::RENDERED_VERSION: version.to_string(), names::RENDERED_HASH: format!("h{version}")});
    json!({"metadata": {"annotations": annotations}, "spec": spec})
}

fn any_device() -> impl Strategy<Value = Value> {
    let file = ("/etc/[a-c]", 0_u8..3);
    (0_u8..4, any::<bool>(), prop::collection::vec(file, 0..3))
        .prop_map(|(version, os, files)| device(version, os, &files))
}

/// A spec file: missing, damaged, of another shape, or whole.
fn any_file(whole: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let valid = |content: Value| json!({"present": true, "valid": true, "content": content});
    prop_oneof![
        1 => Just(json!({"present": false, "valid": false, "content": null})),
        1 => Just(json!({"present": true, "valid": false, "error": "no JSON", "content": null})),
        1 => Just(valid(json!({"spec": 7, "schema": "x", "metadata": []}))),
        6 => whole.prop_map(valid),
    ]
}

fn any_state() -> impl Strategy<Value = Value> {
    let phase = prop::sample::select(vec![
        "Preparing",
        "Ready",
        "Applying",
        "Staging",
        "Rebooting",
        "Activating",
        "Verifying",
        "RollingBack",
    ]);
    let stage = prop::sample::select(vec!["leaving", "booting", "restoring", "stuck"]);
    let kind = prop::sample::select(vec!["files", "os"]);
    let update = (phase, stage, kind, 0_u8..4, 0_u32..7, any::<bool>(), any::<bool>());
    let update = update.prop_map(|(phase, stage, kind, target, attempt, rebooted, failed)| {
        json!({
            "target": {"version": target.to_string(), "specHash": format!("h{target}")},
            "from": {"version": "1", "osImage": "quay.io/x/os:1"},
            "phase": phase, "attempt": attempt, "since": "2026-01-01T00:00:00Z", "rebooted": rebooted,
            "reboot": {"bootId": "b1", "image": "quay.io/x/os:2", "at": "2026-01-01T00:00:00Z", "tries": 1},
            "rollback": {"kind": kind, "stage": stage, "markFailed": failed, "tries": 1},
        })
    });
    (prop::option::of(update), prop::option::of(0_u8..4), "b[1-2]").prop_map(|(update, failed, boot)| {
        let failed: Vec<_> = failed.iter().map(|version| json!({"version": version.to_string()})).collect();
        json!({
            "schema": 1, "update": update, "failed": failed, "enrolment": "cert",
            "boot": {"lastBootId": boot, "afterRebooting": boot},
            "managed": [{"path": "/etc/a", "backup": null}],
        })
    })
}

/// A pass on these files: nothing of what it asks for is there, and all that it has done is done.
fn pass(files: &Value, offered: &Value, booted: &str) -> Checked {
    let answer = |check: Check, question: &str, answer: Value| {
        check.answers(words::NAME, question, "{}", &answer.to_string())
    };
    let healthy = json!({"status": "Healthy"});
    let mut check = Check::of::<DeviceUpdate>(names::CONTROLLER)
        .key("device")
        .given("{apiVersion: flightctl.io/v1beta1, kind: Device, metadata: {name: device, uid: u}}");
    let unseen = |path: &str| {
        (
            path.to_owned(),
            json!({"seq": 0, "exists": false, "kind": "file", "mode": 0, "uid": 0, "gid": 0, "size": 0, "sha256": ""}),
        )
    };
    let disk: serde_json::Map<_, _> = ["/etc/a", "/etc/b", "/etc/c"].map(unseen).into_iter().collect();
    for (question, answered) in [
        ("spec-files", files.clone()),
        (
            "rendered",
            json!({"version": offered.pointer("/metadata/annotations/device-controller~1renderedVersion"), "specHash": "h9", "device": offered, "reachable": true, "gone": false}),
        ),
        ("boot", json!({"bootId": "b1"})),
        (
            "os",
            json!({"mode": "image", "backend": "bootc", "booted": {"image": booted, "digest": ""}, "staged": null, "rollback": null, "check": {"enabled": true, "state": "pending"}}),
        ),
        (
            "identity",
            json!({"deviceName": "d", "enrolled": true, "enrolment": "cert", "architecture": "", "operatingSystem": "", "agentVersion": ""}),
        ),
        ("resources", json!({"cpu": healthy, "memory": healthy, "disk": healthy})),
        ("applications", json!({"applications": []})),
        ("files", json!({"files": disk, "users": {"root": 0}, "groups": {"root": 0}})),
        ("hooks", json!({"files": []})),
        ("images", json!({"images": [{"ref": "x", "state": "pulling"}]})),
        ("operation", json!({"state": "unknown"})),
    ] {
        check = answer(check, question, answered);
    }
    for operation in words::OPERATIONS {
        check = check.performs_by_default(words::NAME, operation, "{result: done}");
    }
    check.run()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_pass_ends_with_a_status_whatever_is_in_the_files(
        desired in any_file(any_device()),
        current in any_file(any_device()),
        rollback in any_file(any_device()),
        state in any_file(any_state()),
        offered in any_device(),
        booted in 1_u8..4,
    ) {
        let files = json!({"desired": desired, "current": current, "rollback": rollback, "state": state});
        let checked = pass(&files, &offered, &format!("quay.io/x/os:{booted}"));
        prop_assert!(checked.end.is_ok(), "{checked}");
        prop_assert!(checked.brief().contains("apply-status Device device"), "{checked}");
    }

    #[test]
    fn words_in_single_quotes_are_those_words(words in prop::collection::vec("[^'\\x00]{0,12}", 1..6)) {
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("program {}", quoted.join(" "));
        let command = Command::parse(&line, &Default::default()).expect("quoted words need no shell");
        prop_assert_eq!(&command.argv[1..], &words[..]);
    }

    #[test]
    fn no_text_is_too_odd_for_a_command_line_or_a_reference(text in ".{0,60}") {
        let _ = Command::parse(&text, &Default::default());
        if image::fault(&text).is_none() {
            prop_assert_eq!(image::normal(&image::normal(&text)), image::normal(&text));
        }
    }

    #[test]
    fn what_changes_on_the_way_there_changes_on_the_way_back(one in any_device(), other in any_device()) {
        let read = |value: &Value| crate::device::Device::read(value).expect("a device");
        let (one, other) = (read(&one), read(&other));
        prop_assert_eq!(files::reversed(&files::changes(&one, &other)), files::changes(&other, &one));
        prop_assert!(files::changes(&one, &one).is_empty());
    }

    #[test]
    fn no_wait_is_longer_than_five_and_a_half_minutes(uid in ".{0,20}", attempt in any::<u32>()) {
        let wait = failure::back_off(&uid, attempt).as_secs();
        prop_assert!((30..=330).contains(&wait), "{}", wait);
    }
}
