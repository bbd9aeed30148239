//! `evenkeel render`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_core::contract::Action;
use evenkeel_core::guest::Guest;
use evenkeel_core::record::{DeedOutcome, DeedRecord, End, PassRecord};
use evenkeel_core::target::verb;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_sim::scenario::world::{Start, World};
use serde_json::Value;

use super::Exit;
use super::plugin::{self, BuildFlags};
use crate::output::{self, Format};

/// Show what one pass would do, from files
///
/// Puts the objects of the files on an embedded Kubernetes and prints what the first pass of the primary wants.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel render plugins/kite deploy/samples/kite/user.yaml
  evenkeel render plugins/kite machine.yaml -o platform.yaml --stand-ins kubevirt,cdi
  evenkeel render kite.wasm user.yaml --output json")]
pub struct RenderArgs {
    /// A component (`*.wasm`) or the folder of a plugin's crate.
    plugin: PathBuf,
    /// File with the primary; its last document is the one.
    primary: PathBuf,
    /// Files with other objects that are there.
    #[arg(long, short = 'o', value_name = "FILE")]
    observed_resources: Vec<PathBuf>,
    /// The controller, where several look after the primary's kind.
    #[arg(long)]
    controller: Option<String>,
    /// Stand-ins whose kinds are served.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    stand_ins: Vec<String>,
    /// The plugin's config, a YAML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The form.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(args: RenderArgs) -> anyhow::Result<Exit> {
    let mut given = Vec::new();
    for file in &args.observed_resources {
        given.extend(documents(file)?);
    }
    given.extend(documents(&args.primary)?);
    let primary =
        given.last().with_context(|| format!("{} holds no object", args.primary.display()))?.clone();
    let config = match &args.config {
        Some(file) => read_yaml::<Value>(file)?.to_string(),
        None => "{}".to_owned(),
    };
    let runtime = plugin::runtime()?;
    let guest: Arc<dyn Guest> = plugin::block_on(plugin::load(&runtime, &args.plugin, &args.build))?;
    let controller = controller(&guest, &primary, args.controller.as_deref())?;
    let record = one_pass(&guest, &controller, &config, &args.stand_ins, &given, &primary)?;
    match args.output {
        Format::Json => output::json(&record)?,
        Format::Text => print!("{}", text(&record)?),
    }
    Ok(match record.end {
        End::Failed { .. } => Exit::Found,
        End::Concluded { .. }
        | End::Stands
        | End::Stale
        | End::Waiting { .. }
        | End::Slowed { .. }
        | End::Paused => Exit::Fine,
    })
}

fn read_yaml<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not valid", file.display()))
}

fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("{} is not valid YAML", file.display()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The controller whose pass is shown.
fn controller(guest: &Arc<dyn Guest>, primary: &Value, wanted: Option<&str>) -> anyhow::Result<String> {
    let kind = primary["kind"].as_str().unwrap_or_default();
    let api_version = primary["apiVersion"].as_str().unwrap_or_default();
    let of_kind: Vec<_> = guest
        .manifest()
        .controllers
        .iter()
        .filter(|controller| {
            *controller.primary.kind == *kind && controller.primary.api_version() == api_version
        })
        .map(|controller| controller.name.clone())
        .collect();
    match (wanted, of_kind.as_slice()) {
        (Some(name), all) if all.iter().any(|known| known == name) => Ok(name.to_owned()),
        (Some(name), all) => {
            bail!("no controller {name:?} looks after {kind}; there are: {}", all.join(", "))
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!("no controller of {} looks after {api_version} {kind}", guest.manifest().name),
        (None, several) => {
            bail!("several controllers look after {kind}: choose one by --controller {}", several.join("|"))
        }
    }
}

fn one_pass(
    guest: &Arc<dyn Guest>,
    controller: &str,
    config: &str,
    stand_ins: &[String],
    given: &[Value],
    primary: &Value,
) -> anyhow::Result<PassRecord> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let settings = PluginSettings { config: config.into(), ..PluginSettings::default() };
    let world = runtime.block_on(World::start(Start {
        settings,
        controllers: Some(&[controller.to_owned()]),
        installed: stand_ins,
        given,
        ..Start::new(Arc::clone(guest))
    }))?;
    let name = primary.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let first = world.passes.iter().find(|record| {
        *record.key.name == *name && matches!(record.end, End::Concluded { .. } | End::Failed { .. })
    });
    let record = first.with_context(|| {
        format!(
            "the controller {controller} did not look at {name}: do its labels fit the controller's selector?"
        )
    })?;
    Ok(PassRecord::clone(record))
}

/// The objects as YAML documents, everything else as comments.
fn text(record: &PassRecord) -> anyhow::Result<String> {
    let mut text = String::new();
    for deed in &record.deeds {
        text.push_str(&one(deed)?);
    }
    text.push_str(&match &record.end {
        End::Failed { failure, .. } => format!("# failed: {}\n", failure.message),
        End::Concluded { requeue_after: Some(millis) } => format!("# to be run again after {millis} ms\n"),
        _ => String::new(),
    });
    Ok(text)
}

fn one(deed: &DeedRecord) -> anyhow::Result<String> {
    let about = deed.object.as_ref().map_or_else(String::new, ToString::to_string);
    let note = match &deed.outcome {
        DeedOutcome::Done => "",
        DeedOutcome::Skipped { .. } => " (nothing to do)",
        DeedOutcome::Failed { .. } => " (failed)",
    };
    let head = format!("# {} {about}{note}\n", verb(&deed.action));
    Ok(match &deed.action {
        Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => {
            let object: Value = serde_json::from_str(&apply.object)?;
            format!("---\n{head}{}\n", serde_saphyr::to_string(&object)?.trim_end())
        }
        Action::Patch(patch) => format!("{head}# {}\n", patch.merge),
        Action::Publish(event) => format!("{head}# {}: {}\n", event.reason, event.message),
        Action::Delete(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Enqueue(_)
        | Action::External(_) => head,
    })
}
