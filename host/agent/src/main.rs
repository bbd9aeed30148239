//! The agent alone, for devices: `evenkeel agent` without the rest of the command line.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use evenkeel_agent::Settled;
use evenkeel_agent::args::AgentArgs;
use evenkeel_agent::console::{self, Unwritten};
use tracing_subscriber::EnvFilter;

/// Keeps this machine as a Device says: files, hooks, applications, operating system.
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel-agent",
    version,
    after_help = "\
Examples:
  evenkeel-agent --spec device.yaml
  evenkeel-agent --server https://service.example.test:7443 --server-ca ca.crt

Exit codes: 0 stopped, or in effect (--once); 1 the update has failed (--once); 2 could not do it."
)]
struct Cli {
    /// What to log, as in `info` or `evenkeel_engine=debug`.
    #[arg(long, env = "EVENKEEL_LOG", default_value = "warn,kube_client=off", value_name = "FILTER")]
    log: String,
    #[command(flatten)]
    agent: AgentArgs,
}

fn main() -> ExitCode {
    // A child of this program that compiles: the runtime starts it so.
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("__compile") {
        return evenkeel_runtime::compile_main(words);
    }
    match run(&Cli::parse()).and_then(|outcome| Ok(told(outcome)?)) {
        Ok(code) => code,
        Err(error) => {
            console::note(format_args!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Says how the update ended. The exit code does, too, where nobody reads the words.
fn told(outcome: Option<Settled>) -> Result<ExitCode, Unwritten> {
    let Some(settled) = outcome else { return Ok(ExitCode::SUCCESS) };
    console::print(format_args!("{settled}\n")).or_else(Unwritten::unless_closed)?;
    Ok(if matches!(settled, Settled::Updated { .. }) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run(cli: &Cli) -> anyhow::Result<Option<Settled>> {
    let filter = EnvFilter::try_new(&cli.log).context("--log")?;
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // It would tell on stderr that stderr cannot be written to, and panic on it.
    logging
        .log_internal_errors(false)
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    let component = cli.agent.component().context(
        "no component decides: name one with --plugin, or install /usr/lib/evenkeel/device-update.wasm",
    )?;
    let runtime = cli.agent.runtime()?;
    // Two workers: a device has one object, and little happens on it.
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = tokio.block_on(async {
        let cannot = || format!("cannot load {}", component.display());
        let wasm = std::fs::read(&component).with_context(cannot)?;
        let plugin = runtime.load(&wasm).await.with_context(cannot)?;
        cli.agent.run(plugin).await
    });
    // A blocking task that hangs (a name that does not resolve) must not keep the process.
    tokio.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
