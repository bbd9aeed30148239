//! `evenkeel render`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_agent::yaml;
use evenkeel_core::contract::Action;
use evenkeel_core::guest::Guest;
use evenkeel_core::record::{DeedOutcome, DeedRecord, End, PassRecord, STRUCK};
use evenkeel_core::target::verb;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_sim::scenario::world::{Start, World};
use serde_json::{Value, json};

use super::Exit;
use super::plugin::{self, BuildFlags};
use crate::output::{self, Format, note};

/// Show what one pass would do, from files
///
/// Puts the objects of the files on an embedded Kubernetes and prints what the first pass of the primary wants. What is secret
/// is struck out, as in the journal. Namespaces that objects are in and that no file holds are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel render plugins/kite deploy/samples/kite/user.yaml -o deploy/samples/kite/platform.yaml
  evenkeel render plugins/kite deploy/samples/kite/machine.yaml \\
    -o deploy/samples/kite/platform.yaml --stand-ins kubevirt,cdi
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
    /// Stand-ins whose kinds are served (kubevirt, cdi).
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
    let of_primary = documents(&args.primary)?;
    let primary =
        of_primary.last().with_context(|| format!("{} holds no object", args.primary.display()))?.clone();
    given.extend(of_primary);
    let given: Vec<Value> = namespaces(&given).into_iter().chain(given).collect();
    let config = match &args.config {
        Some(file) => read_yaml::<Value>(file)?.to_string(),
        None => "{}".to_owned(),
    };
    let runtime = plugin::runtime()?;
    let guest: Arc<dyn Guest> = plugin::block_on(plugin::load(&runtime, &args.plugin, &args.build))?;
    let controller = controller(&guest, &primary, args.controller.as_deref())?;
    let record = one_pass(&guest, &controller, &config, &args.stand_ins, &given, &primary)?;
    if serde_json::to_string(&record)?.contains(STRUCK) {
        note!(
            "note: what is secret stands as {STRUCK:?}, so that objects with it cannot be applied as they are"
        );
    }
    match args.output {
        Format::Json => output::json(&record)?,
        Format::Text => output::print(format_args!("{}", text(&record)?))?,
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

/// The namespaces in which objects are and that no file holds: nothing lies in one that is not there.
fn namespaces(given: &[Value]) -> Vec<Value> {
    let text =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let is_namespace = |object: &&Value| text(object, "/kind").as_deref() == Some("Namespace");
    let there: BTreeSet<String> =
        given.iter().filter(is_namespace).filter_map(|object| text(object, "/metadata/name")).collect();
    let used: BTreeSet<String> = given
        .iter()
        .filter_map(|object| text(object, "/metadata/namespace"))
        .filter(|name| !there.contains(name))
        .collect();
    let made = used.into_iter();
    made.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).collect()
}

fn read_yaml<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    yaml::one(&text).with_context(|| format!("{} is not valid", file.display()))
}

fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let documents: Vec<Value> =
        yaml::all(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespaces_of_objects_are_there_though_no_file_holds_them() {
        let object = |kind: &str, metadata: Value| json!({"kind": kind, "metadata": metadata});
        let given = [
            object("Namespace", json!({"name": "held"})),
            object("Pod", json!({"namespace": "held", "name": "a"})),
            object("Pod", json!({"namespace": "used", "name": "a"})),
            object("Node", json!({"name": "n"})),
        ];
        let made = namespaces(&given);
        assert_eq!(made, [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "used"}})]);
    }

    #[test]
    fn modes_in_files_are_octal_as_for_kubectl() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, "defaultMode: 0644\n---\n---\ndefaultMode: '0644'\n").expect("a file");
        let read = documents(&file).expect("YAML");
        assert_eq!(read, [json!({"defaultMode": 420}), json!({"defaultMode": "0644"})]);
    }
}
