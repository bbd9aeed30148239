//! Who is told of a change, and when.

use std::time::Duration;

use evenkeel_core::contract::ExternalQuery;
use evenkeel_providers::Provider;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::{World, clone_arguments, owner};

/// The questions that are told of within a time, by name.
async fn told(world: &World, within: Duration) -> Vec<String> {
    let changes = world.twin.provider().changes().expect("it tells of changes");
    let mut told: Vec<ExternalQuery> = Vec::new();
    if timeout(within, changes.some()).await.is_ok() {
        changes.hand_out(|queries| told.extend(queries.iter().cloned()));
    }
    told.iter().map(|query| query.question.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_is_told_of_at_once_and_one_that_goes_on_is_not() {
    let world = World::new(json!(null));
    let task = world.perform("clone", clone_arguments()).await["task"].clone();
    let started = Instant::now();
    assert_eq!(world.ask("task", json!({"task": task})).await["watched"], true);
    assert_eq!(told(&world, Duration::from_secs(60)).await, ["task"], "it runs");
    assert_eq!(started.elapsed(), Duration::from_secs(6));
    assert_eq!(world.ask("task", json!({"task": task})).await["task"]["state"], "running");
    assert_eq!(told(&world, Duration::from_secs(60)).await, ["task"], "it has ended");
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_new_address_and_a_vm_that_vanishes_are_told_of() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    world.ask("vm", json!({"vm": vm})).await;
    world.control(json!({"guest-ip": {"vm": vm, "ips": ["10.0.0.9"]}}));
    assert_eq!(told(&world, Duration::from_secs(1)).await, ["vm"]);
    assert_eq!(
        told(&world, Duration::from_secs(100)).await,
        [""; 0],
        "once is enough until it is asked again"
    );
    world.ask("vm", json!({"vm": vm})).await;
    world.control(json!({"remove-vm": {"vm": vm}}));
    assert_eq!(told(&world, Duration::from_secs(1)).await, ["vm"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asks_any_more_is_not_told_of() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    world.ask("vm", json!({"vm": vm})).await;
    world.twin.provider().forget(&world.query("vm", json!({"vm": vm})));
    world.control(json!({"guest-ip": {"vm": vm, "ips": ["10.0.0.9"]}}));
    assert_eq!(told(&world, Duration::from_secs(5)).await, [""; 0]);
    assert_eq!(world.twin.provider().watched()["vc.example.test"], 0);
}

#[tokio::test(start_paused = true)]
async fn where_waiting_fails_changes_are_found_by_reading_and_answers_say_so() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    assert_eq!(world.ask("vm", json!({"vm": vm})).await["watched"], true);
    world.control(json!({"watches": {"works": false}}));
    assert_eq!(told(&world, Duration::from_secs(1)).await, ["vm"], "whoever counted on it has to look");
    assert_eq!(world.ask("vm", json!({"vm": vm})).await["watched"], false);
    world.control(json!({"guest-ip": {"vm": vm, "ips": ["10.0.0.9"]}}));
    assert_eq!(told(&world, Duration::from_secs(31)).await, ["vm"], "found by reading");
    world.control(json!({"watches": {"works": true}}));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(world.ask("vm", json!({"vm": vm})).await["watched"], true);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_session_loses_no_change() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    world.ask("vm", json!({"vm": vm})).await;
    world.control(json!({"drop-session": {}}));
    world.control(json!({"guest-ip": {"vm": vm, "ips": ["10.0.0.9"]}}));
    assert_eq!(told(&world, Duration::from_secs(5)).await, ["vm"]);
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_read_in_a_few_calls() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    world.perform("power-on", json!({"vm": vm, "owner": owner()})).await;
    let before = world.twin.provider().counts()["vc.example.test"]["RetrievePropertiesEx"].calls;
    let asks = (0..200).map(|number| {
        world.ask("vm", json!({"vm": if number == 0 { vm.clone() } else { format!("vm-{}", number + 10) }}))
    });
    futures::future::join_all(asks).await;
    let calls = world.twin.provider().counts()["vc.example.test"]["RetrievePropertiesEx"].calls - before;
    assert!(calls <= 8, "{calls} calls for 200 questions");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_watched_is_not_read_again_before_something_was_done_to_it() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    let reads = || world.twin.provider().counts()["vc.example.test"]["RetrievePropertiesEx"].calls;
    world.ask("vm", json!({"vm": vm})).await;
    let before = reads();
    world.control(json!({"guest-ip": {"vm": vm, "ips": ["10.0.0.9"]}}));
    assert_eq!(told(&world, Duration::from_secs(5)).await, ["vm"]);
    let seen = world.ask("vm", json!({"vm": vm})).await;
    assert_eq!((&seen["vm"]["nics"][0]["ips"], reads() - before), (&json!(["10.0.0.9"]), 0));
    let standing =
        world.twin.provider().standing(&world.query("vm", json!({"vm": vm}))).expect("it is known");
    let standing: serde_json::Value = serde_json::from_str(&standing).expect("JSON");
    assert_eq!(standing, seen, "what is known is what would be answered");
    // Its power may be told after the end of the task that changed it: it is looked at.
    assert_eq!(world.finish("power-on", json!({"vm": vm, "owner": owner()})).await["state"], "success");
    assert!(world.twin.provider().standing(&world.query("vm", json!({"vm": vm}))).is_none());
    let before = reads();
    assert_eq!(world.ask("vm", json!({"vm": vm})).await["vm"]["power"], "on");
    assert_eq!(reads() - before, 1);
}
