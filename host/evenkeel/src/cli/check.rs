//! `evenkeel check`.

use std::path::PathBuf;

use evenkeel_core::contract::{Json, Verb};
use serde::Serialize;
use serde_json::Value;

use super::Exit;
use super::plugin::{self, BuildFlags};
use crate::output::{self, Format, Paint, Unwritten, say};

/// Tell whether a plugin is sound
///
/// Loads it as a host would, under the same limits, and checks its manifest. Exit code 1 where something is wrong with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel check kite.wasm
  evenkeel check plugins/kite --output json")]
pub struct CheckArgs {
    /// Components (`*.wasm`) or folders of plugins' crates.
    #[arg(required = true)]
    plugins: Vec<PathBuf>,
    /// The form.
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    build: BuildFlags,
}

/// What was found out about one plugin.
#[derive(Debug, Serialize)]
struct Finding {
    plugin: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    faults: Vec<String>,
}

pub fn run(args: CheckArgs) -> anyhow::Result<Exit> {
    let runtime = plugin::runtime()?;
    let mut findings = Vec::new();
    for path in &args.plugins {
        // What cannot be read or built could not be checked; what is read and does not load was found to be wrong.
        let component = plugin::component(path, &args.build)?;
        let wasm = std::fs::read(&component).map_err(|cause| {
            anyhow::Error::new(cause).context(format!("cannot read {}", component.display()))
        })?;
        let loaded = plugin::block_on(async { Ok(runtime.load(&wasm).await) })?;
        findings.push(match loaded {
            Err(error) => {
                // The whole chain in one line.
                let fault = format!("{:#}", anyhow::Error::new(error));
                Finding { plugin: path.clone(), digest: None, faults: vec![fault] }
            }
            Ok(plugin) => Finding {
                plugin: path.clone(),
                digest: Some(plugin.digest().to_owned()),
                faults: evenkeel_core::manifest::check(plugin.manifest())
                    .err()
                    .unwrap_or_default()
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            },
        });
    }
    let sound = findings.iter().all(|finding| finding.faults.is_empty());
    match args.output {
        Format::Json => output::json(&findings)?,
        Format::Text => show(&findings)?,
    }
    Ok(if sound { Exit::Fine } else { Exit::Found })
}

fn show(findings: &[Finding]) -> Result<(), Unwritten> {
    let colour = output::colour_stdout();
    for finding in findings {
        if finding.faults.is_empty() {
            say!("{} {}", output::paint("sound", Paint::Good, colour), finding.plugin.display())?;
            continue;
        }
        say!("{} {}", output::paint("wrong", Paint::Bad, colour), finding.plugin.display())?;
        for fault in &finding.faults {
            say!("  {fault}")?;
        }
    }
    Ok(())
}

/// The verb as the contract spells it.
pub fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Create => "create",
        Verb::Apply => "apply",
        Verb::ApplyStatus => "apply-status",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::Finalize => "finalize",
        Verb::Publish => "publish",
    }
}

/// `metadata.name` of an object.
pub fn name_of(object: &Json) -> Option<String> {
    let object: Value = serde_json::from_str(object).ok()?;
    object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
}
