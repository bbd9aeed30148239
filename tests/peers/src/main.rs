//! The host beside native controllers of the same task: Kite's users, on the same API server in turns.
//!
//! Each peer gets a control plane of its own, so that none meets what another one left. What is counted is counted by the
//! API server (its audit log) and by the kernel, not by the peers.

mod kernel;
mod load;
mod many;
mod peer;
mod round;
mod table;
mod team;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use evenkeel_test_cluster::Parts;

use crate::peer::Peer;
use crate::round::Round;

/// As in the product: this program is a host, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the host and its peers
#[derive(Debug, clap::Parser)]
struct Args {
    /// Users that are brought to their state, and that are there at the restart.
    #[arg(long, default_value_t = 400)]
    users: usize,
    /// Changes of status that concern nobody.
    #[arg(long, default_value_t = 2_000)]
    storm: usize,
    /// Have the host run all six controllers of Kite, and not only the one that the others are.
    #[arg(long)]
    all_controllers: bool,
    /// How often each of them has its turn. Who goes first changes from one round to the next.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Only these, by name.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// One host with so many plugins beside as many native controllers, instead.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=999))]
    teams: Option<u16>,
    /// The host's program.
    #[arg(long, default_value = "target/release/evenkeel")]
    evenkeel: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        // The runtime starts this program to compile a component, as it starts the command in production.
        [first, rest @ ..] if first == "__compile" => {
            return Ok(evenkeel_runtime::compile_main(rest.to_vec()));
        }
        [first, teams] if first == team::HOST => in_tokio(team::host(teams.parse()?))?,
        _ => in_tokio(measure(Args::parse()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn in_tokio(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(task)
}

async fn measure(args: Args) -> anyhow::Result<()> {
    let parts = Parts::build()?;
    if let Some(teams) = args.teams {
        println!("{}", many::run(&parts, &args.evenkeel, teams.into(), args.users, args.storm).await?);
        return Ok(());
    }
    let asked = |peer: &Peer| args.only.is_empty() || args.only.iter().any(|name| name == peer.name());
    let mut programs = Vec::new();
    // All are built before one is measured.
    for peer in Peer::ALL.into_iter().filter(asked) {
        eprintln!("{}: builds", peer.name());
        programs.push((peer, peer.program(&args.evenkeel)?));
    }
    let mut found: Vec<(Peer, Vec<Round>)> = programs.iter().map(|(peer, _)| (*peer, Vec::new())).collect();
    for number in 0..args.rounds {
        let mut order: Vec<usize> = (0..programs.len()).collect();
        // The machine may be faster at first, or slower.
        if number % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let (peer, program) = &programs[at];
            eprintln!("{}: runs, {} of {}", peer.name(), number + 1, args.rounds);
            let round =
                round::run(*peer, program, &parts, args.users, args.storm, args.all_controllers).await?;
            // What was found is not lost where the next one fails.
            eprintln!("{}", table::of(&[(*peer, vec![round.clone()])], args.users, args.storm));
            found[at].1.push(round);
        }
    }
    println!("{}", table::of(&found, args.users, args.storm));
    Ok(())
}
