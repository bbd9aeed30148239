//! A vCenter that misbehaves: nothing is lost, nothing is done twice, and every trouble has one stable message.

use std::time::Duration;

use evenkeel_providers::vsphere::credentials::Login;
use evenkeel_providers::vsphere::limits::CallLimits;
use serde_json::{Value, json};

use crate::support::{World, login, owner, uuid};

fn by_uuid(name: &str) -> Value {
    json!({"datacenter": "/DC0", "kind": "instance", "uuid": uuid(name)})
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_tried_again_and_again() {
    let wrong = Login { user: "user".into(), password: "wrong".into() };
    let Some(world) = World::start_with("a wrong password", wrong, CallLimits::default()) else { return };
    for _ in 0..3 {
        let answer = world.ask("vm-by-uuid", by_uuid("m-0")).await;
        let message = "vCenter vc: the user name or the password is wrong";
        assert_eq!(answer, json!({"result": "unknown", "reason": "InvalidLogin", "message": message}));
    }
    assert_eq!(world.vcsim.calls().expect("calls")["Login"], 1);
}

#[tokio::test]
async fn a_session_that_expires_during_a_clone_is_renewed() {
    let Some(world) = World::start("an expired session") else { return };
    world.vcsim.control("task-delay?CloneVm=700").expect("a delay");
    let outcome = world.perform("clone", world.clone_arguments("m-0")).await;
    let task = outcome["task"].as_str().expect("a task").to_owned();
    world.vcsim.control("drop-sessions").expect("no sessions");
    let ended = loop {
        let answer = world.ask("task", json!({"task": task})).await;
        assert_eq!(answer["result"], "hit", "{answer}");
        if answer["task"]["state"] != "running" {
            break answer["task"].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(ended["state"], "success");
    assert!(world.vcsim.calls().expect("calls")["Login"].as_u64() >= Some(2));
}

#[tokio::test]
async fn what_is_no_answer_of_a_vcenter_is_told_in_one_stable_sentence() {
    let limits = CallLimits { deadline: Duration::from_secs(1), ..CallLimits::default() };
    let Some(world) = World::start_with("bad answers", login(), limits) else { return };
    let expected = [
        ("html", "BadAnswer", "it answered HTTP 200 (text/html): a document type"),
        ("unavailable", "BadAnswer", "it answered HTTP 503 (text/plain)"),
        ("garbage", "BadAnswer", "it answered HTTP 200 (text/xml): it ends midway"),
        ("huge", "BadAnswer", "an answer of more than 32 MiB"),
        ("close", "Unreachable", "it closed the connection without an answer"),
        ("hang", "Timeout", "no answer in time"),
    ];
    assert_eq!(world.ask("vm-by-uuid", by_uuid("m-0")).await["result"], "absent");
    for (kind, reason, message) in expected {
        for _ in 0..2 {
            world
                .vcsim
                .control(&format!("trouble?kind={kind}&method=FindAllByUuid&times=1"))
                .expect("trouble");
            let answer = world.ask("vm-by-uuid", by_uuid("m-0")).await;
            let wanted =
                json!({"result": "unknown", "reason": reason, "message": format!("vCenter vc: {message}")});
            assert_eq!(answer, wanted, "{kind}");
        }
    }
    assert_eq!(world.ask("vm-by-uuid", by_uuid("m-0")).await["result"], "absent");
}

#[tokio::test]
async fn a_clone_whose_answer_was_lost_is_not_made_again() {
    let Some(world) = World::start("a lost answer") else { return };
    world.vcsim.control("task-delay?CloneVm=500").expect("a delay");
    world.vcsim.control("trouble?kind=lost&method=CloneVM_Task&times=1").expect("trouble");
    let caller = world.caller.clone();
    let outcome = world.perform_as(&caller, "k", "clone", world.clone_arguments("m-0")).await;
    assert_eq!(outcome["reason"], "Unreachable", "{outcome}");
    let again = world.perform_as(&caller, "k", "clone", world.clone_arguments("m-0")).await;
    match again["result"].as_str() {
        Some("task") => {
            let task = again["task"].as_str().expect("a task").to_owned();
            assert_eq!(world.ended(&caller, &task).await["state"], "success");
        }
        other => assert_eq!(other, Some("done"), "{again}"),
    }
    assert_eq!(world.ask("vm-by-uuid", by_uuid("m-0")).await["result"], "hit", "one, and not two");
    assert_eq!(world.vcsim.calls().expect("calls")["CloneVM_Task"], 1);
}

#[tokio::test]
async fn a_task_that_fails_tells_its_fault_and_a_refusal_its_privilege() {
    let Some(world) = World::start("faults") else { return };
    let template = world
        .ask(
            "placement",
            json!({"datacenter": "/DC0", "template": world.vcsim.template(),
        "datastore": "LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources"}),
        )
        .await;
    let vm = template["placement"]["template"]["vm"].as_str().expect("a template").to_owned();
    let command = format!(
        "fail-task?vm={vm}&method=CloneVM_Task&fault=NoCompatibleHost&message=No+host+is+compatible."
    );
    world.vcsim.control(&command).expect("a failure");
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    assert_eq!(task["fault"], json!({"type": "NoCompatibleHost", "message": "No host is compatible."}));
    world.vcsim.control("fault?method=CloneVM_Task&type=NoPermission&times=1&message=no").expect("a refusal");
    let outcome = world.perform("clone", world.clone_arguments("m-0")).await;
    assert_eq!(
        (&outcome["result"], &outcome["fault"]["type"]),
        (&json!("fault"), &json!("NoPermission")),
        "{outcome}"
    );
    world.vcsim.control("forget-task?id=task-0").expect("nothing to forget");
    assert_eq!(world.ask("task", json!({"task": "task-404"})).await, json!({"result": "absent"}));
}

#[tokio::test]
async fn a_vcenter_that_is_killed_and_comes_back_is_taken_up_again() {
    let limits = CallLimits { deadline: Duration::from_secs(5), ..CallLimits::default() };
    let Some(mut world) = World::start_with("a restart", login(), limits) else { return };
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    let vm = task["vm"].as_str().expect("a VM").to_owned();
    assert_eq!(world.ask("vm", json!({"vm": vm})).await["watched"], true);
    world.vcsim.kill();
    // It is told of at once that nobody waits any more; until then the machine stands as it was told last.
    let answer = loop {
        let answer = world.ask("vm", json!({"vm": vm})).await;
        if answer["result"] != "hit" {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(
        (&answer["result"], &answer["reason"]),
        (&json!("unknown"), &json!("Unreachable")),
        "{answer}"
    );
    world.vcsim.restart().expect("it comes back");
    // It has forgotten everything, the VM too: this is an answer, and the same provider gets it.
    assert_eq!(world.ask("vm-by-uuid", by_uuid("m-0")).await, json!({"result": "absent"}));
    let again = world.perform("clone", world.clone_arguments("m-0")).await;
    assert_eq!(again["result"], "task", "{again}");
    assert_eq!(
        world.perform("power-on", json!({"vm": "vm-404", "owner": owner("m-0")})).await,
        json!({"result": "absent"})
    );
}
