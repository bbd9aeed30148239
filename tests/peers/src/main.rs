//! The host beside native controllers of the same task: Kite's users, on the same API server in turns.
//!
//! Each peer gets a control plane of its own, so that none meets what another one left. What is counted is counted by the
//! API server (its audit log) and by the kernel, not by the peers.

mod audit;
mod kernel;
mod load;
mod peer;
mod round;
mod table;

use std::path::PathBuf;

use clap::Parser as _;
use evenkeel_test_cluster::Parts;

use crate::peer::Peer;

/// Measures the host and its peers
#[derive(Debug, clap::Parser)]
struct Args {
    /// Users that are brought to their state, and that are there at the restart.
    #[arg(long, default_value_t = 400)]
    users: usize,
    /// Changes of status that concern nobody.
    #[arg(long, default_value_t = 2_000)]
    storm: usize,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The host's program.
    #[arg(long, default_value = "target/release/evenkeel")]
    evenkeel: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let parts = Parts::build()?;
    let mut rounds = Vec::new();
    for peer in Peer::ALL {
        if !args.only.is_empty() && !args.only.iter().any(|name| name == peer.name()) {
            continue;
        }
        eprintln!("{}: builds", peer.name());
        let program = peer.program(&args.evenkeel)?;
        eprintln!("{}: runs", peer.name());
        rounds.push((peer, round::run(peer, &program, &parts, args.users, args.storm).await?));
    }
    println!("{}", table::of(&rounds, args.users, args.storm));
    Ok(())
}
