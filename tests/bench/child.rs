//! Processes of our own: memory is measured where nothing else was.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

/// The argument that names a benchmark to run in this process.
pub const BENCHMARK: &str = "__benchmark";
/// The argument that names a part of one.
pub const PART: &str = "__part";

/// Begins the line by which a part hands back its figures.
const FIGURES: &str = "figures:";

/// What a part found out, in an order that its caller knows.
pub type Figures = Vec<f64>;

/// The variable that names the folder of compiled components, which all processes of a run share.
pub const COMPILED: &str = "EVENKEEL_BENCH_COMPILED";

/// Runs a benchmark in a process of its own; tells whether it held.
pub fn benchmark(name: &str, scale: &str, compiled: &Path) -> bool {
    let status = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args([BENCHMARK, name, scale]).env(COMPILED, compiled).stdin(Stdio::null()).status()
    });
    match status {
        Ok(status) => status.success(),
        Err(cause) => {
            eprintln!("{name}: cannot start: {cause}");
            false
        }
    }
}

/// Runs a part in a process of its own, and shows what it prints.
pub fn part(name: &str, arguments: &[&str]) -> anyhow::Result<Figures> {
    let program = std::env::current_exe().context("this program's own file")?;
    let mut child = Command::new(program)
        .args([PART, name])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start the part {name}"))?;
    let mut figures = None;
    for line in BufReader::new(child.stdout.take().context("its output")?).lines() {
        let line = line?;
        match line.strip_prefix(FIGURES) {
            Some(numbers) => {
                let numbers: Result<Figures, _> = numbers.split_whitespace().map(str::parse).collect();
                figures = Some(numbers?);
            }
            None => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the part {name} ended with {status}");
    }
    figures.with_context(|| format!("the part {name} told no figures"))
}

/// A part by its name.
pub type Part = (&'static str, fn(&[String]) -> anyhow::Result<Figures>);

/// Is a part: runs it and hands back its figures.
pub fn be(arguments: &[String], parts: &[Part]) -> ExitCode {
    let Some((name, rest)) = arguments.split_first() else { return ExitCode::from(2) };
    let Some((_, run)) = parts.iter().find(|(part, _)| part == name) else { return ExitCode::from(2) };
    match run(rest) {
        Ok(figures) => {
            let numbers: Vec<_> = figures.iter().map(ToString::to_string).collect();
            println!("{FIGURES} {}", numbers.join(" "));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A number among the arguments of a part.
pub fn number(arguments: &[String], at: usize) -> anyhow::Result<usize> {
    let text = arguments.get(at).with_context(|| format!("argument {at} is missing"))?;
    text.parse().with_context(|| format!("argument {at} is no number: {text}"))
}
