//! `evenkeel completions`.

use clap::CommandFactory;

use super::{Cli, Exit};

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel completions bash > /etc/bash_completion.d/evenkeel
  source <(evenkeel completions zsh)")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub fn run(args: CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "evenkeel", &mut script);
    crate::output::print(format_args!("{}", String::from_utf8(script)?))?;
    Ok(Exit::Fine)
}
