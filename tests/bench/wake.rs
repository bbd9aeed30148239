//! An event that concerns a key and changes nothing that it rests on: from the event to the memo hit.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::{Sandbox, SandboxOptions};

use crate::story::{kite, micros, multi, now, platform, runtime, user};

const USERS: usize = 1_000;

pub fn run() -> anyhow::Result<()> {
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    let tokio = multi()?;
    tokio.block_on(async {
        let sandbox = Sandbox::new(SandboxOptions::default());
        for name in ["kubevirt", "cdi"] {
            for crd in evenkeel_sandbox::standins::crds(name).unwrap_or_default() {
                sandbox.put(crd)?;
            }
        }
        for crd in &guest.manifest().crds {
            sandbox.put(serde_json::from_str(crd)?)?;
        }
        for object in platform().into_iter().chain((0..USERS).map(user)) {
            sandbox.put(object)?;
        }
        let host = Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default")))?;
        host.load(Arc::clone(&guest), PluginSettings::default()).await?;
        settle(&host).await;
        let calls_before = calls(&host);
        let passes_before = elided(&host);
        let began = now();
        let rounds = 20;
        for _ in 0..rounds {
            host.resync();
            settle(&host).await;
        }
        let took = began.elapsed();
        let looks = elided(&host) - passes_before;
        println!(
            "  {looks} looks at keys of which nothing had changed, {} calls of the plugin",
            calls(&host) - calls_before
        );
        let each = took / u32::try_from(looks.max(1)).unwrap_or(u32::MAX);
        println!("  a look, from the queue to the memo hit: {} (goal: under 10 µs)", micros(each));
        host.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

async fn settle(host: &Host) {
    let mut quiet = 0;
    while quiet < 3 {
        tokio::time::sleep(Duration::from_micros(500)).await;
        quiet = if host.idle() { quiet + 1 } else { 0 };
    }
}

fn calls(host: &Host) -> u64 {
    host.status()
        .plugins
        .iter()
        .flat_map(|plugin| &plugin.controllers)
        .map(|controller| controller.calls)
        .sum()
}

fn elided(host: &Host) -> u64 {
    host.status()
        .plugins
        .iter()
        .flat_map(|plugin| &plugin.controllers)
        .map(|controller| controller.elided)
        .sum()
}
