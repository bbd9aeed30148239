//! `evenkeel plugin remove`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use evenkeel_core::contract::{Gvk, Manifest, Verb};
use evenkeel_core::names::field_manager;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta};
use kube::core::GroupVersionKind;

use super::{Exit, kubeconfig, plugin};
use crate::output::{note, say};

/// Objects of one answer of the API server.
const PAGE: u32 = 500;
/// Held objects that are named; the rest is counted.
const NAMED_MAX: usize = 20;

/// Take a plugin away, unless objects wait for it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel plugin remove plugins/kite.wasm")]
pub struct PluginArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Take a plugin out of its folder, unless objects bear finalizers that it alone takes off
    ///
    /// Such an object stays when it is deleted, and so does its namespace, until the plugin is back. Delete what the plugin
    /// looks after first, and wait until it is gone. A host that follows the folder lets go of the plugin by itself.
    #[command(after_help = "\
Examples:
  evenkeel plugin remove plugins/kite.wasm
  evenkeel plugin remove plugins/kite.wasm --dry-run
  evenkeel plugin remove plugins/kite.wasm --force

Exit codes: 0 removed; 1 objects are held, nothing was removed; 2 could not do it.")]
    Remove(RemoveArgs),
}

#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// The component in the plugins folder.
    component: PathBuf,
    /// Only look, and remove nothing.
    #[arg(long)]
    dry_run: bool,
    /// Remove it although objects are held.
    #[arg(long, conflicts_with = "dry_run")]
    force: bool,
    /// The kubeconfig; `KUBECONFIG`, `~/.kube/config` or the cluster around where absent.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
}

pub fn run(args: PluginArgs) -> anyhow::Result<Exit> {
    let What::Remove(args) = args.what;
    if !args.component.is_file() {
        bail!("there is no component {}", args.component.display());
    }
    let manifest = plugin::manifest(&args.component)?;
    let held = plugin::block_on(async {
        let config = kubeconfig::config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        held(&kube::Client::try_from(config)?, &manifest).await
    })?;
    if !held.is_empty() {
        note!("{}", told(&manifest.name, &held).trim_end());
        if !args.force {
            note!("Nothing was removed: delete these objects first, and wait until they are gone.");
            return Ok(Exit::Found);
        }
    }
    if args.dry_run {
        say!("No object bears a finalizer of {}: it may go.", manifest.name)?;
        return Ok(Exit::Fine);
    }
    fs::remove_file(&args.component)
        .with_context(|| format!("cannot remove {}", args.component.display()))?;
    say!("Removed {}; a host that follows its folder lets go of it by itself.", args.component.display())?;
    Ok(Exit::Fine)
}

/// An object that bears finalizers of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    kind: String,
    namespace: Option<String>,
    name: String,
    finalizers: Vec<String>,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        write!(f, "{} {place}{}: {}", self.kind, self.name, self.finalizers.join(", "))
    }
}

fn told(plugin: &str, held: &[Held]) -> String {
    let count =
        if held.len() == 1 { "1 object bears".to_owned() } else { format!("{} objects bear", held.len()) };
    let mut text = format!("{count} finalizers that {plugin} alone takes off:\n");
    for one in held.iter().take(NAMED_MAX) {
        text += &format!("  {one}\n");
    }
    match held.len().saturating_sub(NAMED_MAX) {
        0 => {}
        more => text += &format!("  and {more} more\n"),
    }
    text
}

/// The objects that bear a finalizer which the plugin has put on some object, whoever put it on this one.
///
/// # Errors
/// If the API server does not tell.
async fn held(client: &kube::Client, manifest: &Manifest) -> anyhow::Result<Vec<Held>> {
    let managers: BTreeSet<String> = manifest
        .controllers
        .iter()
        .map(|controller| field_manager(&manifest.name, &controller.name))
        .collect();
    let kinds: BTreeSet<&Gvk> = manifest
        .permissions
        .iter()
        .filter(|permission| permission.verbs.contains(&Verb::Finalize))
        .map(|permission| &permission.gvk)
        .collect();
    let mut bearing: BTreeMap<&str, Vec<ObjectMeta>> = BTreeMap::new();
    let mut ours = BTreeSet::new();
    for gvk in kinds {
        for metadata in listed(client, gvk).await? {
            ours.extend(placed_by(&metadata, &managers));
            bearing.entry(&gvk.kind).or_default().push(metadata);
        }
    }
    let mut held = Vec::new();
    for (kind, objects) in bearing {
        for metadata in objects {
            let finalizers = metadata.finalizers.unwrap_or_default();
            let finalizers: Vec<String> = finalizers.into_iter().filter(|name| ours.contains(name)).collect();
            if !finalizers.is_empty() {
                let (namespace, name) = (metadata.namespace, metadata.name.unwrap_or_default());
                held.push(Held { kind: kind.to_owned(), namespace, name, finalizers });
            }
        }
    }
    Ok(held)
}

/// The metadata of all objects of a kind that bear finalizers; none where the kind is not served.
async fn listed(client: &kube::Client, gvk: &Gvk) -> anyhow::Result<Vec<ObjectMeta>> {
    let known = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
    let resource = match kube::discovery::pinned_kind(client, &known).await {
        Ok((resource, _)) => resource,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(kube::Error::Discovery(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot ask for {gvk}")),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let (mut found, mut next) = (Vec::new(), None::<String>);
    loop {
        let mut page = ListParams::default().limit(PAGE);
        page.continue_token = next.take();
        let list = api.list_metadata(&page).await.with_context(|| format!("cannot list {gvk}"))?;
        let with = list.items.into_iter().map(|object| object.metadata);
        found.extend(with.filter(|metadata| metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty())));
        next = list.metadata.continue_.filter(|token| !token.is_empty());
        if next.is_none() {
            return Ok(found);
        }
    }
}

/// The finalizers of an object that these field managers have put on it.
fn placed_by(metadata: &ObjectMeta, managers: &BTreeSet<String>) -> Vec<String> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default().iter();
    let own = entries.filter(|entry| entry.manager.as_ref().is_some_and(|name| managers.contains(name)));
    let owned = own.filter_map(|entry| {
        entry.fields_v1.as_ref()?.0.pointer("/f:metadata/f:finalizers")?.as_object().cloned()
    });
    let names =
        owned.flatten().filter_map(|(key, _)| serde_json::from_str::<String>(key.strip_prefix("v:")?).ok());
    let there = metadata.finalizers.as_deref().unwrap_or_default();
    names.filter(|name| there.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::contract::{Controller, Permission};
    use evenkeel_sandbox::{Sandbox, SandboxOptions};
    use expect_test::expect;
    use kube::api::{Patch, PatchParams};
    use serde_json::{Value, json};

    use super::*;

    fn manifest() -> Manifest {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let absent = Gvk::new("example.com", "v1", "Absent");
        let permit =
            |gvk: &Gvk, verb: Verb| Permission { gvk: gvk.clone(), verbs: vec![verb], names: vec![] };
        Manifest {
            name: "keeper".to_owned(),
            version: "0.1.0".to_owned(),
            summary: String::new(),
            controllers: vec![Controller {
                name: "main".to_owned(),
                primary: gvk.clone(),
                labels: String::new(),
                view: vec![],
                resync: None,
            }],
            permissions: vec![permit(&gvk, Verb::Finalize), permit(&absent, Verb::Finalize)],
            providers: vec![],
            crds: vec![],
            config_schema: None,
        }
    }

    /// Has these finalizers put on ConfigMaps `name` by `manager`, and tells what is held.
    async fn told_of(placed: &[(&str, &str, &str)]) -> String {
        let sandbox = Sandbox::new(SandboxOptions::default());
        let client = kube::Client::new(sandbox.service(), "default");
        let kind = kube::core::ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let maps: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
        for (name, finalizer, manager) in placed {
            let map: Value = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "finalizers": [finalizer]}});
            let applied = maps.patch(name, &PatchParams::apply(manager), &Patch::Apply(&map)).await;
            applied.expect("it is applied");
        }
        told("keeper", &held(&client, &manifest()).await.expect("it is told"))
    }

    #[tokio::test]
    async fn what_bears_a_finalizer_of_the_plugin_is_held_whoever_put_it_there() {
        let placed = [
            ("a", "example.com/keep", "evenkeel/keeper/main"),
            ("b", "example.com/keep", "somebody"),
            ("c", "example.com/other", "somebody"),
            ("d", "example.com/theirs", "evenkeel/other/main"),
        ];
        expect![[r#"
            2 objects bear finalizers that keeper alone takes off:
              ConfigMap default/a: example.com/keep
              ConfigMap default/b: example.com/keep
        "#]]
        .assert_eq(&told_of(&placed).await);
    }

    #[tokio::test]
    async fn a_plugin_that_holds_nothing_may_go() {
        let placed = [("c", "example.com/other", "somebody")];
        expect![[r#"
            0 objects bear finalizers that keeper alone takes off:
        "#]]
        .assert_eq(&told_of(&placed).await);
    }
}
