//! Thousands of users, then their machines, brought to their state by one host on an embedded API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use evenkeel_cluster::Scope;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::Sandbox;
use evenkeel_sandbox::standins::{self, Stages};
use serde_json::{Value, json};

use crate::Scale;
use crate::child::{self, Figures, number};
use crate::law::Writes;
use crate::measure::{Memory, each, mib, micros, now, processor_time};
use crate::product::{Totals, kite, multi, runtime, sandbox, settle};
use crate::story::{machine, namespace, platform, user, user_name};

/// How long a fleet may take to come to its state.
const PATIENCE: Duration = Duration::from_secs(900);
/// Watches of many objects; Kite's manifest has 12 kinds, of some of which it names objects.
const SHARED_WATCHES_MAX: usize = 20;
/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let sizes = scale.pick::<&[(usize, usize)]>(&[(60, 12)], &[(1_000, 200), (10_000, 2_000)]);
    let mut all = Vec::new();
    for (users, machines) in sizes {
        all.push(child::part("fleet", &[&users.to_string(), &machines.to_string()])?);
    }
    if let [small, large] = &all[..] {
        let [(few, _), (many, _)] = sizes else { bail!("two sizes") };
        let more = *many as f64 / *few as f64;
        println!("  {more:.0} times as much (linear is 1.00):");
        for (at, what) in ["processor time until there", "memory at its peak"].into_iter().enumerate() {
            let (small, large) = (small.get(at).context(what)?, large.get(at).context(what)?);
            println!("    {what}: {:.2} of linear", large / small / more);
        }
    }
    Ok(())
}

/// A fleet in this process: seconds of processor time until it is there, and bytes of memory at the peak.
pub fn part(arguments: &[String]) -> anyhow::Result<Figures> {
    let (users, machines) = (number(arguments, 0)?, number(arguments, 1)?);
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    multi()?.block_on(async {
        let sandbox = sandbox(&*guest, platform())?;
        let clock: evenkeel_sandbox::Clock = Arc::new(jiff::Timestamp::now);
        let _stages = standins::start(sandbox.service(), Stages::builtin(), clock);
        let host = Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default")))?;
        let mut fleet = Fleet { writes: Writes::after(&sandbox), sandbox, host, users, machines };
        for index in 0..users {
            fleet.sandbox.put(user(index))?;
        }
        println!("    {users} users and {machines} machines; {} before", mib(Memory::now().resident));
        let used = processor_time();
        fleet.host.load(Arc::clone(&guest), PluginSettings::default()).await?;
        fleet.until_there("users", users, |fleet, index| fleet.user_is_ready(index)).await?;
        for index in 0..machines {
            fleet.sandbox.put(machine(index))?;
        }
        fleet.until_there("machines", machines, |fleet, index| fleet.machine_runs(index)).await?;
        let used = processor_time().saturating_sub(used);
        settle(&fleet.host).await;
        fleet.writes.read(&fleet.sandbox);
        fleet.tell_writes_and_memory();
        fleet.count_watches()?;
        fleet.sweep().await?;
        fleet.change_everything().await?;
        fleet.writes.check()?;
        let peak = Memory::now().peak;
        fleet.host.shutdown(Duration::from_secs(5)).await;
        Ok(vec![used.as_secs_f64(), peak as f64])
    })
}

struct Fleet {
    sandbox: Sandbox,
    host: Host,
    writes: Writes,
    users: usize,
    machines: usize,
}

impl Fleet {
    fn phase(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let object = self.sandbox.get("anacnu.com/v1", kind, namespace, name)?;
        object.pointer("/status/phase").and_then(Value::as_str).map(str::to_owned)
    }

    fn user_is_ready(&self, index: usize) -> bool {
        self.phase("KiteUser", "", &user_name(index)).as_deref() == Some("Ready")
    }

    fn machine_runs(&self, index: usize) -> bool {
        self.phase("KiteVirtualMachine", &namespace(index), "web").as_deref() == Some("Running")
    }

    /// Waits until each of them is there, and tells how fast that was.
    async fn until_there(
        &mut self,
        what: &str,
        many: usize,
        is_there: impl Fn(&Self, usize) -> bool,
    ) -> anyhow::Result<()> {
        let (began, used, before) = (now(), processor_time(), Totals::of(&self.host));
        let mut there = 0;
        while there < many {
            while there < many && is_there(self, there) {
                there += 1;
            }
            if began.elapsed() > PATIENCE {
                bail!("{there} of {many} {what} are there after {} s", PATIENCE.as_secs());
            }
            self.writes.read(&self.sandbox);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let took = began.elapsed();
        let Totals { passes, calls, elided, sent, failures } = Totals::of(&self.host).since(before);
        println!(
            "    {many} {what} there after {:.1} s: {passes} passes ({:.0} a second), {:.2} calls a pass, {elided} looks without a call, {sent} writes, {failures} failures",
            took.as_secs_f64(),
            passes as f64 / took.as_secs_f64(),
            calls as f64 / passes.max(1) as f64,
        );
        let used = processor_time().saturating_sub(used);
        println!(
            "      {} of processor a pass, the embedded API's work included",
            micros(each(used, passes))
        );
        Ok(())
    }

    fn tell_writes_and_memory(&self) {
        let Writes { count, refused, repeated, .. } = &self.writes;
        println!(
            "    {count} writes, {:.2} for each object or status; {refused} refused, {} repeat the one before",
            *count as f64 / self.writes.places().max(1) as f64,
            repeated.len()
        );
        let stats = self.host.cluster().stats();
        let objects: usize = stats.kinds.iter().map(|kind| kind.objects).sum();
        let bytes: usize = stats.kinds.iter().map(|kind| kind.bytes).sum();
        let memory = Memory::now();
        println!(
            "    memory: {} now, {} at the peak, the embedded API included; {objects} objects cached in {}, journal {}",
            mib(memory.resident),
            mib(memory.peak),
            mib(bytes as u64),
            mib(self.host.journal().status().bytes as u64),
        );
    }

    /// The watches are as many as the kinds and names that Kite's manifest has, but for Secrets, which are watched one by
    /// one.
    fn count_watches(&self) -> anyhow::Result<()> {
        let watches = self.host.cluster().health().watches;
        let (single, shared): (Vec<_>, Vec<_>) =
            watches.iter().partition(|watch| matches!(watch.scope, Scope::Object(_)));
        println!("    {} watches, and {} of single objects", shared.len(), single.len());
        ensure!(shared.len() <= SHARED_WATCHES_MAX, "{} watches of many objects", shared.len());
        let others = single.iter().find(|watch| !["Secret", "ConfigMap"].contains(&&*watch.gvk.kind));
        ensure!(others.is_none(), "a watch of a single object: {others:?}");
        Ok(())
    }

    /// A sweep over everything calls nothing and writes nothing.
    async fn sweep(&mut self) -> anyhow::Result<()> {
        let before = Totals::of(&self.host);
        let began = now();
        self.host.resync();
        let ended = settle(&self.host).await;
        let Totals { passes: _, calls, elided, sent, failures } = Totals::of(&self.host).since(before);
        let took = (ended - began).as_secs_f64();
        println!(
            "    a sweep over everything: {took:.2} s, {elided} looks, {calls} calls, {sent} writes (goal: 0, 0)"
        );
        ensure!(calls == 0 && sent == 0 && failures == 0, "a sweep: {calls} calls, {sent} writes");
        Ok(())
    }

    /// Each user and machine changes once: whatever has to look again does so in one call.
    async fn change_everything(&mut self) -> anyhow::Result<()> {
        let client = kube::Client::new(self.sandbox.service(), "default");
        let before = Totals::of(&self.host);
        let began = now();
        let users = (0..self.users).map(|index| {
            (format!("kiteusers/{}", user_name(index)), json!({"spec": {"email": "ann@example.test"}}))
        });
        let machines = (0..self.machines).map(|index| {
            let path = format!("namespaces/{}/kitevirtualmachines/web", namespace(index));
            (path, json!({"spec": {"cpu": 4}}))
        });
        for (path, patch) in users.chain(machines) {
            let request = http::Request::patch(format!("/apis/anacnu.com/v1/{path}"))
                .header("content-type", "application/merge-patch+json")
                .body(patch.to_string().into_bytes())?;
            client.request::<Value>(request).await?;
        }
        let ended = settle(&self.host).await;
        self.writes.read(&self.sandbox);
        let Totals { passes, calls, elided, sent, failures } = Totals::of(&self.host).since(before);
        let took = (ended - began).as_secs_f64();
        println!(
            "    each changed once: {passes} passes ({:.0} a second), {:.3} calls a pass (goal: 1), {elided} looks without a call, {sent} writes, {failures} failures",
            passes as f64 / took,
            calls as f64 / passes.max(1) as f64,
        );
        ensure!(passes as usize >= self.users + self.machines, "only {passes} passes");
        ensure!(calls == passes, "{calls} calls in {passes} passes of a steady state");
        Ok(())
    }
}
