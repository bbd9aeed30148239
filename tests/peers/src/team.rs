//! One host with a plugin for each of many teams: a process of its own, so that its memory can be measured.
//!
//! Each plugin is a component of its own (its own bytes, its own compiled code) under its own name, and looks after the
//! users of its team alone, as each of the native controllers does that it is held against.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_runtime::{Compiler, Runtime, RuntimeOptions};

use crate::peer::root;

/// The argument that has this program be such a host.
pub const HOST: &str = "__host";

/// How a team's users are told from those of others.
pub fn selector(team: usize) -> String {
    format!("team={}", name(team))
}

/// A team's name.
pub fn name(team: usize) -> String {
    format!("team-{team:03}")
}

/// Compiles the plugins of so many teams, some seconds each, so that a host that starts finds them.
pub async fn compile(teams: usize) -> anyhow::Result<()> {
    let (wasm, runtime) = (kite()?, runtime()?);
    for team in 0..teams {
        if team % 10 == 0 {
            eprintln!("evenkeel: compiles plugin {} of {teams}", team + 1);
        }
        runtime.load(&of_its_own(&wasm, team)).await?;
    }
    Ok(())
}

fn kite() -> anyhow::Result<Vec<u8>> {
    std::fs::read(root().join("target/plugins/kite.wasm")).context("Kite's component")
}

fn runtime() -> anyhow::Result<Runtime> {
    let exe = std::env::current_exe()?;
    let cache_dir = Some(root().join("target/peers/compiled"));
    let options =
        RuntimeOptions { cache_dir, compiler: Compiler::ChildProcess { exe }, ..Default::default() };
    Ok(Runtime::new(options)?)
}

/// Runs a host with a plugin for each team, until it is told to end. The cluster is that of `KUBECONFIG`.
pub async fn host(teams: usize) -> anyhow::Result<()> {
    let (wasm, runtime) = (kite()?, runtime()?);
    let host = Host::start(HostOptions::new(kube::Client::try_default().await?))?;
    for team in 0..teams {
        let guest = runtime.load(&of_its_own(&wasm, team)).await?;
        host.load(Arc::new(OfTeam::new(guest, team)), PluginSettings::default()).await?;
    }
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    ended.recv().await;
    host.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// The component with other bytes: a custom section changes nothing that runs.
fn of_its_own(wasm: &[u8], team: usize) -> Vec<u8> {
    let section = format!("\u{4}team{team:03}");
    let mut bytes = wasm.to_vec();
    bytes.push(0);
    // Shorter than 128 bytes, so that its length is one byte.
    bytes.push(u8::try_from(section.len()).unwrap_or(0x7f));
    bytes.extend_from_slice(section.as_bytes());
    bytes
}

/// Kite's controller of users, under another name and for one team's users.
struct OfTeam {
    guest: Arc<dyn Guest>,
    manifest: Manifest,
}

impl OfTeam {
    fn new(guest: Arc<dyn Guest>, team: usize) -> Self {
        let mut manifest = guest.manifest().clone();
        manifest.name = name(team);
        manifest.controllers.retain(|controller| controller.name == "kite-user");
        for controller in &mut manifest.controllers {
            controller.labels = selector(team);
        }
        Self { guest, manifest }
    }
}

impl Guest for OfTeam {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        self.guest.digest()
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        self.guest.reconcile(request)
    }
}
