//! `evenkeel inspect`.

use std::fmt::Write;
use std::path::PathBuf;

use evenkeel_core::contract::Manifest;
use serde_json::json;

use super::plugin::{self, BuildFlags};
use super::{Exit, check};
use crate::output::{self, Format};

/// Show what a plugin is and what it asks for
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel inspect kite.wasm
  evenkeel inspect plugins/kite --output json")]
pub struct InspectArgs {
    /// A component (`*.wasm`) or the folder of a plugin's crate.
    plugin: PathBuf,
    /// The form.
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(args: InspectArgs) -> anyhow::Result<Exit> {
    let runtime = plugin::runtime()?;
    let (plugin, size) = plugin::block_on(async {
        let component = plugin::component(&args.plugin, &args.build)?;
        let size = std::fs::metadata(&component)?.len();
        anyhow::Ok((plugin::load(&runtime, &component, &args.build).await?, size))
    })?;
    match args.output {
        Format::Json => output::json(&json!({
            "digest": plugin.digest(), "bytes": size, "manifest": plugin.manifest(),
        }))?,
        Format::Text => output::print(format_args!("{}", text(plugin.manifest(), plugin.digest(), size)))?,
    }
    Ok(Exit::Fine)
}

fn text(manifest: &Manifest, digest: &str, size: u64) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} {}: {}", manifest.name, manifest.version, manifest.summary);
    let _ = writeln!(text, "  digest  {digest}\n  size    {} KiB", size.div_ceil(1024));
    let _ = writeln!(text, "\nControllers");
    for controller in &manifest.controllers {
        let _ = write!(text, "  {:<20} {}", controller.name, controller.primary);
        if !controller.labels.is_empty() {
            let _ = write!(text, " with {}", controller.labels);
        }
        if let Some(resync) = controller.resync {
            let _ = write!(text, ", at least every {} s", resync / 1000);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\nPermissions");
    for permission in &manifest.permissions {
        let verbs: Vec<_> = permission.verbs.iter().map(|verb| check::verb(*verb)).collect();
        let _ = write!(text, "  {:<36} {}", permission.gvk.to_string(), verbs.join(" "));
        if !permission.names.is_empty() {
            let _ = write!(text, " (only {})", permission.names.join(", "));
        }
        text.push('\n');
    }
    for used in &manifest.providers {
        let _ = writeln!(
            text,
            "  provider {}: asks {}; does {}",
            used.provider,
            used.questions.join(", "),
            used.operations.join(", ")
        );
    }
    let names: Vec<_> = manifest.crds.iter().filter_map(check::name_of).collect();
    if !names.is_empty() {
        let _ = writeln!(text, "\nBrings along\n  {}", names.join("\n  "));
    }
    text
}
