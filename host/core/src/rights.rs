//! The rights of the Kubernetes API that a plugin needs, exactly: what its manifest names, in the words of RBAC.
//!
//! There are two accounts. The host's reads: one watch serves all plugins, so it cannot be a plugin's. The plugin's own
//! writes: each of its writes is sent in its name, so that the API server refuses what the plugin may not do, whatever
//! the host believes.

mod roles;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

pub use self::roles::{Accounts, Only, roles};
use crate::contract::{Gvk, Manifest, Permission, Verb};

/// A rule of a Role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups; "" is the core group.
    pub api_groups: Vec<String>,
    /// Plurals, with a subresource after a slash.
    pub resources: Vec<String>,
    /// The only objects; none for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// What may be done.
    pub verbs: Vec<String>,
}

impl fmt::Display for Rule {
    /// As one line of YAML, for a person to paste.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |words: &[String]| {
            words
                .iter()
                .map(|word| if word.is_empty() { "\"\"" } else { word.as_str() })
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(f, "{{apiGroups: [{}], resources: [{}]", list(&self.api_groups), list(&self.resources))?;
        if !self.resource_names.is_empty() {
            write!(f, ", resourceNames: [{}]", list(&self.resource_names))?;
        }
        write!(f, ", verbs: [{}]}}", list(&self.verbs))
    }
}

/// What both accounts need for one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The host's: to read and watch.
    pub host: Vec<Rule>,
    /// The plugin's: to write.
    pub plugin: Vec<Rule>,
    /// The host's, where it installs the kinds that the plugin brings along.
    pub install: Vec<Rule>,
    /// What RBAC cannot say as narrowly as the manifest does, a sentence each; the host's own check stays as narrow.
    pub wider: Vec<String>,
}

const READS: [&str; 3] = ["get", "list", "watch"];

/// The rights for a manifest. `plural` knows the plural of every kind that it names.
pub fn rights(manifest: &Manifest, plural: &dyn Fn(&Gvk) -> String) -> Rights {
    let (mut host, mut plugin) = (Rules::new(plural), Rules::new(plural));
    let mut wider = BTreeSet::new();
    for controller in &manifest.controllers {
        host.add(&controller.primary, None, &[], &READS);
    }
    for permission in &manifest.permissions {
        let names = plain_names(permission, &mut wider);
        // What is written is watched too: nothing is written that is not looked at before.
        if permission.verbs.iter().any(|verb| *verb != Verb::Publish) {
            host.add(&permission.gvk, None, &names, &READS);
        }
        for verb in &permission.verbs {
            writes(&mut plugin, permission, *verb, &names, &mut wider);
        }
    }
    let mut install = Rules::new(plural);
    let names: Vec<String> = manifest.crds.iter().filter_map(|crd| definition_name(crd)).collect();
    if !names.is_empty() {
        let crd = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        install.add(&crd, None, &names, &["create", "get", "patch"]);
    }
    Rights {
        host: host.finish(),
        plugin: plugin.finish(),
        install: install.finish(),
        wider: wider.into_iter().collect(),
    }
}

/// The rules for one verb of a permission.
fn writes(
    rules: &mut Rules<'_>,
    permission: &Permission,
    verb: Verb,
    names: &[String],
    wider: &mut BTreeSet<String>,
) {
    let gvk = &permission.gvk;
    match verb {
        Verb::Get | Verb::List => {}
        Verb::Create => {
            if !names.is_empty() {
                wider.insert(format!("create {gvk}: a request to create does not tell RBAC the name"));
            }
            rules.add(gvk, None, &[], &["create"]);
        }
        // A server-side apply is a patch that may create; it tells the name both times.
        Verb::Apply => rules.add(gvk, None, names, &["create", "patch"]),
        Verb::ApplyStatus => rules.add(gvk, Some("status"), names, &["patch"]),
        Verb::Patch | Verb::Finalize => rules.add(gvk, None, names, &["patch"]),
        Verb::Delete => rules.add(gvk, None, names, &["delete"]),
        Verb::Publish => rules.add(&Gvk::new("", "v1", "Event"), None, &[], &["create", "patch"]),
    }
}

/// The names of a permission; none where there are globs, which RBAC does not know.
fn plain_names(permission: &Permission, wider: &mut BTreeSet<String>) -> Vec<String> {
    let glob = |name: &&String| name.contains(['*', '?', '[']);
    match permission.names.iter().find(glob) {
        Some(name) => {
            let gvk = &permission.gvk;
            wider.insert(format!("{gvk} {name:?}: RBAC knows no patterns, so the rule is for every {gvk}"));
            Vec::new()
        }
        None => permission.names.clone(),
    }
}

fn definition_name(crd: &str) -> Option<String> {
    let crd: serde_json::Value = serde_json::from_str(crd).ok()?;
    crd.pointer("/metadata/name")?.as_str().map(str::to_owned)
}

/// Rules under way: verbs by resource and names.
struct Rules<'a> {
    plural: &'a dyn Fn(&Gvk) -> String,
    verbs: BTreeMap<(String, String, Vec<String>), BTreeSet<&'static str>>,
}

impl<'a> Rules<'a> {
    fn new(plural: &'a dyn Fn(&Gvk) -> String) -> Self {
        Self { plural, verbs: BTreeMap::new() }
    }

    fn add(&mut self, gvk: &Gvk, subresource: Option<&str>, names: &[String], verbs: &[&'static str]) {
        let plural = (self.plural)(gvk);
        let resource = match subresource {
            Some(subresource) => format!("{plural}/{subresource}"),
            None => plural,
        };
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        self.verbs.entry((gvk.group.to_string(), resource, names)).or_default().extend(verbs);
    }

    /// In order; a rule for some names says nothing that one for all names says already.
    fn finish(self) -> Vec<Rule> {
        let everywhere: BTreeMap<(String, String), BTreeSet<&str>> = self
            .verbs
            .iter()
            .filter(|((_, _, names), _)| names.is_empty())
            .map(|((group, resource, _), verbs)| ((group.clone(), resource.clone()), verbs.clone()))
            .collect();
        let mut rules = Vec::new();
        for ((group, resource, names), mut verbs) in self.verbs {
            if !names.is_empty()
                && let Some(all) = everywhere.get(&(group.clone(), resource.clone()))
            {
                verbs.retain(|verb| !all.contains(verb));
            }
            if !verbs.is_empty() {
                rules.push(Rule {
                    api_groups: vec![group],
                    resources: vec![resource],
                    resource_names: names,
                    verbs: verbs.into_iter().map(str::to_owned).collect(),
                });
            }
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::contract::Controller;

    fn plural(gvk: &Gvk) -> String {
        format!("{}s", gvk.kind.to_lowercase())
    }

    fn check(permissions: Vec<Permission>, want: Expect) {
        let manifest = Manifest {
            name: "demo".into(),
            version: "0.1.0".into(),
            summary: String::new(),
            controllers: vec![Controller {
                name: "widget".into(),
                primary: Gvk::new("demo.dev", "v1", "Widget"),
                labels: String::new(),
                view: Vec::new(),
                resync: None,
            }],
            permissions,
            providers: Vec::new(),
            crds: vec![r#"{"metadata":{"name":"widgets.demo.dev"}}"#.into()],
            config_schema: None,
        };
        let Rights { host, plugin, install, wider } = rights(&manifest, &plural);
        let lines = |who: &str, rules: &[Rule]| {
            rules.iter().map(|rule| format!("{who} {rule}\n")).collect::<String>()
        };
        let wider: String = wider.iter().map(|sentence| format!("wider {sentence}\n")).collect();
        want.assert_eq(
            &(lines("host", &host) + &lines("plugin", &plugin) + &lines("install", &install) + &wider),
        );
    }

    fn permission(kind: &str, names: &[&str], verbs: &[Verb]) -> Permission {
        Permission {
            gvk: Gvk::new("", "v1", kind),
            verbs: verbs.to_vec(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn the_host_reads_and_the_plugin_writes() {
        let want = expect![[r#"
            host {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
            host {apiGroups: [demo.dev], resources: [widgets], verbs: [get, list, watch]}
            plugin {apiGroups: [""], resources: [configmaps], verbs: [create, delete, patch]}
            plugin {apiGroups: [""], resources: [configmaps/status], verbs: [patch]}
            plugin {apiGroups: [""], resources: [events], verbs: [create, patch]}
            install {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [widgets.demo.dev], verbs: [create, get, patch]}
        "#]];
        let verbs = [Verb::Get, Verb::Apply, Verb::ApplyStatus, Verb::Delete, Verb::Finalize, Verb::Publish];
        check(vec![permission("ConfigMap", &[], &verbs)], want);
    }

    #[test]
    fn a_secret_is_named_to_read_it_and_to_apply_it() {
        let want = expect![[r#"
            host {apiGroups: [""], resources: [secrets], resourceNames: [login], verbs: [get, list, watch]}
            host {apiGroups: [demo.dev], resources: [widgets], verbs: [get, list, watch]}
            plugin {apiGroups: [""], resources: [secrets], resourceNames: [login], verbs: [create, patch]}
            install {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [widgets.demo.dev], verbs: [create, get, patch]}
        "#]];
        check(vec![permission("Secret", &["login"], &[Verb::Get, Verb::Apply])], want);
    }

    #[test]
    fn what_rbac_cannot_say_is_said_to_the_operator() {
        let want = expect![[r#"
            host {apiGroups: [""], resources: [pods], resourceNames: [a], verbs: [get, list, watch]}
            host {apiGroups: [""], resources: [services], verbs: [get, list, watch]}
            host {apiGroups: [demo.dev], resources: [widgets], verbs: [get, list, watch]}
            plugin {apiGroups: [""], resources: [pods], verbs: [create]}
            plugin {apiGroups: [""], resources: [services], verbs: [delete]}
            install {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [widgets.demo.dev], verbs: [create, get, patch]}
            wider Service "web-*": RBAC knows no patterns, so the rule is for every Service
            wider create Pod: a request to create does not tell RBAC the name
        "#]];
        let permissions = vec![
            permission("Pod", &["a"], &[Verb::Create]),
            permission("Service", &["web-*"], &[Verb::Delete]),
        ];
        check(permissions, want);
    }

    #[test]
    fn a_rule_for_some_names_does_not_repeat_one_for_all() {
        let want = expect![[r#"
            host {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
            host {apiGroups: [demo.dev], resources: [widgets], verbs: [get, list, watch]}
            plugin {apiGroups: [""], resources: [pods], verbs: [patch]}
            plugin {apiGroups: [""], resources: [pods], resourceNames: [a], verbs: [delete]}
            install {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [widgets.demo.dev], verbs: [create, get, patch]}
        "#]];
        let all = permission("Pod", &[], &[Verb::Patch]);
        let some = permission("Pod", &["a"], &[Verb::Patch, Verb::Delete]);
        check(vec![all, some], want);
    }
}
