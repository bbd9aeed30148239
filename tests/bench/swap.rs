//! A plugin replaced under load: from the file to the first pass on the new version, and what became of the events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use evenkeel_core::guest::Guest;
use evenkeel_engine::directory::{Directory, Loader, LoaderError};
use evenkeel_engine::journal::JournalOptions;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_runtime::Runtime;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::Scale;
use crate::measure::{at, millis, now};
use crate::product::{kite_wasm, multi, runtime, sandbox, settle, variant};
use crate::story::{platform, user, user_name};

const EVENTS_A_SECOND: u64 = 200;
/// From one swap to the next.
const BETWEEN: Duration = Duration::from_secs(2);
/// The longest that the first pass of a new version may take before the benchmark gives up: so long that a busy machine does not
/// decide.
const PATIENCE: Duration = Duration::from_secs(300);

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let (users, swaps) = (scale.pick(40, 200), scale.pick(1, 20));
    let folder = tempfile::tempdir()?;
    let runtime = Arc::new(runtime()?);
    let wasm = kite_wasm()?;
    multi()?.block_on(async {
        let guest = compile_all(&runtime, &wasm, swaps).await?;
        let sandbox = sandbox(&*guest, platform().into_iter().chain((0..users).map(user)))?;
        let client = kube::Client::new(sandbox.service(), "default");
        write(folder.path(), &variant(&wasm, 0))?;
        put(folder.path())?;
        // Every pass of the run stays in it, so that none can be missed for want of room.
        let journal = JournalOptions { bytes_max: usize::MAX, ..JournalOptions::default() };
        let host = Host::start(HostOptions { journal, ..HostOptions::new(client.clone()) })?;
        let _directory = Directory::open(host.clone(), Arc::new(loader(&runtime)), folder.path()).await?;
        settle(&host).await;

        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(meddle(client, users, Arc::clone(&stop)));
        let mut waits = Vec::new();
        for number in 1..=swaps {
            // Every key has a pass on the new version, which is not the load that the next swap is to be measured under.
            tokio::time::sleep(BETWEEN).await;
            let version = variant(&wasm, number);
            let swap = one(&host, folder.path(), &version);
            waits.push(tokio::time::timeout(PATIENCE, swap).await.context("no pass on the new version")??);
        }
        stop.store(true, Ordering::Relaxed);
        let written = load.await??;
        settle(&host).await;
        waits.sort();
        let lost = lost(&host, &written);
        let events: u64 = written.values().map(|(count, _)| count).sum();
        println!(
            "  {swaps} swaps under {EVENTS_A_SECOND} events a second, {events} events in all, {users} keys"
        );
        println!(
            "  file to first pass on the new version: p50 {} max {} (goal: under 20 ms)",
            millis(at(&waits, 0.5)),
            millis(at(&waits, 1.0))
        );
        println!("  events lost: {} (goal: 0)", lost.len());
        ensure!(lost.is_empty(), "changes that no pass saw: {}", lost.join(", "));
        host.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

/// Compiled before, as on a host that has seen the versions: what is measured is the swap.
async fn compile_all(runtime: &Runtime, wasm: &[u8], swaps: usize) -> anyhow::Result<Arc<dyn Guest>> {
    let began = now();
    let first = runtime.load(&variant(wasm, 0)).await?;
    let size = wasm.len() / 1024;
    println!("  compiled in a child process: {} for {size} KiB", millis(began.elapsed()));
    for number in 1..=swaps {
        runtime.load(&variant(wasm, number)).await?;
    }
    Ok(first)
}

fn loader(runtime: &Arc<Runtime>) -> impl Loader + use<> {
    let runtime = Arc::clone(runtime);
    move |wasm: Vec<u8>| {
        let runtime = Arc::clone(&runtime);
        async move {
            let plugin = runtime.load(&wasm).await.map_err(|error| Box::new(error) as LoaderError)?;
            Ok(plugin as Arc<dyn Guest>)
        }
    }
}

const UNDER_WAY: &str = ".kite.tmp";

/// Copies a component beside its place.
fn write(folder: &Path, wasm: &[u8]) -> anyhow::Result<()> {
    Ok(std::fs::write(folder.join(UNDER_WAY), wasm)?)
}

/// Puts the copy in its place.
fn put(folder: &Path) -> anyhow::Result<()> {
    Ok(std::fs::rename(folder.join(UNDER_WAY), folder.join("kite.wasm"))?)
}

/// Replaces the file and waits for the first pass of another digest.
async fn one(host: &Host, folder: &Path, wasm: &[u8]) -> anyhow::Result<Duration> {
    let before = host.status().plugins.first().map(|plugin| plugin.digest.clone()).unwrap_or_default();
    let mut passes = host.subscribe();
    write(folder, wasm)?;
    let began = now();
    put(folder)?;
    loop {
        let pass = match passes.recv().await {
            Ok(pass) => pass,
            // On a busy machine; there are more to come.
            Err(RecvError::Lagged(_)) => continue,
            Err(closed @ RecvError::Closed) => return Err(closed.into()),
        };
        if !pass.calls.is_empty() && pass.digest != before {
            return Ok(began.elapsed());
        }
    }
}

/// How often each user was changed, and to which address at last.
type Written = BTreeMap<String, (u64, String)>;

/// Changes users in turn until it is stopped.
async fn meddle(client: kube::Client, users: usize, stop: Arc<AtomicBool>) -> anyhow::Result<Written> {
    let mut tick = tokio::time::interval(Duration::from_millis(1000 / EVENTS_A_SECOND));
    let mut written = Written::new();
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        tick.tick().await;
        let name = user_name(index % users);
        let email = format!("{index}@example.test");
        let request = http::Request::patch(format!("/apis/anacnu.com/v1/kiteusers/{name}"))
            .header("content-type", "application/merge-patch+json")
            .body(json!({"spec": {"email": email}}).to_string().into_bytes())?;
        client.request::<Value>(request).await?;
        let (count, last) = written.entry(name).or_default();
        (*count, *last) = (*count + 1, email);
        index += 1;
    }
    Ok(written)
}

/// Users of whom the last change is in no pass that came to a conclusion, each with its last passes.
fn lost(host: &Host, written: &Written) -> Vec<String> {
    let passes = host.journal().select(|pass| pass.controller == kite::names::KITE_USER);
    let saw = |name: &str, email: &str| {
        let last = passes.iter().rfind(|pass| &*pass.key.name == name && pass.request.is_some());
        let primary = last.and_then(|pass| pass.request.as_ref()?.primary.clone());
        primary.is_some_and(|primary| primary.contains(email))
    };
    let last = |name: &str| -> String {
        let of = passes.iter().rev().filter(|pass| &*pass.key.name == name).take(3);
        let told = of.map(|pass| {
            let primary = pass.request.as_ref().and_then(|request| request.primary.clone());
            format!("{} {:?} {} {:?} {:?}", pass.time, pass.trigger, pass.digest, primary, pass.end)
        });
        told.collect::<Vec<_>>().join("\n      ")
    };
    let lost = written.iter().filter(|(name, (_, email))| !saw(name, &format!("\"{email}\"")));
    lost.map(|(name, (_, email))| format!("{name}, at last {email}:\n      {}\n", last(name))).collect()
}
