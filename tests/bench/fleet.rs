//! Thousands of users and machines brought to their state by one host.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::standins::{self, Stages};
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use serde_json::Value;

use crate::story::{kite, machine, mib, multi, now, platform, resident, runtime, user};

/// Users and machines of each run; the growth between the two shows whether cost is linear.
const SIZES: [(usize, usize); 2] = [(1_000, 200), (10_000, 2_000)];
const PATIENCE: Duration = Duration::from_secs(600);

pub fn run() -> anyhow::Result<()> {
    for (users, machines) in SIZES {
        one(users, machines)?;
    }
    Ok(())
}

fn one(users: usize, machines: usize) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    let tokio = multi()?;
    let before = resident();
    tokio.block_on(async {
        let options = SandboxOptions::default();
        let clock = Arc::clone(&options.clock);
        let sandbox = Sandbox::new(options);
        for crd in ["kubevirt", "cdi"].into_iter().filter_map(standins::crds).flatten() {
            sandbox.put(crd)?;
        }
        for crd in &guest.manifest().crds {
            sandbox.put(serde_json::from_str(crd)?)?;
        }
        let _stages = standins::start(sandbox.service(), Stages::builtin(), clock);
        for object in platform().into_iter().chain((0..users).map(user)).chain((0..machines).map(machine)) {
            sandbox.put(object)?;
        }
        let began = now();
        let host = Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default")))?;
        host.load(Arc::clone(&guest), PluginSettings::default()).await?;
        while !converged(&sandbox, users, machines) {
            if began.elapsed() > PATIENCE {
                bail!("{users} users and {machines} machines: not there after {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let took = began.elapsed();
        report(&host, &sandbox, users, machines, took, before);
        steady(&host).await;
        host.shutdown(Duration::from_secs(5)).await;
        anyhow::Ok(())
    })
}

fn converged(sandbox: &Sandbox, users: usize, machines: usize) -> bool {
    let count = |kind: &str, phase: &str, many: usize| {
        (0..many).all(|index| {
            let object = match kind {
                "KiteUser" => sandbox.get("anacnu.com/v1", kind, "", &format!("user-{index}")),
                _ => sandbox.get("anacnu.com/v1", kind, &format!("tenant-{index}"), "web"),
            };
            object
                .is_some_and(|object| object.pointer("/status/phase").and_then(Value::as_str) == Some(phase))
        })
    };
    count("KiteVirtualMachine", "Running", machines) && count("KiteUser", "Ready", users)
}

struct Totals {
    passes: u64,
    calls: u64,
    sent: u64,
    skipped: u64,
}

fn totals(host: &Host) -> Totals {
    let status = host.status();
    let controllers = || status.plugins.iter().flat_map(|plugin| &plugin.controllers);
    Totals {
        passes: controllers().map(|c| c.passes).sum(),
        calls: controllers().map(|c| c.calls).sum(),
        sent: controllers().map(|c| c.sent).sum(),
        skipped: controllers().map(|c| c.skipped).sum(),
    }
}

fn report(host: &Host, sandbox: &Sandbox, users: usize, machines: usize, took: Duration, before: u64) {
    let Totals { passes, calls, sent, skipped } = totals(host);
    let objects = sandbox.dump().len();
    println!("  {users} users and {machines} machines at their state after {:.1} s", took.as_secs_f64());
    println!(
        "    {passes} passes ({:.0} a second), {:.2} calls a pass, {sent} writes sent, {skipped} left out, {:.2} writes an object of {objects}",
        passes as f64 / took.as_secs_f64(),
        calls as f64 / passes.max(1) as f64,
        sent as f64 / objects.max(1) as f64,
    );
    println!(
        "    memory: {} more than before, the embedded API's objects included",
        mib(resident().saturating_sub(before))
    );
}

/// A sweep over everything calls nothing and writes nothing.
async fn steady(host: &Host) {
    let before = totals(host);
    let began = now();
    host.resync();
    while !host.idle() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let after = totals(host);
    println!(
        "    a sweep over everything: {:.2} s, {} calls, {} writes (goal: 0 and 0)",
        began.elapsed().as_secs_f64(),
        after.calls - before.calls,
        after.sent - before.sent
    );
}
