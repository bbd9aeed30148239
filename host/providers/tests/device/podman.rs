//! Images, with the real podman: skipped aloud where there is none.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::machine::{Machine, Started};

const PACKAGE: &str = "localhost/evenkeel-test/package:1";

/// Whether podman is there and works; else says so.
fn podman() -> bool {
    let works = Command::new("podman").arg("info").output().is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("left out: there is no podman that works on this machine");
    }
    works
}

/// An image that holds the files of an application.
fn package() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("compose.yaml"), "services: {web: {image: localhost/x:1}}")
        .expect("a file");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("a link");
    let archive = folder.path().with_extension("tar");
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().expect("it runs");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let (from, to) = (folder.path().display().to_string(), archive.display().to_string());
    run("tar", &["-C", &from, "-cf", &to, "."]);
    run("podman", &["import", &to, PACKAGE]);
    std::fs::remove_file(archive).expect("a file");
}

fn image(reference: &str, policy: &str) -> Value {
    json!({"ref": reference, "kind": "image", "pullPolicy": policy})
}

async fn pulled(device: &Started, image: &Value) -> Value {
    device.act("prefetch", "k", json!({"refs": [image]})).await;
    for _ in 0..600 {
        let seen = device.ask("images", json!({"refs": [image]})).await["images"][0].clone();
        if !["queued", "pulling"].contains(&seen["state"].as_str().unwrap_or_default()) {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the pull does not end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_found_pulled_or_told_why_not() {
    if !podman() {
        return;
    }
    package();
    let machine = Machine::new();
    let device = machine.start();
    let there = pulled(&device, &image(PACKAGE, "IfNotPresent")).await;
    assert_eq!(there["state"], "present", "{there}");
    assert!(there["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{there}");
    let absent = device.ask("images", json!({"refs": [image("localhost/nobody-has-this:1", "Never")]})).await;
    assert_eq!(absent["images"][0]["state"], "absent");
    let never = pulled(&device, &image("localhost/nobody-has-this:1", "Never")).await;
    assert_eq!(never["error"]["code"], "not-found", "{never}");
    // Nobody listens there.
    let refused = pulled(&device, &image("127.0.0.1:1/x/y:1", "IfNotPresent")).await;
    assert_eq!(
        (refused["error"]["code"].as_str(), refused["tries"].as_u64()),
        (Some("transient"), Some(1)),
        "{refused}"
    );
    assert!(refused["nextTry"].is_string());
    let wrong = pulled(&device, &image("quay.io/UPPER/x y", "IfNotPresent")).await;
    assert_eq!(wrong["error"]["code"], "invalid", "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_an_application_come_out_of_its_image_and_links_do_not() {
    if !podman() {
        return;
    }
    package();
    let machine = Machine::new();
    machine.put("/usr/bin/podman-compose", "#!/bin/sh\n", 0o755);
    let device = machine.start();
    device.desire(json!({"applications": [{"name": "web", "appType": "compose", "image": PACKAGE}]})).await;
    let content = device.ask("application", json!({"spec": "desired", "name": "web"})).await;
    assert_eq!(
        (&content["error"], &content["images"][0]["ref"]),
        (&Value::Null, &json!("localhost/x:1")),
        "{content}"
    );
    let install = json!({"spec": "desired", "name": "web", "id": "web-1", "digest": "d"});
    assert_eq!(device.long("install-app", "u/2/1/i", install).await["state"], "succeeded");
    let base = "/etc/compose/manifests/web-1";
    assert!(machine.text(&format!("{base}/compose.yaml")).contains("localhost/x:1"));
    assert!(std::fs::symlink_metadata(machine.path(&format!("{base}/link"))).is_err());
}
