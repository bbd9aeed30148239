//! `evenkeel build`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;

use super::Exit;
use super::plugin::BuildFlags;
use crate::build::{Step, build_plugin};
use crate::output::{self, Format, Paint, say};

/// Build a plugin's crate into a component
///
/// Finds the wasm32 toolchain, or gets it: an installed target, `rustup target add`, or Debian's packages; it says which.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel build
  evenkeel build plugins/kite
  evenkeel build plugins/kite --no-install --output json")]
pub struct BuildArgs {
    /// Folder of the plugin's crate.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The form.
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(args: BuildArgs) -> anyhow::Result<Exit> {
    let mut progress = Progress::to_stderr();
    let built = build_plugin(&args.folder, args.build.no_install, &mut |step| progress.show(step))
        .with_context(|| format!("cannot build the plugin in {}", args.folder.display()))?;
    match args.output {
        Format::Json => output::json(&json!({
            "component": built.component, "digest": built.digest, "cached": built.cached,
        }))?,
        Format::Text => say!("{}", built.component.display())?,
    }
    Ok(Exit::Fine)
}

/// Shows the steps of a build on stderr, each on a line: a build is long, and a silent one looks stuck.
pub struct Progress {
    colour: bool,
}

impl Progress {
    /// With colour on terminals.
    pub fn to_stderr() -> Self {
        Self { colour: std::io::stderr().is_terminal() && output::colour_stderr() }
    }

    /// One step.
    pub fn show(&mut self, step: &Step) {
        let mut err = std::io::stderr().lock();
        let _ = writeln!(err, "{} {step}", output::paint("build:", Paint::Dim, self.colour));
    }
}
