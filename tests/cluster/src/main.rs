//! Builds a control plane, or runs one until it is interrupted.

use anyhow::bail;
use evenkeel_test_cluster::{ControlPlane, Parts, PlaneOptions};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
usage: evenkeel-test-cluster build
       evenkeel-test-cluster run [MINUTES]

build  builds etcd, kube-apiserver, kube-controller-manager and kubectl into target/kubernetes, where they are missing
run    builds, starts them on loopback and says where the kubeconfig is; ends after MINUTES (60), by Ctrl-C or by a SIGTERM";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["build"] => Parts::build().map(drop),
        ["run"] => run(60).await,
        ["run", minutes] => match minutes.parse() {
            Ok(minutes) => run(minutes).await,
            Err(_) => bail!("{minutes} is no number of minutes\n{USAGE}"),
        },
        _ => bail!("{USAGE}"),
    }
}

async fn run(minutes: u64) -> anyhow::Result<()> {
    let parts = Parts::build()?;
    let limit = Duration::from_secs(minutes * 60);
    let plane = ControlPlane::start(&parts, &PlaneOptions { limit, ..PlaneOptions::default() }).await?;
    println!(
        "A control plane listens on https://{} (process groups {:?})",
        plane.address(),
        plane.process_ids()
    );
    println!("  export KUBECONFIG={}", plane.kubeconfig("admin").display());
    println!("  alias kubectl={}", parts.program("kubectl").display());
    println!("It ends after {minutes} minutes, or by Ctrl-C.");
    tokio::time::timeout(limit, told_to_end()).await.unwrap_or(Ok(()))?;
    Ok(())
}

/// Until somebody asks it to end: a person, or whoever has it run in the background, where Ctrl-C does not come.
async fn told_to_end() -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}
