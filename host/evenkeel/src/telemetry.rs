//! Logs: structured, on stderr, quiet unless asked.

use std::io::IsTerminal;

use anyhow::Context;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to stderr; `filter` is in the words of `RUST_LOG`, as in `info` or `evenkeel_engine=debug`.
pub fn start(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log {filter:?} is no filter: write `info` or `evenkeel_engine=debug`"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would tell on stderr that stderr cannot be written to, and panic on it.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
