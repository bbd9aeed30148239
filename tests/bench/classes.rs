//! A class with many machines: how often its pass runs and whom it wakes, against upstream's rule on the same story; and
//! what a pass costs beside machines of other classes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use evenkeel_core::contract::Action;
use evenkeel_core::guest::Guest;
use evenkeel_core::record::{DeedOutcome, PassRecord};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::Sandbox;
use evenkeel_sim::scenario::{file, run};
use serde_json::{Value, json};

use crate::Scale;
use crate::measure::{at, micros};
use crate::product::{multi, plugin, runtime, sandbox, settle};

/// Seconds after the last machine that still belong to its coming: a key that is busy all the time is paced.
const SETTLE_SECONDS: u64 = 60;
/// Minutes of rest between the last machine and the deletion.
const REST_MINUTES: u64 = 60;
/// Minutes that machines take to go, one after the other.
const DRAIN_MINUTES: u64 = 10;

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let guest = plugin(&runtime, "machine-class")?;
    let machines = scale.pick(60, 500);
    let (ours, theirs) = (tell(&guest, machines)?, upstream(machines));
    println!(
        "  {machines} machines of one class, {REST_MINUTES} minutes of rest, then they go within {DRAIN_MINUTES}:"
    );
    for (phase, (ours, theirs)) in PHASES.iter().zip(ours.iter().zip(&theirs)) {
        println!(
            "    {phase:<12} calls {:>6}, writes {:>2}, machines woken {:>6}; by upstream's rule {:>6} passes, {:>7} machines woken",
            ours.passes, ours.writes, ours.woken, theirs.passes, theirs.woken
        );
    }
    let [up, rest, down] = ours;
    ensure!(
        up.writes == 1 && up.woken <= 1,
        "scale-up: the finalizer once, and whoever was there then: {up:?}"
    );
    ensure!(
        rest == Counts::default(),
        "at rest nobody is called, nothing is written, nobody is woken: {rest:?}"
    );
    ensure!(down.woken == 0, "a class that goes wakes nobody: {down:?}");
    ensure!(up.passes + down.passes <= 2 * machines + 4, "at most a pass for each change: {up:?} {down:?}");
    let (few, many) = (scale.pick(100, 500), scale.pick(2_000, 10_000));
    let alone = pass_time(&guest, few, 0, scale)?;
    let beside = pass_time(&guest, few, many - few, scale)?;
    println!(
        "  a pass of a class with {few} machines: {} alone, {} beside {} machines of others (p50)",
        micros(alone),
        micros(beside),
        many - few
    );
    Ok(())
}

const PHASES: [&str; 3] = ["scale-up", "at rest", "deletion"];

/// What a part of the story came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Passes of the class in which the plugin was called, or reconciles.
    passes: usize,
    /// Writes to the API server, Events among them.
    writes: usize,
    /// Machines that were put into their queue.
    woken: usize,
}

/// The story as a scenario: machines come one by one, rest, and go one by one while their class is being deleted.
fn story(machines: usize) -> String {
    let pause = DRAIN_MINUTES * 60 * 1000 / u64::try_from(machines).unwrap_or(1);
    let of = |metadata: &str| format!("{{apiVersion: machine.sapcloud.io/v1alpha1, kind: {metadata}");
    let class = of(
        "MachineClass, metadata: {namespace: shoot, name: a}, provider: sim, providerSpec: {size: small}}",
    );
    let machine = of(
        "Machine, metadata: {namespace: shoot, name: \"m{n}\"}, spec: {class: {kind: MachineClass, name: a}}}",
    );
    format!(
        "scenario: many machines of a class\n\
         controllers: [machine-class, machine]\n\
         config: {{machines: false}}\n\
         given:\n  - {{apiVersion: v1, kind: Namespace, metadata: {{name: shoot}}}}\n  - {class}\n\
         steps:\n\
         \x20 - repeat: {{times: {machines}, steps: [{{create: {machine}}}, {{advance: 1s}}]}}\n\
         \x20 - advance: {SETTLE_SECONDS}s\n\
         \x20 - advance: {REST_MINUTES}m\n\
         \x20 - delete: {{kind: MachineClass, namespace: shoot, name: a}}\n\
         \x20 - repeat: {{times: {machines}, steps: [{{delete: {{kind: Machine, namespace: shoot, name: \"m{{n}}\"}}}}, {{advance: {pause}ms}}]}}\n"
    )
}

/// The story, told by the host on virtual time.
fn tell(guest: &Arc<dyn Guest>, machines: usize) -> anyhow::Result<[Counts; 3]> {
    let scenario = file::parse(Path::new("classes.yaml"), &story(machines)).context("the story")?;
    let told = run::tell(&scenario, guest).map_err(anyhow::Error::msg)?;
    ensure!(told.failures.is_empty(), "the story: {:?}", told.failures);
    let of_class: Vec<_> = told.passes.iter().filter(|record| record.controller == "machine-class").collect();
    let begin = of_class.first().context("no pass of the class")?.time.parse::<jiff::Timestamp>()?;
    let scaled = begin + Duration::from_secs(u64::try_from(machines)? + SETTLE_SECONDS);
    let rested = scaled + Duration::from_secs(REST_MINUTES * 60);
    let mut counts = [Counts::default(); 3];
    for record in of_class {
        let time = record.time.parse::<jiff::Timestamp>()?;
        let phase = usize::from(time >= scaled) + usize::from(time >= rested);
        let Some(counts) = counts.get_mut(phase) else { bail!("a phase that is none") };
        count(counts, record);
    }
    Ok(counts)
}

fn count(counts: &mut Counts, record: &PassRecord) {
    counts.passes += usize::from(!record.calls.is_empty());
    for deed in &record.deeds {
        match (&deed.action, &deed.outcome) {
            (_, DeedOutcome::Skipped { .. }) => {}
            (Action::Enqueue(_), _) => counts.woken += 1,
            _ => counts.writes += 1,
        }
    }
}

/// Upstream's rule on the same story: each reconcile of a live class with machines puts all that are not terminating into
/// their queue; it is reconciled for each machine that comes or goes, for its own finalizer, and each ten minutes; while
/// it goes in use, each five seconds.
fn upstream(machines: usize) -> [Counts; 3] {
    let mut up = Counts::default();
    for there in 1..=machines {
        // The first one has the finalizer placed, which is an event of its own.
        let reconciles = if there == 1 { 2 } else { 1 };
        up.passes += reconciles;
        up.woken += reconciles * there;
    }
    up.writes = 1;
    let timed = usize::try_from(REST_MINUTES / 10).unwrap_or_default();
    let rest = Counts { passes: timed, writes: 0, woken: timed * machines };
    let retries = usize::try_from(DRAIN_MINUTES * 60 / 5).unwrap_or_default();
    let down = Counts { passes: 1 + machines + retries, writes: 1, woken: 0 };
    [up, rest, down]
}

/// How long a pass of a class takes that has so many machines, beside so many of others: the median.
fn pass_time(guest: &Arc<dyn Guest>, own: usize, others: usize, scale: Scale) -> anyhow::Result<Duration> {
    multi()?.block_on(async {
        let sandbox = sandbox(
            &**guest,
            [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shoot"}})],
        )?;
        sandbox.put(class("own"))?;
        for number in 0..own + others {
            let class = if number < own { "own".to_owned() } else { format!("other-{}", number % 20) };
            sandbox.put(machine(number, &class, ""))?;
        }
        let host = Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default")))?;
        let settings =
            PluginSettings { config: r#"{"machines": false}"#.into(), ..PluginSettings::default() };
        host.load(Arc::clone(guest), settings).await?;
        settle(&host).await;
        let mut times = Vec::new();
        for round in 0..scale.pick(10, 50) {
            let seen = host.journal().records().len();
            touch(&sandbox, round)?;
            settle(&host).await;
            let records = host.journal().records();
            let of_class = records.iter().skip(seen).filter(|record| {
                record.controller == "machine-class" && &*record.key.name == "own" && !record.calls.is_empty()
            });
            times.extend(of_class.map(|record| Duration::from_micros(record.micros)));
        }
        host.shutdown(Duration::from_secs(5)).await;
        ensure!(!times.is_empty(), "no pass of the class was seen");
        times.sort();
        Ok(at(&times, 0.5))
    })
}

/// Changes one of the class' machines in what its pass looks at.
fn touch(sandbox: &Sandbox, round: usize) -> anyhow::Result<()> {
    sandbox.put(machine(0, "own", &format!("sim:///vm-{round}")))?;
    Ok(())
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": {"namespace": "shoot", "name": name}, "provider": "sim", "providerSpec": {"size": "small"}})
}

fn machine(number: usize, class: &str, provider_id: &str) -> Value {
    json!({"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": {"namespace": "shoot", "name": format!("m{number}")},
        "spec": {"class": {"kind": "MachineClass", "name": class}, "providerID": provider_id}})
}
