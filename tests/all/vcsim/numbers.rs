//! How soon, how often and how many: numbers that `tests/bench/README.md` quotes, with the limits that they must keep.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::ground::Ground;
use crate::world::{Family, PASSWORD, VSPHERE_MACHINES, World, together};

/// How often a machine would have to look by itself.
const POLL: Duration = Duration::from_secs(10);

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Tasks whose end is timed, where `EVENKEEL_TASKS` says nothing else: a hundred and more for a figure.
const TASKS: usize = 20;

/// Machines that are made at once.
const MACHINES: u32 = 200;

/// Calls that each of them may cost, waiting left out.
const CALLS_MAX: u64 = 40;

/// How long a task on vcsim is made to take.
const TASK: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_task_moves_its_machine_on_long_before_a_poll_would() {
    let ground = Ground::embedded();
    let Some(world) = World::start(&ground, Family::VsphereMachine, "telling of ends", PASSWORD).await else {
        return;
    };
    let millis = TASK.as_millis();
    world.vcsim.control(&format!("task-delay?CloneVm={millis}")).expect("a delay");
    let tasks =
        std::env::var("EVENKEEL_TASKS").map_or(TASKS, |text| text.parse().expect("a number of tasks"));
    let mut late = Vec::new();
    for number in 0..tasks {
        let name = format!("m-{number}");
        world.create(&name).await;
        let of = |machine: &Value| machine["status"]["task"]["operation"] == "Clone";
        world.until(VSPHERE_MACHINES, &name, "is cloned", of).await;
        let began = Instant::now();
        world.until(VSPHERE_MACHINES, &name, "moves on", |machine| !of(machine)).await;
        // The task began a moment before its id stood in the status: what is told is too long by that at most.
        late.push(began.elapsed().saturating_sub(TASK));
    }
    late.sort();
    let [p50, p99] = [0.5, 0.99].map(|share| late[(late.len() as f64 * share) as usize]);
    eprintln!(
        "task finished, machine moved on, {tasks} times: p50 {p50:?}, p99 {p99:?}; a poll takes up to {POLL:?}"
    );
    assert!(p99 < POLL / 2, "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_machines_cost_a_bounded_number_of_calls_and_waiting_costs_no_pass() {
    let ground = Ground::embedded();
    let Some(world) = World::start(&ground, Family::VsphereMachine, "two hundred machines", PASSWORD).await
    else {
        return;
    };
    let began = Instant::now();
    let names: Vec<String> = (0..MACHINES).map(|number| format!("m-{number}")).collect();
    together(names.iter().map(|name| world.create(name))).await;
    together(names.iter().enumerate().map(async |(number, name)| {
        world.ready(name, &format!("10.1.{}.{}", number / 250, number % 250)).await
    }))
    .await;
    let (took, calls) = (began.elapsed(), world.all_calls());
    let each = calls / u64::from(MACHINES);
    let timed = world.timed_passes();
    eprintln!(
        "{MACHINES} machines ready in {took:?}: {each} calls each, {timed} passes by a timer; {}",
        world.vcsim.calls().expect("calls")
    );
    assert!(each <= CALLS_MAX, "{each} calls each");
    assert_eq!(world.calls("Login"), 1, "one session is enough");
    // At rest nobody asks and nobody is asked. The last addresses are taken in by passes that follow being ready.
    let count = || (world.host.journal().records().len(), world.all_calls());
    let (mut counted, mut since) = (count(), Instant::now());
    while since.elapsed() < POLL {
        assert!(began.elapsed() < PATIENCE, "it does not come to rest: {:?}, then {:?}", counted, count());
        tokio::time::sleep(Duration::from_millis(200)).await;
        if count() != counted {
            (counted, since) = (count(), Instant::now());
        }
    }
}
