//! Applications, with stand-ins for podman, podman-compose and systemctl: what they are told, and what is made of their answers.

use serde_json::{Value, json};

use super::machine::Machine;

/// Containers are files below `run`, one a project.
const COMPOSE: &str = r#"#!/bin/sh
here="$(dirname "$0")/../.."; mkdir -p "$here/run"
echo "compose $*" >> "$here/log"
project="$2"; file="$4"; shift 4
case "$1" in
  up) [ -e "$here/refuse" ] && { echo "port is taken" >&2; exit 1; }
    grep -q image "$file" && touch "$here/run/$project" ;;
  down) rm -f "$here/run/$project" ;;
esac
"#;
const PODMAN: &str = r#"#!/bin/sh
here="$(dirname "$0")/../.."
case "$*" in
  ps*io.podman.compose.project=*) project="${*##*=}"
    if [ -e "$here/run/$project" ]; then echo '[{"Id":"1","State":"running","ExitCode":0,"Restarts":0}]'; else echo '[]'; fi ;;
  ps*) echo '[]' ;;
  events*) [ -p "$here/news" ] && touch "$here/tells" && exec cat "$here/news" ;;
  *) exit 125 ;;
esac
"#;
const SYSTEMCTL: &str = r#"#!/bin/sh
here="$(dirname "$0")/../.."
echo "systemctl $*" >> "$here/log"
case "$1" in
  start) touch "$here/unit" ;;
  stop) rm -f "$here/unit" ;;
  show) if [ -e "$here/unit" ]; then echo ActiveState=active; else echo ActiveState=inactive; fi; echo Result=success; echo NRestarts=2 ;;
  is-enabled) echo disabled ;;
esac
"#;

fn machine() -> Machine {
    let machine = Machine::new();
    machine.put("/usr/bin/podman-compose", COMPOSE, 0o755);
    machine.put("/usr/bin/podman", PODMAN, 0o755);
    machine.put("/usr/bin/systemctl", SYSTEMCTL, 0o755);
    machine
}

fn compose() -> Value {
    json!({"name": "web", "appType": "compose", "envVars": {"TOKEN": "hunter2"},
           "inline": [{"path": "compose.yaml", "content": "services: {web: {image: x/y:1}}"}]})
}

async fn app(device: &super::machine::Started) -> Value {
    device.ask("applications", json!({})).await["applications"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_is_installed_started_stopped_and_removed() {
    let machine = machine();
    let device = machine.start();
    device.desire(json!({"applications": [compose()]})).await;
    let content = device.ask("application", json!({"spec": "desired", "name": "web"})).await;
    assert_eq!((&content["images"][0]["ref"], &content["missing"]), (&json!("x/y:1"), &json!([])));
    let install = json!({"spec": "desired", "name": "web", "id": "web-000001", "digest": "d"});
    assert_eq!(device.long("install-app", "u/2/1/i", install).await["state"], "succeeded");
    let base = "/etc/compose/manifests/web-000001";
    assert_eq!(machine.text(&format!("{base}/.env")), "TOKEN='hunter2'\n");
    assert_eq!(
        (app(&device).await["observed"].as_str(), machine.text("log")),
        (Some("Preparing"), String::new())
    );
    let id = json!({"id": "web-000001"});
    assert_eq!(device.long("start-app", "u/2/1/s", id.clone()).await["state"], "succeeded");
    let seen = app(&device).await;
    assert_eq!(
        (seen["observed"].as_str(), seen["ready"].as_u64(), seen["installedDigest"].as_str()),
        (Some("Running"), Some(1), Some("d"))
    );
    // It dies, which nobody announces.
    std::fs::remove_file(machine.path("run/web-000001")).expect("it runs");
    let dead = app(&device).await;
    assert_eq!((dead["observed"].as_str(), dead["deaths"].as_u64()), (Some("Error"), Some(1)));
    assert!(dead["seq"].as_u64() > seen["seq"].as_u64());
    drop(device);
    let device = machine.start();
    assert_eq!(app(&device).await["deaths"], 1, "a restart of the host forgets no death");
    assert_eq!(device.long("start-app", "u/2/1/s2", id.clone()).await["state"], "succeeded");
    assert_eq!(device.long("stop-app", "u/2/1/t", id.clone()).await["state"], "succeeded");
    assert_eq!(app(&device).await["observed"], "Stopped");
    assert_eq!(device.long("remove-app", "u/2/1/r", id).await["state"], "succeeded");
    assert!(!machine.path(base).exists());
    assert_eq!(device.ask("applications", json!({})).await, json!({"applications": []}));
    let log = machine.text("log");
    let verbs: Vec<&str> = log.lines().filter_map(|line| line.split(".yaml ").nth(1)).collect();
    assert_eq!(verbs, ["up -d", "up -d", "down"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_is_a_death_and_says_why() {
    let machine = machine();
    machine.put("/refuse", "", 0o644);
    let device = machine.start();
    device.desire(json!({"applications": [compose()]})).await;
    let install = json!({"spec": "desired", "name": "web", "id": "web-000001", "digest": "d"});
    device.long("install-app", "u/2/1/i", install).await;
    let seen = device.long("start-app", "u/2/1/s", json!({"id": "web-000001"})).await;
    assert_eq!(
        seen["error"],
        json!({"code": "transient", "message": "cannot start web-000001: exit 1: port is taken"})
    );
    assert_eq!(app(&device).await["deaths"], 1);
    let none = device.long("start-app", "u/2/1/n", json!({"id": "nobody"})).await;
    assert_eq!(none["error"]["code"], "not-found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_runs_as_a_unit_of_systemd() {
    let machine = machine();
    let device = machine.start();
    device.desire(json!({"applications": [{"name": "web", "appType": "container", "image": "x/y:1"}]})).await;
    let install = json!({"spec": "desired", "name": "web", "id": "web-000001", "digest": "d"});
    assert_eq!(device.long("install-app", "u/2/1/i", install).await["state"], "succeeded");
    assert!(
        machine.text("/etc/containers/systemd/web-000001/web-000001.container").contains("Image=x/y:1\n")
    );
    device.act("daemon-reload", "k", json!({})).await;
    device.long("start-app", "u/2/1/s", json!({"id": "web-000001"})).await;
    let seen = app(&device).await;
    assert_eq!((seen["observed"].as_str(), seen["restarts"].as_u64()), (Some("Running"), Some(2)));
    assert!(machine.text("log").starts_with("systemctl daemon-reload\nsystemctl start web-000001.service\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_leaves_its_folder_is_never_written() {
    let machine = machine();
    let device = machine.start();
    let mut bad = compose();
    bad["inline"][0]["path"] = json!("../../../etc/passwd");
    device.desire(json!({"applications": [bad]})).await;
    let install = |id: &str| json!({"spec": "desired", "name": "web", "id": id, "digest": "d"});
    assert_eq!(
        device.long("install-app", "u/2/1/a", install("web-000001")).await["error"]["code"],
        "invalid"
    );
    assert_eq!(device.long("install-app", "u/2/1/b", install("../../x")).await["error"]["code"], "invalid");
    assert!(!machine.path("/etc/passwd").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_podman_tells_of_containers_is_looked_at_at_once() {
    let machine = machine();
    // What podman tells goes through here.
    let made = std::process::Command::new("mkfifo").arg(machine.path("news")).status().expect("mkfifo runs");
    assert!(made.success());
    let device = machine.start();
    device.desire(json!({"applications": [compose()]})).await;
    let install = json!({"spec": "desired", "name": "web", "id": "web-000001", "digest": "d"});
    assert_eq!(device.long("install-app", "u/2/1/i", install).await["state"], "succeeded");
    let id = json!({"id": "web-000001"});
    assert_eq!(device.long("start-app", "u/2/1/s", id).await["state"], "succeeded");
    for _ in 0..300 {
        if machine.path("tells").exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let news = machine.path("news");
    let mut news = tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(news))
        .await
        .expect("it ends")
        .expect("podman listens");
    assert_eq!(app(&device).await["observed"], "Running");
    device.drain();
    std::fs::remove_file(machine.path("run/web-000001")).expect("it runs");
    // Without it nobody would look for a minute.
    std::io::Write::write_all(&mut news, b"{\"Status\":\"died\"}\n").expect("it is told");
    device.told().await;
    assert_eq!(app(&device).await["observed"], "Error");
}
