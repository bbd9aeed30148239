//! Many machines: how many calls each costs, and how soon the end of a task is told.

use std::time::Duration;

use evenkeel_providers::vsphere::limits::CallLimits;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{World, caller, login, owner};

const MACHINES: u32 = 200;

/// Calls that a machine's clone and power-on may cost, all that is asked on the way included.
const CALLS_MAX: u64 = 12;

/// How often a machine would have to look by itself.
const POLL: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_machines_at_once_get_a_vm_each() {
    let Some(world) = World::start("twenty machines") else { return };
    let names: Vec<String> = (0..20).map(|number| format!("m-{number}")).collect();
    let lives = names.iter().map(async |name| {
        let caller = caller(name);
        let task = world.finish_as(&caller, "clone", world.clone_arguments(name)).await;
        assert_eq!(task["state"], "success", "{name}: {task}");
        let on = json!({"vm": task["vm"], "owner": owner(name)});
        assert_eq!(world.finish_as(&caller, "power-on", on).await["state"], "success");
        task["vm"].clone()
    });
    let mut vms: Vec<String> =
        futures::future::join_all(lives).await.iter().map(ToString::to_string).collect();
    vms.sort();
    vms.dedup();
    assert_eq!(vms.len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_machines_cost_a_bounded_number_of_calls_each() {
    let limits = CallLimits { deadline: Duration::from_secs(60), ..CallLimits::default() };
    let Some(world) = World::start_with("two hundred machines", login(), limits) else { return };
    let began = Instant::now();
    let names: Vec<String> = (0..MACHINES).map(|number| format!("m-{number}")).collect();
    let lives = names.iter().map(async |name| {
        let caller = caller(name);
        let task = world.finish_as(&caller, "clone", world.clone_arguments(name)).await;
        assert_eq!(task["state"], "success", "{name}: {task}");
        let on = json!({"vm": task["vm"], "owner": owner(name)});
        assert_eq!(world.finish_as(&caller, "power-on", on).await["state"], "success");
        let seen = world.ask_as(&caller, "vm", json!({"vm": task["vm"]})).await;
        assert_eq!(seen["vm"]["power"], "on", "{seen}");
    });
    futures::future::join_all(lives).await;
    let calls = world.vcsim.calls().expect("calls");
    let all: u64 = calls.as_object().expect("a map").values().filter_map(|count| count.as_u64()).sum();
    let each = all / u64::from(MACHINES);
    eprintln!("{MACHINES} machines in {:?}, {each} calls each: {calls}", began.elapsed());
    assert!(each <= CALLS_MAX, "{each} calls each: {calls}");
    assert_eq!(calls["Login"], 1, "one session is enough");
}

#[tokio::test]
async fn the_end_of_a_task_is_told_long_before_a_poll_would_find_it() {
    let Some(world) = World::start("telling of ends") else { return };
    world.vcsim.control("task-delay?PowerOn=200&PowerOff=200").expect("a delay");
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    let on = json!({"vm": task["vm"], "owner": owner("m-0")});
    let mut late = Vec::new();
    for _ in 0..10 {
        for operation in ["power-on", "power-off"] {
            let began = Instant::now();
            assert_eq!(world.finish(operation, on.clone()).await["state"], "success");
            late.push(began.elapsed().saturating_sub(Duration::from_millis(200)));
        }
    }
    late.sort();
    eprintln!(
        "from the call's start, less the task's own 200 ms: p50 {:?}, longest {:?}",
        late[10], late[19]
    );
    // On a machine that has nothing else to do it is a tenth of a second.
    assert!(late[19] < POLL / 2, "{late:?}");
}
