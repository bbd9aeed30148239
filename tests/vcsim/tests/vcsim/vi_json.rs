//! The same over the vCenter's second protocol: every call, result, fault and session of a machine's life.
//!
//! vcsim speaks SOAP alone, so a front of our own (`simulator/vijson.go`) stands before it: it reads and writes JSON with
//! the codec of vCenter's own Go library, and refuses what vCenter 8.0.3 refuses.

use std::time::Duration;

use evenkeel_providers::vsphere::credentials::Login;
use evenkeel_providers::vsphere::limits::CallLimits;
use serde_json::json;

use crate::life;
use crate::support::{Protocol, World, login, uuid};

fn start(test: &str) -> Option<World> {
    World::speaking(Protocol::ViJson, test, login(), CallLimits::default())
}

#[tokio::test]
async fn a_vm_is_cloned_configured_run_and_destroyed() {
    let Some(world) = start("a VM's life over VI JSON") else { return };
    life::live(&world).await;
}

#[tokio::test]
async fn the_end_of_a_task_and_a_new_address_are_told_of_within_a_second() {
    let Some(world) = start("telling of changes over VI JSON") else { return };
    life::tell(&world).await;
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    let wrong = Login { user: "user".into(), password: "wrong".into() };
    let limits = CallLimits::default();
    let Some(world) = World::speaking(Protocol::ViJson, "a wrong password over VI JSON", wrong, limits)
    else {
        return;
    };
    let asked = json!({"datacenter": "/DC0", "kind": "instance", "uuid": uuid("m-0")});
    assert_eq!(world.ask("vm-by-uuid", asked).await["reason"], "InvalidLogin");
}

#[tokio::test]
async fn a_session_that_expires_during_a_clone_is_renewed() {
    let Some(world) = start("an expired session over VI JSON") else { return };
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
async fn a_task_that_fails_tells_its_fault_and_its_words() {
    let Some(world) = start("faults over VI JSON") else { return };
    let place = json!({"datacenter": "/DC0", "template": world.vcsim.template(), "datastore": "LocalDS_0",
        "resourcePool": "/DC0/host/DC0_C0/Resources"});
    let template = world.ask("placement", place).await;
    let vm = template["placement"]["template"]["vm"].as_str().expect("a template").to_owned();
    let fault = "fault=NoCompatibleHost&message=No+host+is+compatible.";
    world.vcsim.control(&format!("fail-task?vm={vm}&method=CloneVM_Task&{fault}")).expect("a failure");
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    assert_eq!(task["fault"], json!({"type": "NoCompatibleHost", "message": "No host is compatible."}));
}
