//! A plugin replaced under load: from the file to the first pass on the new version, and what became of the events.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::guest::Guest;
use evenkeel_engine::directory::{Directory, LoaderError};
use evenkeel_engine::{Host, HostOptions};
use evenkeel_runtime::Runtime;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use serde_json::json;

use crate::memory::variant;
use crate::story::{at, kite_wasm, micros, multi, now, platform, runtime, user};

const USERS: usize = 200;
const EVENTS_A_SECOND: u64 = 200;
const SWAPS: usize = 10;

pub fn run() -> anyhow::Result<()> {
    let runtime = Arc::new(runtime()?);
    let wasm = kite_wasm()?;
    let folder = tempfile::tempdir()?;
    let tokio = multi()?;
    tokio.block_on(async {
        // Compiled before, as on a host that has seen the version: what is measured is the swap.
        for number in 0..=SWAPS {
            runtime.load(&variant(&wasm, number)).await?;
        }
        put(folder.path(), &variant(&wasm, 0))?;
        let sandbox = Sandbox::new(SandboxOptions::default());
        for name in ["kubevirt", "cdi"] {
            for crd in evenkeel_sandbox::standins::crds(name).unwrap_or_default() {
                sandbox.put(crd)?;
            }
        }
        let client = kube::Client::new(sandbox.service(), "default");
        let host = Host::start(HostOptions { install_crds: true, ..HostOptions::new(client.clone()) })?;
        let _directory = Directory::open(host.clone(), Arc::new(loader(&runtime)), folder.path()).await?;
        for object in platform().into_iter().chain((0..USERS).map(user)) {
            sandbox.put(object)?;
        }
        let load = tokio::spawn(meddle(client));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut waits = Vec::new();
        for number in 1..=SWAPS {
            waits.push(one(&host, folder.path(), &variant(&wasm, number)).await?);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        load.abort();
        let events = load.await.unwrap_or_default();
        tokio::time::sleep(Duration::from_secs(2)).await;
        waits.sort();
        let lost = behind(&sandbox);
        println!("  {SWAPS} swaps under {EVENTS_A_SECOND} events a second ({events} in all; 0 where the load was cut off)");
        println!(
            "  file to first pass on the new version: p50 {} max {} (goal: under 20 ms)",
            micros(at(&waits, 0.5)),
            micros(at(&waits, 1.0))
        );
        println!("  users whose last change was not acted on: {lost} (goal: 0)");
        host.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

fn loader(runtime: &Arc<Runtime>) -> impl evenkeel_engine::directory::Loader + use<> {
    let runtime = Arc::clone(runtime);
    move |wasm: Vec<u8>| {
        let runtime = Arc::clone(&runtime);
        async move {
            let plugin = runtime.load(&wasm).await.map_err(|error| Box::new(error) as LoaderError)?;
            Ok(plugin as Arc<dyn Guest>)
        }
    }
}

fn put(folder: &Path, wasm: &[u8]) -> anyhow::Result<()> {
    let under_way = folder.join(".kite.tmp");
    std::fs::write(&under_way, wasm)?;
    Ok(std::fs::rename(under_way, folder.join("kite.wasm"))?)
}

/// Replaces the file and waits for the first pass of another digest.
async fn one(host: &Host, folder: &Path, wasm: &[u8]) -> anyhow::Result<Duration> {
    let before = digest(host);
    let mut passes = host.subscribe();
    let began = now();
    put(folder, wasm)?;
    loop {
        let pass = passes.recv().await?;
        if !pass.calls.is_empty() && pass.digest != before {
            return Ok(began.elapsed());
        }
    }
}

fn digest(host: &Host) -> String {
    host.status().plugins.first().map(|plugin| plugin.digest.clone()).unwrap_or_default()
}

/// Changes users in turn, for as long as it is let.
async fn meddle(client: kube::Client) -> u64 {
    let mut tick = tokio::time::interval(Duration::from_millis(1000 / EVENTS_A_SECOND));
    let mut count = 0_u64;
    loop {
        tick.tick().await;
        count += 1;
        let index = count % USERS as u64;
        let body = json!({"spec": {"email": format!("{count}@example.test")}}).to_string().into_bytes();
        let request = http::Request::patch(format!("/apis/anacnu.com/v1/kiteusers/user-{index}"))
            .header("content-type", "application/merge-patch+json")
            .body(body);
        if let Ok(request) = request {
            // The kind may not be served for the first moments.
            let _ = client.request::<serde_json::Value>(request).await;
        }
    }
}

/// Users of which the status is of an older generation than the spec.
fn behind(sandbox: &Sandbox) -> usize {
    sandbox
        .dump()
        .iter()
        .filter(|object| object["kind"] == "KiteUser")
        .filter(|object| object["metadata"]["generation"] != object["status"]["observedGeneration"])
        .count()
}
