//! Benchmarks of the whole, each against something to compare with in the same run.
//!
//! `cargo bench -p evenkeel -p evenkeel-bench --bench bench -- NAME…` measures; without a name all of them. Run by
//! `cargo test` they do the same in small: then only the laws are of interest (how often a plugin is called, what is
//! written, that nothing is lost), and a law that does not hold fails the test. Each benchmark has a process of its own,
//! so that none is measured with another's memory.

mod cache;
mod child;
mod classes;
mod events;
mod fleet;
mod hold;
mod law;
mod measure;
mod pass;
mod plugins;
mod product;
mod story;
mod swap;

use std::process::ExitCode;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much of everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Enough for the laws: seconds.
    Small,
    /// Enough for figures: minutes.
    Full,
}

impl Scale {
    /// What fits the scale.
    pub fn pick<T>(self, small: T, full: T) -> T {
        match self {
            Self::Small => small,
            Self::Full => full,
        }
    }
}

/// A benchmark: prints what it found, and fails where a law does not hold.
type Benchmark = fn(Scale) -> anyhow::Result<()>;

const ALL: [(&str, Benchmark); 7] = [
    ("pass", pass::run),
    ("events", events::run),
    ("swap", swap::run),
    ("plugins", plugins::run),
    ("cache", cache::run),
    ("fleet", fleet::run),
    ("classes", classes::run),
];

/// Parts of benchmarks that need memory of their own.
const PARTS: [child::Part; 4] = [
    ("plugins", plugins::part),
    ("cache-of-the-host", cache::of_the_host),
    ("cache-of-kube", cache::of_kube),
    ("fleet", fleet::part),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        // The runtime starts this program to compile a component, as it starts the command in production.
        Some((first, rest)) if first == "__compile" => evenkeel_runtime::compile_main(rest.to_vec()),
        Some((first, rest)) if first == child::PART => child::be(rest, &PARTS),
        Some((first, rest)) if first == child::BENCHMARK => one(rest),
        _ => all(&arguments),
    }
}

/// Runs the benchmarks that were asked for, each in a process of its own.
fn all(arguments: &[String]) -> ExitCode {
    // Cargo says so where it benches, and does not where it tests.
    let scale = if arguments.iter().any(|one| one == "--bench") { "full" } else { "small" };
    let wanted: Vec<_> = arguments.iter().filter(|one| !one.starts_with('-')).collect();
    let compiled = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(cause) => {
            eprintln!("no folder for compiled components: {cause}");
            return ExitCode::FAILURE;
        }
    };
    let mut broken = Vec::new();
    for (name, _) in ALL {
        if !wanted.is_empty() && !wanted.iter().any(|one| *one == name) {
            continue;
        }
        if !child::benchmark(name, scale, &compiled.path().join("compiled")) {
            broken.push(name);
        }
    }
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        eprintln!("failed: {}", broken.join(", "));
        ExitCode::FAILURE
    }
}

fn one(arguments: &[String]) -> ExitCode {
    let [name, scale] = arguments else { return ExitCode::from(2) };
    let scale = if scale == "full" { Scale::Full } else { Scale::Small };
    let Some((_, run)) = ALL.iter().find(|(one, _)| one == name) else { return ExitCode::from(2) };
    println!("== {name}");
    match run(scale) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
