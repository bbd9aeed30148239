//! Serves a sandbox on loopback and writes a kubeconfig: `cargo run --example serve -- 6443 kubeconfig`.

use evenkeel_sandbox::{ListenOptions, Sandbox, SandboxOptions};
use std::path::Path;

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let file = arguments.next().unwrap_or_else(|| "kubeconfig".to_owned());
    let sandbox = Sandbox::new(SandboxOptions::default());
    let listening = sandbox.serve(ListenOptions { port }).await?;
    listening.write_kubeconfig(Path::new(&file))?;
    println!("listening on {}; kubeconfig in {file}", listening.address);
    std::future::pending::<()>().await;
    Ok(())
}
