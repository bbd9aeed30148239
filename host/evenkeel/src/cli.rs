//! The command line: a file a subcommand.

mod agent;
mod build;
mod check;
mod completions;
mod demo;
mod explain;
mod inspect;
mod kubeconfig;
mod new;
mod operations;
mod plugin;
mod providers;
mod remove;
mod render;
mod run;
mod sandbox;
mod scaffold;
mod serving;
mod test;
mod values;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Unwritten;
use crate::telemetry::LogFormat;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Fine: exit code 0.
    Fine,
    /// It ran and found something: a failed assertion, a difference, an invalid file. Exit code 1.
    Found,
}

/// Runs Kubernetes reconcilers that are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to log, as in `info` or `evenkeel_engine=debug`.
    #[arg(
        long,
        global = true,
        env = "EVENKEEL_LOG",
        default_value = "warn,kube_client=off",
        value_name = "FILTER",
        help_heading = "Logging"
    )]
    log: String,
    /// The form of log lines.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, help_heading = "Logging")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel demo                           see Kite at work on an embedded Kubernetes
  evenkeel demo vsphere-machine           the same for machines on a simulated vCenter
  evenkeel sandbox --plugins DIR          an embedded Kubernetes for kubectl, with your plugins
  evenkeel run --plugins DIR              run plugins against the cluster of your kubeconfig
  evenkeel test plugins/kite              run a plugin's scenarios
  evenkeel explain KiteUser ann           why did it do that

Exit codes: 0 fine; 1 found something; 2 could not do it.";

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Sandbox(sandbox::SandboxArgs),
    Run(run::RunArgs),
    Agent(agent::AgentArgs),
    Test(test::TestArgs),
    Render(render::RenderArgs),
    Explain(explain::ExplainArgs),
    New(new::NewArgs),
    Build(build::BuildArgs),
    Check(check::CheckArgs),
    Inspect(inspect::InspectArgs),
    Scaffold(scaffold::ScaffoldArgs),
    Plugin(remove::PluginArgs),
    Completions(completions::CompletionsArgs),
    /// Compiles a component for the host: called by the host itself.
    #[command(name = "__compile", hide = true)]
    Compile {
        /// Handed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

/// Parses the arguments and runs the subcommand; the exit code is 0 fine, 1 found something, 2 could not do it.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(2);
        }
        // Help and version are results like others.
        Err(help) => return ended(shown(&help)),
    };
    if let Command::Compile { args } = cli.command {
        return evenkeel_runtime::compile_main(args.iter().map(|arg| arg.to_string_lossy().into_owned()));
    }
    ended(cli.run())
}

/// Prints help, in its colours.
fn shown(help: &clap::Error) -> anyhow::Result<Exit> {
    help.print().and_then(|()| std::io::stdout().flush()).map_err(Unwritten::from)?;
    Ok(Exit::Fine)
}

fn ended(outcome: anyhow::Result<Exit>) -> ExitCode {
    match outcome {
        Ok(Exit::Fine) => ExitCode::SUCCESS,
        Ok(Exit::Found) => ExitCode::from(1),
        // Whoever reads us has gone: as with other commands in a pipe, that is no error.
        Err(error) if has_nobody_to_read(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

impl Cli {
    fn run(self) -> anyhow::Result<Exit> {
        crate::telemetry::start(&self.log, self.log_format)?;
        match self.command {
            Command::Demo(args) => demo::run(args),
            Command::Sandbox(args) => sandbox::run(args),
            Command::Run(args) => run::run(args),
            Command::Agent(args) => agent::run(args),
            Command::Test(args) => test::run(args),
            Command::Render(args) => render::run(args),
            Command::Explain(args) => explain::run(args),
            Command::New(args) => new::run(args),
            Command::Build(args) => build::run(args),
            Command::Check(args) => check::run(args),
            Command::Inspect(args) => inspect::run(args),
            Command::Scaffold(args) => scaffold::run(args),
            Command::Plugin(args) => remove::run(args),
            Command::Completions(args) => completions::run(args),
            Command::Compile { .. } => Ok(Exit::Fine), // Done before logging starts.
        }
    }
}

/// The error and its causes, each on a line.
fn report(error: &anyhow::Error) {
    let colour = crate::output::colour_stderr();
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{} {error}", crate::output::paint("error:", crate::output::Paint::Bad, colour));
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Some libraries print their source themselves: nothing is told twice.
        if !told.contains(&cause) {
            let _ = writeln!(err, "  because {cause}");
        }
        told = cause;
    }
}

/// Whether our own output has nobody to read it. A connection to somebody else that breaks is an error.
fn has_nobody_to_read(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<Unwritten>().is_some_and(Unwritten::is_closed))
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn only_the_end_of_our_own_reader_is_no_error() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let within = Err::<(), _>(Unwritten::from(broken())).context("the report").expect_err("it is one");
        for (error, expected) in [
            (anyhow!(Unwritten::from(broken())), true),
            (within, true),
            (anyhow!(Unwritten::from(full)), false),
            (anyhow!(broken()).context("cannot list the objects"), false),
        ] {
            assert_eq!(has_nobody_to_read(&error), expected, "{error:#}");
        }
    }

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
