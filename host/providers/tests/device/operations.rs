//! Hooks and other long operations: once a key, over a crash, whatever the programs do.

use serde_json::{Value, json};

use super::machine::{Machine, Started, digest};

const FILE: &str = "/etc/flightctl/hooks.d/beforeupdating/10-test.yaml";

fn hook(text: &str, script: &str, timeout_ms: u64) -> Value {
    json!({"hook": "before-updating", "file": "10-test.yaml", "sha256": digest(text), "index": 0,
           "argv": ["sh", "-c", script], "timeoutMs": timeout_ms})
}

async fn run(device: &Started, text: &str, key: &str, script: &str, timeout_ms: u64) -> Value {
    device.long("run-hook", key, hook(text, script, timeout_ms)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_runs_once_a_key_also_after_a_restart() {
    let machine = Machine::new();
    let text = "- run: x\n  envVars: {X: 'a b', TOKEN: hunter2}\n";
    machine.put(FILE, text, 0o644);
    let device = machine.start();
    let script = "echo \"$X $FLIGHTCTL_AGENT_PID\" >> out; echo $TOKEN; echo $TOKEN >&2";
    assert_eq!(run(&device, text, "u/6/1/h", script, 5000).await["state"], "succeeded");
    assert_eq!(machine.text("out"), format!("a b {}\n", std::process::id()));
    assert_eq!(run(&device, text, "u/6/1/h", script, 5000).await["state"], "succeeded");
    drop(device);
    let device = machine.start();
    let again = run(&device, text, "u/6/1/h", script, 5000).await;
    assert_eq!((again["state"].as_str(), again["exitCode"].as_i64()), (Some("succeeded"), Some(0)));
    assert_eq!(machine.text("out").lines().count(), 1);
    let log = machine.text("/var/lib/flightctl/operations.log");
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_that_fail_never_end_print_without_end_or_fork_come_to_an_end() {
    let machine = Machine::new();
    let text = "- run: x\n";
    machine.put(FILE, text, 0o644);
    let device = machine.start();
    for (name, script, timeout_ms, code, words) in [
        ("exit", "exit 7", 5000, 7, "exit 7"),
        ("signal", "kill -SEGV $$", 5000, 139, "exit 139"),
        ("long", "trap '' TERM; sleep 1000", 300, 124, "no end within 300 ms"),
        ("output", "yes | head -c 5000000; exit 3", 20_000, 3, "exit 3"),
        ("fork", "i=0; while [ $i -lt 50 ]; do sleep 1000 & i=$((i+1)); done; exit 5", 5000, 5, "exit 5"),
    ] {
        let seen = run(&device, text, &format!("u/6/1/{name}"), script, timeout_ms).await;
        assert_eq!(
            (seen["state"].as_str(), seen["exitCode"].as_i64()),
            (Some("failed"), Some(code)),
            "{name}: {seen}"
        );
        assert_eq!(seen["error"]["message"], words, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_is_not_what_was_decided_on_does_not_run() {
    let machine = Machine::new();
    machine.put(FILE, "- run: x\n", 0o644);
    let device = machine.start();
    let seen = run(&device, "- run: y\n", "u/6/1/a", "true", 1000).await;
    assert_eq!(seen["error"]["code"], "conflict");
    let mut missing = hook("- run: x\n", "", 1000);
    missing["argv"] = json!(["/no/such/program"]);
    let seen = device.long("run-hook", "u/6/1/b", missing).await;
    assert_eq!(
        seen["error"],
        json!({"code": "not-found", "message": "there is no program \"/no/such/program\""})
    );
    let mut elsewhere = hook("- run: x\n", "true", 1000);
    elsewhere["file"] = json!("../../../etc/passwd");
    assert_eq!(device.long("run-hook", "u/6/1/c", elsewhere).await["error"]["code"], "invalid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_run_one_after_the_other_in_the_order_in_which_they_were_given() {
    let machine = Machine::new();
    let text = "- run: x\n";
    machine.put(FILE, text, 0o644);
    let device = machine.start();
    for (number, script) in ["sleep 0.3; echo 0 >> out", "echo 1 >> out", "echo 2 >> out"].iter().enumerate()
    {
        device.act("run-hook", &format!("u/6/1/{number}"), hook(text, script, 5000)).await;
    }
    device.ended("u/6/1/2").await;
    assert_eq!(machine.text("out"), "0\n1\n2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_is_told_to_who_asked() {
    let machine = Machine::new();
    machine.put("/etc/a", "1", 0o644);
    let device = machine.start();
    let ask = || {
        device.ask("files", json!({"paths": ["/etc/a", "/etc/new/b"], "users": ["root", "x"], "groups": []}))
    };
    let before = ask().await;
    assert_eq!(before["files"]["/etc/a"]["sha256"], digest("1"));
    assert_eq!(
        (&before["files"]["/etc/new/b"]["exists"], &before["users"]),
        (&json!(false), &json!({"root": 0, "x": null}))
    );
    machine.put("/etc/a", "2", 0o644);
    device.told().await;
    assert_eq!(ask().await["files"]["/etc/a"]["sha256"], digest("2"));
    machine.put("/etc/new/b", "b", 0o600);
    device.told().await;
    let now = ask().await;
    assert_eq!(now["files"]["/etc/new/b"]["mode"], 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reboot_of_a_trial_is_refused_and_never_reaches_this_machine() {
    let machine = Machine::new();
    let device = machine.start();
    let seen = device.long("reboot", "u/6/1/reboot", json!({"reason": "test"})).await;
    assert_eq!(seen["error"]["message"], "no command is set that may reboot this machine");
    assert_eq!(device.ask("os", json!({})).await["backend"], "none");
}
