//! What the benchmarks share: Kite as a component, samples, statistics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use evenkeel::build::build_plugin;
use evenkeel_core::guest::Guest;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use serde_json::{Value, json};

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Kite's component.
pub fn kite_wasm() -> anyhow::Result<Vec<u8>> {
    let built = build_plugin(&root().join("plugins/kite"), false, &mut |step| eprintln!("build: {step}"))?;
    std::fs::read(&built.component).context("Kite's component is there")
}

/// Kite, loaded; the runtime must live as long.
pub fn kite(runtime: &Runtime) -> anyhow::Result<Arc<dyn Guest>> {
    let wasm = kite_wasm()?;
    let tokio = multi()?;
    Ok(tokio.block_on(runtime.load(&wasm))? as Arc<dyn Guest>)
}

/// A runtime as the host has it.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(Runtime::new(RuntimeOptions::default())?)
}

/// A multi-thread tokio.
pub fn multi() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// The time, which a benchmark may take.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Runs something so many times and gives its times, sorted.
pub fn times(runs: usize, mut one: impl FnMut()) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let began = now();
            one();
            began.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// The value at a share of a sorted list.
pub fn at(times: &[Duration], share: f64) -> Duration {
    let index = ((times.len().saturating_sub(1)) as f64 * share) as usize;
    times.get(index).copied().unwrap_or_default()
}

/// Microseconds with a decimal.
pub fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// Resident memory of this process in bytes.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
        * 1024
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

/// The platform that Kite's samples assume.
pub fn platform() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kite-runtime-config", "namespace": "kite"},
            "data": {"baseDomain": "example.test"}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "ubuntu-22.04", "namespace": "kite"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}}),
    ]
}

/// The n-th user.
pub fn user(index: usize) -> Value {
    json!({"apiVersion": "anacnu.com/v1", "kind": "KiteUser", "metadata": {"name": format!("user-{index}")},
        "spec": {"username": format!("user {index}"), "namespace": format!("tenant-{index}"), "access_level": 1}})
}

/// A machine of the n-th user.
pub fn machine(index: usize) -> Value {
    json!({"apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
        "metadata": {"name": "web", "namespace": format!("tenant-{index}")},
        "spec": {"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "powerState": "On", "sshId": "ann",
            "sshAuthorizedKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFh0bWzBv0bgBq0vG1S5y4Yp0tq3nqv1pQp5bL8l0e3n a"]}})
}
