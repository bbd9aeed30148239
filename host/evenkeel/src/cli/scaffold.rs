//! `evenkeel scaffold`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use evenkeel_core::contract::{Gvk, Manifest, Verb};
use serde_json::{Value, json};

use super::{Exit, plugin};

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
    Crds(PluginArg),
    /// A ServiceAccount and exactly the rights that the manifest names.
    Rbac {
        #[command(flatten)]
        plugin: PluginArg,
        /// Namespace of the ServiceAccount.
        #[arg(long, short, default_value = "evenkeel-system")]
        namespace: String,
    },
    /// The settings file that goes beside the component in a plugins folder.
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
                manifest.crds.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
            (plugin, crds)
        }
        What::Rbac { plugin, namespace } => {
            let documents = rbac(&plugin::manifest(&plugin.plugin)?, &namespace);
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
                println!("---\n{}", serde_saphyr::to_string(document)?.trim_end());
            }
        }
    }
    Ok(Exit::Fine)
}

/// Verbs of the API server that a verb of the contract needs. `get` and `list` need `watch`: answers come from watches.
fn api_verbs(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Get => &["get", "list", "watch"],
        Verb::List => &["get", "list", "watch"],
        Verb::Create => &["create"],
        // Server-side apply is a PATCH that may create.
        Verb::Apply => &["create", "get", "patch"],
        Verb::ApplyStatus | Verb::Publish => &[],
        Verb::Patch | Verb::Finalize => &["get", "patch"],
        Verb::Delete => &["delete", "get"],
    }
}

/// The ServiceAccount, ClusterRole and binding of a plugin, with nothing that its manifest does not name.
fn rbac(manifest: &Manifest, namespace: &str) -> Vec<Value> {
    let mut rules: BTreeMap<(Gvk, bool, Vec<String>), BTreeSet<&str>> = BTreeMap::new();
    let mut events = false;
    let primaries = manifest.controllers.iter().map(|controller| &controller.primary);
    for primary in primaries {
        rules.entry((primary.clone(), false, Vec::new())).or_default().extend(api_verbs(Verb::List));
    }
    for permission in &manifest.permissions {
        // RBAC knows names, not globs; and the name of an object to create is not known to it.
        let plain = permission.names.iter().all(|name| !name.contains(['*', '?', '[']));
        let names = if plain { permission.names.clone() } else { Vec::new() };
        for verb in &permission.verbs {
            events |= *verb == Verb::Publish;
            let key = (permission.gvk.clone(), *verb == Verb::ApplyStatus, names.clone());
            match verb {
                Verb::ApplyStatus => rules.entry(key).or_default().extend(["get", "patch"]),
                Verb::Create | Verb::Apply if !names.is_empty() => {
                    let anywhere = (permission.gvk.clone(), false, Vec::new());
                    rules.entry(anywhere).or_default().insert("create");
                    rules.entry(key).or_default().extend(["get", "patch"]);
                }
                verb => rules.entry(key).or_default().extend(api_verbs(*verb)),
            }
        }
    }
    let mut rules: Vec<Value> = rules
        .into_iter()
        .filter(|(_, verbs)| !verbs.is_empty())
        .map(|((gvk, status, names), verbs)| {
            let plural = plural(manifest, &gvk);
            let resource = if status { format!("{plural}/status") } else { plural };
            let mut rule = json!({"apiGroups": [&*gvk.group], "resources": [resource], "verbs": verbs});
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        })
        .collect();
    if events {
        rules.push(json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}));
    }
    let name = format!("evenkeel-{}", manifest.name);
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
    ]
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
    own.unwrap_or_else(|| {
        let kind = gvk.kind.to_lowercase();
        match kind.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
            _ if kind.ends_with("endpoints") => kind,
            _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
            _ => format!("{kind}s"),
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::contract::{Controller, Permission};
    use expect_test::expect;

    fn manifest() -> Manifest {
        let gvk = Gvk::new("example.com", "v1", "Policy");
        Manifest {
            name: "demo".into(),
            version: "0.1.0".into(),
            summary: String::new(),
            controllers: vec![Controller {
                name: "policy".into(),
                primary: gvk.clone(),
                labels: String::new(),
                view: Vec::new(),
                resync: None,
            }],
            permissions: vec![
                Permission {
                    gvk,
                    verbs: vec![Verb::List, Verb::ApplyStatus, Verb::Publish],
                    names: Vec::new(),
                },
                Permission {
                    gvk: Gvk::new("", "v1", "Secret"),
                    verbs: vec![Verb::Get, Verb::Apply],
                    names: vec!["login".into()],
                },
            ],
            providers: Vec::new(),
            crds: Vec::new(),
            config_schema: None,
        }
    }

    #[test]
    fn a_role_holds_what_the_manifest_names_and_no_more() {
        let documents = rbac(&manifest(), "evenkeel-system");
        expect![[r#"
            {"apiGroups":[""],"resources":["secrets"],"verbs":["create"]}
            {"apiGroups":[""],"resourceNames":["login"],"resources":["secrets"],"verbs":["get","list","patch","watch"]}
            {"apiGroups":["example.com"],"resources":["policies"],"verbs":["get","list","watch"]}
            {"apiGroups":["example.com"],"resources":["policies/status"],"verbs":["get","patch"]}
            {"apiGroups":[""],"resources":["events"],"verbs":["create","patch"]}
        "#]]
        .assert_eq(
            &documents[1]["rules"].as_array().into_iter().flatten().map(|rule| format!("{rule}\n")).collect::<String>(),
        );
    }

    #[test]
    fn plurals_follow_the_api_servers_rule() {
        for (kind, expected) in [
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("ConfigMap", "configmaps"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(plural(&manifest(), &Gvk::new("x", "v1", kind)), expected);
        }
    }
}
