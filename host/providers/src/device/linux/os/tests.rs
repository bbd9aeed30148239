use std::os::unix::fs::PermissionsExt;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn line(os: &Os) -> String {
    let image = |image: &Option<OsImage>| {
        image.as_ref().map_or("-".to_owned(), |one| format!("{}@{}", one.image, one.digest))
    };
    format!(
        "{} {:?} booted={} staged={} rollback={} check={:?}",
        os.backend,
        os.mode,
        image(&Some(os.booted.clone())),
        image(&os.staged),
        image(&os.rollback),
        os.check
    )
}

fn check(os: &Os, expected: Expect) {
    expected.assert_eq(&line(os));
}

#[test]
fn what_bootc_tells_is_understood() {
    let image = |name: &str| json!({"image": {"image": {"image": name, "transport": "registry"}, "imageDigest": "sha256:d"}});
    check(
        &read_bootc(
            &json!({"status": {"booted": image("quay.io/x/os:1"), "staged": null, "rollback": image("quay.io/x/os:0")}}),
        ),
        expect![
            "bootc Image booted=quay.io/x/os:1@sha256:d staged=- rollback=quay.io/x/os:0@sha256:d check=BootCheck { enabled: false, state: None }"
        ],
    );
    check(
        &read_bootc(&json!({"status": {"booted": null}})),
        expect!["bootc Image booted=@ staged=- rollback=- check=BootCheck { enabled: false, state: None }"],
    );
}

#[test]
fn what_rpm_ostree_tells_is_understood() {
    let deployment = |name: &str, booted: bool, staged: bool| {
        json!({"container-image-reference": format!("ostree-unverified-registry:{name}"), "container-image-reference-digest": "sha256:d",
               "booted": booted, "staged": staged})
    };
    check(
        &read_rpm_ostree(
            &json!({"deployments": [deployment("x:2", false, true), deployment("x:1", true, false), deployment("x:0", false, false)]}),
        ),
        expect![
            "rpm-ostree Image booted=x:1@sha256:d staged=x:2@sha256:d rollback=x:0@sha256:d check=BootCheck { enabled: false, state: None }"
        ],
    );
}

/// A stand-in for bootc: it keeps what is booted, staged and before in files, and writes down what it is told.
const BOOTC: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "bootc $*" >> log
entry() { if [ -s "$1" ]; then printf '{"image":{"image":{"image":"%s"},"imageDigest":"sha256:%s"}}' "$(cat "$1")" "$1"; else printf null; fi; }
case "$1" in
  status) [ -e broken ] && { echo "warning: not now"; exit 0; }
    printf '{"status":{"booted":%s,"staged":%s,"rollback":%s}}' "$(entry booted)" "$(entry staged)" "$(entry rollback)" ;;
  switch) for last; do :; done; if [ "$last" = "$(cat booted)" ]; then rm -f staged; else printf %s "$last" > staged; fi ;;
  rollback) cp rollback staged ;;
esac
"#;

struct Machine {
    folder: tempfile::TempDir,
    tools: OsTools,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bootc = folder.path().join("bootc");
        std::fs::write(&bootc, BOOTC).expect("a file");
        std::fs::set_permissions(&bootc, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        std::fs::write(folder.path().join("booted"), "quay.io/x/os:1").expect("a file");
        std::fs::write(folder.path().join("rollback"), "quay.io/x/os:0").expect("a file");
        let mark = folder.path().join("rebooted").display().to_string();
        let tools = OsTools {
            bootc: Some(bootc),
            reboot: vec!["/usr/bin/touch".to_owned(), mark],
            ..OsTools::default()
        };
        Self { folder, tools }
    }

    fn rebooted(&self) -> bool {
        self.folder.path().join("rebooted").exists()
    }
}

#[tokio::test]
async fn an_image_is_staged_by_one_name_and_unstaged_again() {
    let machine = Machine::new();
    machine.tools.stage("quay.io/x/os:2@sha256:abc").await.expect("staged");
    let os = machine.tools.see().await.expect("a status");
    assert_eq!(os.staged.expect("staged").image, "quay.io/x/os@sha256:abc");
    machine.tools.expect_staged("quay.io/x/os:2@sha256:abc").await.expect("it is the one");
    assert_eq!(
        machine.tools.expect_staged("quay.io/x/os:3").await.expect_err("another").kind,
        FailureKind::Conflict
    );
    machine.tools.unstage().await.expect("unstaged");
    assert_eq!(machine.tools.see().await.expect("a status").staged, None);
    assert!(!machine.rebooted());
}

#[tokio::test]
async fn a_way_back_that_is_another_image_is_refused() {
    let machine = Machine::new();
    assert_eq!(
        machine.tools.roll_back("quay.io/x/os:9").await.expect_err("another").kind,
        FailureKind::Conflict
    );
    machine.tools.roll_back("quay.io/x/os:0").await.expect("rolled back");
    machine.tools.reboot().await.expect("asked for");
    assert!(machine.rebooted());
}

#[tokio::test]
async fn a_status_that_is_no_json_is_a_trouble_of_the_moment() {
    let machine = Machine::new();
    std::fs::write(machine.folder.path().join("broken"), "").expect("a file");
    let failure = machine.tools.see().await.expect_err("no status");
    assert_eq!(failure.kind, FailureKind::Transient);
    assert_eq!(&*failure.message, "bootc tells its status in no JSON");
}

#[tokio::test]
async fn a_machine_of_packages_has_no_image_and_reboots_for_nobody() {
    let tools = OsTools::default();
    check(
        &tools.see().await.expect("a status"),
        expect!["none Package booted=@ staged=- rollback=- check=BootCheck { enabled: false, state: None }"],
    );
    assert_eq!(tools.stage("x").await.expect_err("no images").kind, FailureKind::Invalid);
    assert_eq!(tools.reboot().await.expect_err("no command").kind, FailureKind::Denied);
}
