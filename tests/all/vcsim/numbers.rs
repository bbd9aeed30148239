//! How soon, how often and how many: numbers that `tests/bench/README.md` quotes, with the limits that they must keep.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use crate::ground::Ground;
use crate::world::{Family, PASSWORD, VSPHERE_MACHINES, World, together};

/// Within this a machine is to be woken by what ended; on a busy machine, which tests share, most are.
const SOON: Duration = Duration::from_secs(1);

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
    let (mut late, mut told) = (Vec::new(), Vec::new());
    for number in 0..tasks {
        let name = format!("m-{number}");
        world.create(&name).await;
        let of = |machine: &Value| machine["status"]["task"]["operation"] == "Clone";
        let runs = |machine: &Value| of(machine) && machine["status"]["taskRef"].is_string();
        let cloning = world.until(VSPHERE_MACHINES, &name, "is cloned", runs).await;
        let task = cloning["status"]["taskRef"].as_str().expect("a task");
        world.until(VSPHERE_MACHINES, &name, "moves on", |machine| !of(machine)).await;
        let moved = world.vcsim.since_task(task).expect("it has ended");
        let ended = Timestamp::now() - SignedDuration::try_from(moved).expect("a duration");
        let woken = world.first_pass_since(&name, ended).await;
        told.push(woken.duration_since(ended).unsigned_abs());
        late.push(moved);
    }
    for (what, times) in [("machine moved on", &mut late), ("its pass began", &mut told)] {
        times.sort();
        let [p50, p99] = [0.5, 0.99].map(|share| times[(times.len() as f64 * share) as usize]);
        eprintln!(
            "task finished, {what}, {tasks} times: p50 {p50:?}, p99 {p99:?}; a poll takes up to {POLL:?}"
        );
    }
    let [p50, p99] = [0.5, 0.99].map(|share| late[(late.len() as f64 * share) as usize]);
    assert!(p50 < SOON && p99 < POLL / 2, "{late:?}");
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
