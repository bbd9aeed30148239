//! What is measured: Kite as a component, in a runtime and on a host as the command line has them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel::build::build_plugin;
use evenkeel_core::guest::Guest;
use evenkeel_engine::Host;
use evenkeel_runtime::{Compiler, Runtime, RuntimeOptions};
use evenkeel_sandbox::{Sandbox, SandboxOptions, standins};
use serde_json::Value;

use crate::child::COMPILED;
use crate::measure::now;

/// Kite's component.
pub fn kite_wasm() -> anyhow::Result<Vec<u8>> {
    wasm("kite")
}

/// The component of a plugin of the checkout.
fn wasm(name: &str) -> anyhow::Result<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(name);
    let built = build_plugin(&folder, false, &mut |step| eprintln!("build: {step}"))?;
    std::fs::read(&built.component).with_context(|| format!("the component of {name} is there"))
}

/// A plugin of the checkout, loaded; the runtime must live as long.
pub fn plugin(runtime: &Runtime, name: &str) -> anyhow::Result<Arc<dyn Guest>> {
    Ok(multi()?.block_on(runtime.load(&wasm(name)?))? as Arc<dyn Guest>)
}

/// The same component under another digest: a custom section changes nothing that runs.
pub fn variant(wasm: &[u8], number: usize) -> Vec<u8> {
    let name = b"bench";
    let data = number.to_string();
    let length = 1 + name.len() + data.len();
    let mut bytes = wasm.to_vec();
    bytes.push(0);
    bytes.push(u8::try_from(length).unwrap_or(0x7f));
    bytes.push(u8::try_from(name.len()).unwrap_or(0));
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(data.as_bytes());
    bytes
}

/// A runtime as the command line has it: compiled code is kept in a folder, and a child process compiles.
pub fn runtime() -> anyhow::Result<Runtime> {
    let exe = std::env::current_exe().context("this program's own file")?;
    let compiler = Compiler::ChildProcess { exe };
    let cache_dir = std::env::var_os(COMPILED).map(PathBuf::from);
    Ok(Runtime::new(RuntimeOptions { cache_dir, compiler, ..RuntimeOptions::default() })?)
}

/// Kite, loaded; the runtime must live as long.
pub fn kite(runtime: &Runtime) -> anyhow::Result<Arc<dyn Guest>> {
    let wasm = kite_wasm()?;
    Ok(multi()?.block_on(runtime.load(&wasm))? as Arc<dyn Guest>)
}

/// A tokio runtime as the command line has it.
pub fn multi() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// An embedded Kubernetes that serves the kinds of Kite, KubeVirt and CDI, with these objects in place.
pub fn sandbox(guest: &dyn Guest, objects: impl IntoIterator<Item = Value>) -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::new(SandboxOptions::default());
    for crd in standins::PROJECTS.into_iter().filter_map(standins::crds).flatten() {
        sandbox.put(crd)?;
    }
    for crd in &guest.manifest().crds {
        sandbox.put(serde_json::from_str(crd)?)?;
    }
    for object in objects {
        sandbox.put(object)?;
    }
    Ok(sandbox)
}

/// What the controllers of a host did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Passes in which the plugin was called.
    pub passes: u64,
    /// Calls in them.
    pub calls: u64,
    /// Looks that needed no call.
    pub elided: u64,
    /// Writes sent.
    pub sent: u64,
    /// Passes that failed.
    pub failures: u64,
}

impl Totals {
    /// So far.
    pub fn of(host: &Host) -> Self {
        let plugins = host.status().plugins;
        let controllers = plugins.iter().flat_map(|plugin| &plugin.controllers);
        controllers.fold(Self::default(), |sum, one| Self {
            passes: sum.passes + one.passes,
            calls: sum.calls + one.calls,
            elided: sum.elided + one.elided,
            sent: sum.sent + one.sent,
            failures: sum.failures + one.failures,
        })
    }

    /// What happened since.
    pub fn since(self, before: Self) -> Self {
        Self {
            passes: self.passes - before.passes,
            calls: self.calls - before.calls,
            elided: self.elided - before.elided,
            sent: self.sent - before.sent,
            failures: self.failures - before.failures,
        }
    }
}

/// Waits until the host has had nothing to do for a while; returns when it last had.
pub async fn settle(host: &Host) -> Instant {
    let mut busy = now();
    let mut quiet = 0;
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if host.idle() {
            quiet += 1;
        } else {
            (quiet, busy) = (0, now());
        }
    }
    busy
}
