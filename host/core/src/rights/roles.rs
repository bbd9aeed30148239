//! The accounts, roles and bindings for one plugin, as an operator applies them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Rights, Rule};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whose accounts they are, and for where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts<'a> {
    /// The plugin's name.
    pub plugin: &'a str,
    /// The namespace of both accounts.
    pub namespace: &'a str,
    /// The host's service account.
    pub host: &'a str,
    /// Whether the host applies the kinds that the plugin brings along.
    pub installs: bool,
    /// The only namespaces of the operator's grant; none for the whole cluster.
    pub only: Option<Only<'a>>,
}

/// A grant of some namespaces: Roles there take the place of ClusterRoles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only<'a> {
    /// Those.
    pub namespaces: &'a [String],
    /// Resources that live in no namespace, as group and plural: only a ClusterRole can give rights to them.
    pub cluster_wide: BTreeSet<(String, String)>,
}

/// The plugin's account, and for both accounts what they may do and no more.
pub fn roles(accounts: &Accounts<'_>, rights: &Rights) -> Vec<Value> {
    let Accounts { plugin, namespace, host: reader, installs, ref only } = *accounts;
    let account = format!("evenkeel-{plugin}");
    let host = format!("{account}-host");
    let mut documents = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace},
        // Nobody logs in with it: the host writes in its name.
        "automountServiceAccountToken": false,
    })];
    for (role, subject, rules) in
        [(&account, account.as_str(), &rights.plugin), (&host, reader, &rights.host)]
    {
        let subject = Subject { account: subject, namespace };
        let (mut wide, narrow): (Vec<Rule>, Vec<Rule>) = rules
            .iter()
            .cloned()
            .partition(|rule| only.as_ref().is_none_or(|only| only.is_cluster_wide(rule)));
        if installs && role == &host {
            wide.extend(rights.install.iter().cloned());
        }
        // A role without a rule would only make somebody wonder.
        if !wide.is_empty() {
            documents.extend(grant(role, None, &rules_of(&wide), &subject));
        }
        for place in only.iter().flat_map(|only| only.namespaces).filter(|_| !narrow.is_empty()) {
            documents.extend(grant(role, Some(place.as_str()), &rules_of(&narrow), &subject));
        }
    }
    let impersonate = json!([{
        "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [account], "verbs": ["impersonate"],
    }]);
    let subject = Subject { account: reader, namespace };
    documents.extend(grant(&format!("{account}-impersonate"), Some(namespace), &impersonate, &subject));
    documents
}

impl Only<'_> {
    fn is_cluster_wide(&self, rule: &Rule) -> bool {
        let plural = |resource: &str| resource.split('/').next().unwrap_or_default().to_owned();
        rule.api_groups.iter().any(|group| {
            rule.resources
                .iter()
                .any(|resource| self.cluster_wide.contains(&(group.clone(), plural(resource))))
        })
    }
}

/// Who is given something.
struct Subject<'a> {
    account: &'a str,
    namespace: &'a str,
}

/// A role and its binding, in a namespace or for the whole cluster.
fn grant(name: &str, place: Option<&str>, rules: &Value, subject: &Subject<'_>) -> [Value; 2] {
    let kind = if place.is_some() { "Role" } else { "ClusterRole" };
    [role(kind, name, place, rules), binding(kind, name, place, subject.account, subject.namespace)]
}

fn rules_of(rules: &[Rule]) -> Value {
    json!(rules)
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}

fn role(kind: &str, name: &str, namespace: Option<&str>, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata(name, namespace), "rules": rules,
    })
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, account: &str, account_namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata(name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": account_namespace}],
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_plugins_account_writes_and_the_hosts_reads_and_impersonates_just_that_one() {
        let rights = Rights {
            host: vec![rule("", "secrets", &["login"], &["get", "list", "watch"])],
            plugin: vec![rule("example.com", "policies/status", &[], &["patch"])],
            install: vec![rule(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                &["policies.example.com"],
                &["patch"],
            )],
            wider: vec![],
        };
        let accounts =
            Accounts { plugin: "demo", namespace: "tools", host: "evenkeel", installs: false, only: None };
        expect![[r#"
            "ServiceAccount" {"name":"evenkeel-demo","namespace":"tools"}
            "ClusterRole" {"name":"evenkeel-demo"}
              {"apiGroups":["example.com"],"resources":["policies/status"],"verbs":["patch"]}
            "ClusterRoleBinding" {"name":"evenkeel-demo"}
              "evenkeel-demo"
            "ClusterRole" {"name":"evenkeel-demo-host"}
              {"apiGroups":[""],"resourceNames":["login"],"resources":["secrets"],"verbs":["get","list","watch"]}
            "ClusterRoleBinding" {"name":"evenkeel-demo-host"}
              "evenkeel"
            "Role" {"name":"evenkeel-demo-impersonate","namespace":"tools"}
              {"apiGroups":[""],"resourceNames":["evenkeel-demo"],"resources":["serviceaccounts"],"verbs":["impersonate"]}
            "RoleBinding" {"name":"evenkeel-demo-impersonate","namespace":"tools"}
              "evenkeel"
        "#]]
        .assert_eq(&told(&roles(&accounts, &rights)));
        let installs = roles(&Accounts { installs: true, ..accounts }, &rights);
        assert_eq!(installs[3]["rules"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_grant_of_some_namespaces_is_roles_there_and_a_cluster_role_only_for_what_lives_in_none() {
        let rights = Rights {
            host: vec![
                rule("", "nodes", &[], &["get", "list", "watch"]),
                rule("", "pods", &[], &["get", "list", "watch"]),
            ],
            plugin: vec![rule("", "pods/status", &[], &["patch"])],
            install: vec![],
            wider: vec![],
        };
        let namespaces = ["a".to_owned(), "b".to_owned()];
        let cluster_wide = BTreeSet::from([(String::new(), "nodes".to_owned())]);
        let only = Some(Only { namespaces: &namespaces, cluster_wide });
        let accounts =
            Accounts { plugin: "demo", namespace: "tools", host: "evenkeel", installs: false, only };
        expect![[r#"
            "ServiceAccount" {"name":"evenkeel-demo","namespace":"tools"}
            "Role" {"name":"evenkeel-demo","namespace":"a"}
              {"apiGroups":[""],"resources":["pods/status"],"verbs":["patch"]}
            "RoleBinding" {"name":"evenkeel-demo","namespace":"a"}
              "evenkeel-demo"
            "Role" {"name":"evenkeel-demo","namespace":"b"}
              {"apiGroups":[""],"resources":["pods/status"],"verbs":["patch"]}
            "RoleBinding" {"name":"evenkeel-demo","namespace":"b"}
              "evenkeel-demo"
            "ClusterRole" {"name":"evenkeel-demo-host"}
              {"apiGroups":[""],"resources":["nodes"],"verbs":["get","list","watch"]}
            "ClusterRoleBinding" {"name":"evenkeel-demo-host"}
              "evenkeel"
            "Role" {"name":"evenkeel-demo-host","namespace":"a"}
              {"apiGroups":[""],"resources":["pods"],"verbs":["get","list","watch"]}
            "RoleBinding" {"name":"evenkeel-demo-host","namespace":"a"}
              "evenkeel"
            "Role" {"name":"evenkeel-demo-host","namespace":"b"}
              {"apiGroups":[""],"resources":["pods"],"verbs":["get","list","watch"]}
            "RoleBinding" {"name":"evenkeel-demo-host","namespace":"b"}
              "evenkeel"
            "Role" {"name":"evenkeel-demo-impersonate","namespace":"tools"}
              {"apiGroups":[""],"resourceNames":["evenkeel-demo"],"resources":["serviceaccounts"],"verbs":["impersonate"]}
            "RoleBinding" {"name":"evenkeel-demo-impersonate","namespace":"tools"}
              "evenkeel"
        "#]]
        .assert_eq(&told(&roles(&accounts, &rights)));
    }

    fn rule(group: &str, resource: &str, names: &[&str], verbs: &[&str]) -> Rule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Rule {
            api_groups: owned(&[group]),
            resources: owned(&[resource]),
            resource_names: owned(names),
            verbs: owned(verbs),
        }
    }

    fn told(documents: &[Value]) -> String {
        documents
            .iter()
            .map(|document| {
                let rules =
                    document["rules"].as_array().into_iter().flatten().map(|rule| format!("  {rule}\n"));
                let subject = document.pointer("/subjects/0/name").map(|name| format!("  {name}\n"));
                let head = format!("{} {}\n", document["kind"], document["metadata"]);
                head + &rules.collect::<String>() + &subject.unwrap_or_default()
            })
            .collect()
    }
}
