//! `evenkeel agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use evenkeel_agent::{Settled, args};

use super::Exit;
use super::plugin::{self, BuildFlags};
use crate::output::{self, Paint, Unwritten, say};

/// Keep this machine as a Device says: files, hooks, applications, operating system
///
/// Follows a file, or a management service, or the Device object in its own store. An update that fails is rolled back; the
/// power may go at any moment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mkdir -p /tmp/device && evenkeel agent --spec device.yaml --root /tmp/device
  evenkeel agent --spec device.yaml --root /tmp/device --once
  evenkeel agent --root /tmp/device --port 0
  evenkeel agent --server https://service.example.test:7443 --server-ca ca.crt

Exit codes: 0 stopped, or in effect (--once); 1 the update has failed (--once); 2 could not do it.")]
pub struct AgentArgs {
    #[command(flatten)]
    agent: args::AgentArgs,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(args: AgentArgs) -> anyhow::Result<Exit> {
    let component = args.agent.component().or_else(of_checkout).context(
        "no component decides: name one with --plugin, or install /usr/lib/evenkeel/device-update.wasm",
    )?;
    let runtime = Arc::new(args.agent.runtime()?);
    let outcome = plugin::block_on(async {
        let plugin = plugin::load(&runtime, &component, &args.build).await?;
        args.agent.run(plugin).await
    })?;
    let Some(settled) = outcome else { return Ok(Exit::Fine) };
    let (paint, exit) = match settled {
        Settled::Updated { .. } => (Paint::Good, Exit::Fine),
        Settled::Failed { .. } => (Paint::Bad, Exit::Found),
    };
    // The exit code says it, too, where nobody reads the words.
    say!("{}", output::paint(&settled.to_string(), paint, output::colour_stdout()))
        .or_else(Unwritten::unless_closed)?;
    Ok(exit)
}

/// The crate of the component in the checkout that this program was built in.
fn of_checkout() -> Option<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    Some(checkout.join("plugins/device-update")).filter(|path| path.exists())
}
