//! Machines from their objects to their VMs and back.

use serde_json::json;

use crate::world::{PASSWORD, World, condition};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_gets_its_vm_keeps_it_up_to_date_and_takes_it_away() {
    let Some(world) = World::start("a machine's life", PASSWORD).await else { return };
    world.create("m-0").await;
    let machine = world.ready("m-0", "10.0.0.9").await;
    assert_eq!(machine["status"]["addresses"][0], json!({"type": "ExternalIP", "address": "10.0.0.9"}));
    assert!(
        machine["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with("vsphere://")),
        "{machine:#}"
    );
    let calls = world.vcsim.calls().expect("calls");
    let started = |method: &str| calls[method].as_u64().unwrap_or_default();
    assert_eq!(
        (started("CloneVM_Task"), started("ReconfigVM_Task"), started("PowerOnVM_Task")),
        (1, 1, 1),
        "{calls}"
    );
    eprintln!(
        "from creation to ready: {} calls: {calls}",
        calls.as_object().expect("a map").values().filter_map(|count| count.as_u64()).sum::<u64>()
    );

    let devices =
        json!([{"networkName": "/DC0/network/DC0_DVPG0", "dhcp4": true, "nameservers": ["10.0.0.53"]}]);
    world.patch("m-0", json!({"spec": {"network": {"devices": devices}}})).await;
    world
        .until("m-0", "has its new network told", |_| {
            world.vcsim.calls().expect("calls")["ReconfigVM_Task"] == 2
        })
        .await;
    world.delete("m-0").await;
    world.until("m-0", "goes", serde_json::Value::is_null).await;
    let calls = world.vcsim.calls().expect("calls");
    assert_eq!((&calls["PowerOffVM_Task"], &calls["Destroy_Task"]), (&json!(1), &json!(1)), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_machines_at_once_get_a_vm_each_and_leave_none() {
    let Some(world) = World::start("twenty machines", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=300&PowerOn=100").expect("a delay");
    let names: Vec<String> = (0..20).map(|number| format!("m-{number}")).collect();
    futures::future::join_all(names.iter().map(|name| world.create(name))).await;
    let machines = futures::future::join_all(
        names
            .iter()
            .enumerate()
            .map(async |(number, name)| world.ready(name, &format!("10.0.1.{number}")).await),
    )
    .await;
    let mut vms: Vec<String> =
        machines.iter().map(|machine| machine["status"]["machineRef"].to_string()).collect();
    vms.sort();
    vms.dedup();
    assert_eq!(vms.len(), 20);
    futures::future::join_all(names.iter().map(|name| world.delete(name))).await;
    futures::future::join_all(names.iter().map(|name| world.until(name, "goes", serde_json::Value::is_null)))
        .await;
    let calls = world.vcsim.calls().expect("calls");
    assert_eq!((&calls["CloneVM_Task"], &calls["Destroy_Task"]), (&json!(20), &json!(20)), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_and_the_right_one_is_taken_up() {
    let Some(world) = World::start("a wrong password", "wrong").await else { return };
    world.create("m-0").await;
    let machine = world
        .until("m-0", "tells of the password", |machine| condition(machine, "VCenterAvailable").0 == "False")
        .await;
    let (_, reason, message) = condition(&machine, "VCenterAvailable");
    assert_eq!(reason, "VCenterUnreachable");
    assert!(message.contains("the user name or the password is wrong"), "{message}");
    assert!(!message.contains("wrong\""), "{message}");
    world.password.set(PASSWORD);
    world.ready("m-0", "10.0.0.9").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_dropped_during_a_clone_costs_nothing() {
    let Some(world) = World::start("a dropped session", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=1500").expect("a delay");
    world.create("m-0").await;
    world.until("m-0", "is cloned", |machine| machine["status"]["taskRef"].is_string()).await;
    world.vcsim.control("drop-sessions").expect("no sessions");
    world.ready("m-0", "10.0.0.9").await;
    assert_eq!(world.vcsim.calls().expect("calls")["CloneVM_Task"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vcenter_that_is_killed_midway_and_comes_back_empty_is_taken_up_again() {
    let Some(mut world) = World::start("a killed vCenter", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=5000").expect("a delay");
    world.create("m-0").await;
    world.until("m-0", "is cloned", |machine| machine["status"]["taskRef"].is_string()).await;
    world.vcsim.kill();
    let machine = world
        .until("m-0", "tells that vCenter is away", |machine| {
            condition(machine, "VCenterAvailable").0 == "False"
        })
        .await;
    assert!(machine["status"]["taskRef"].is_string(), "a lookup that fails decides nothing: {machine:#}");
    world.vcsim.restart().expect("it comes back");
    world.ready("m-0", "10.0.0.9").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_killed_during_a_clone_makes_no_second_vm() {
    let Some(mut world) = World::start("a killed host", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=1500").expect("a delay");
    world.create("m-0").await;
    world
        .until("m-0", "is about to be cloned", |_| world.vcsim.calls().expect("calls")["CloneVM_Task"] == 1)
        .await;
    world.restart_host().await;
    world.ready("m-0", "10.0.0.9").await;
    world.delete("m-0").await;
    world.until("m-0", "goes", serde_json::Value::is_null).await;
    let calls = world.vcsim.calls().expect("calls");
    assert_eq!(calls["Destroy_Task"], 1, "one VM was there to be destroyed: {calls}");
}
