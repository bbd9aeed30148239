//! `evenkeel scaffold`.

mod rbac;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use evenkeel_core::contract::{Gvk, Manifest};
use evenkeel_sim::scenario::kinds;
use serde_json::{Value, json};

use self::rbac::RbacArgs;
use super::{Exit, plugin};
use crate::output::{note, say};

/// Print what a cluster needs for a plugin: RBAC, CRDs, settings
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel scaffold crds plugins/kite | kubectl apply --server-side -f -
  evenkeel scaffold rbac kite.wasm --namespace evenkeel-system
  evenkeel scaffold plugin kite.wasm > plugins/kite.yaml")]
pub struct ScaffoldArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The CustomResourceDefinitions that the plugin brings along.
    #[command(after_help = "\
Examples:
  evenkeel scaffold crds plugins/kite | kubectl apply --server-side -f -")]
    Crds(PluginArg),
    /// A ServiceAccount for the plugin, and exactly the rights that the manifest names: to write for that account, to
    /// read for the host's.
    #[command(after_help = "\
Examples:
  evenkeel scaffold rbac kite.wasm | kubectl apply -f -
  evenkeel scaffold rbac kite.wasm --namespace tools --host-account evenkeel --install-crds")]
    Rbac {
        #[command(flatten)]
        plugin: PluginArg,
        #[command(flatten)]
        rbac: RbacArgs,
    },
    /// The settings file that goes beside the component in a plugins folder.
    #[command(after_help = "\
Examples:
  evenkeel scaffold plugin kite.wasm > plugins/kite.yaml")]
    Plugin(PluginArg),
}

#[derive(Debug, clap::Args)]
struct PluginArg {
    /// A component (`*.wasm`) or the folder of a plugin's crate.
    plugin: PathBuf,
    /// The form.
    #[arg(long, short, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// YAML documents.
    Yaml,
    /// A JSON list.
    Json,
}

pub fn run(args: ScaffoldArgs) -> anyhow::Result<Exit> {
    let (plugin, documents): (PluginArg, Vec<Value>) = match args.what {
        What::Crds(plugin) => {
            let manifest = plugin::manifest(&plugin.plugin)?;
            let crds =
                manifest.crds.iter().map(|text| serde_json::from_str(text)).collect::<Result<Vec<_>, _>>()?;
            if crds.is_empty() {
                note!("{} brings no CustomResourceDefinitions along.", manifest.name);
            }
            (plugin, crds)
        }
        What::Rbac { plugin, rbac } => {
            let manifest = plugin::manifest(&plugin.plugin)?;
            let documents = rbac::documents(&manifest, &rbac, &|gvk| plural(&manifest, gvk));
            (plugin, documents)
        }
        What::Plugin(plugin) => {
            let documents = vec![settings(&plugin::manifest(&plugin.plugin)?)];
            (plugin, documents)
        }
    };
    match plugin.output {
        Form::Json => crate::output::json(&documents)?,
        Form::Yaml => {
            for document in &documents {
                say!("---\n{}", serde_saphyr::to_string(document)?.trim_end())?;
            }
        }
    }
    Ok(Exit::Fine)
}

/// The plural: as the plugin's own CRDs have it, else by the rule that all built-in kinds follow.
fn plural(manifest: &Manifest, gvk: &Gvk) -> String {
    let own =
        manifest.crds.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok()).find_map(|crd| {
            let spec = crd.get("spec")?;
            let is = spec.get("group")?.as_str()? == &*gvk.group
                && spec.pointer("/names/kind")?.as_str()? == &*gvk.kind;
            is.then(|| spec.pointer("/names/plural").and_then(Value::as_str).map(str::to_owned))?
        });
    own.unwrap_or_else(|| kinds::plural(&gvk.kind))
}

/// The settings file of a plugin with everything granted that it asks for, for the operator to narrow.
fn settings(manifest: &Manifest) -> Value {
    let permissions: Vec<Value> = manifest
        .permissions
        .iter()
        .map(|permission| {
            let mut value = json!({
                "apiVersion": permission.gvk.api_version(), "kind": &*permission.gvk.kind, "verbs": permission.verbs,
            });
            if !permission.names.is_empty() {
                value["names"] = json!(permission.names);
            }
            value
        })
        .collect();
    json!({"config": {}, "grant": {"permissions": permissions}})
}
