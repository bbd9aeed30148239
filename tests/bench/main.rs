//! Benchmarks of the whole, each against something to compare with in the same run.
//!
//! `cargo bench -p evenkeel-bench -- NAME`; without a name all of them.

mod fleet;
mod memory;
mod pass;
mod story;
mod swap;
mod wake;

fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let all: [(&str, fn() -> anyhow::Result<()>); 5] = [
        ("pass", pass::run),
        ("wake", wake::run),
        ("swap", swap::run),
        ("memory", memory::run),
        ("fleet", fleet::run),
    ];
    for (name, run) in all {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            println!("== {name}");
            run()?;
        }
    }
    Ok(())
}
