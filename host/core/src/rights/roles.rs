//! The accounts, roles and bindings for one plugin, as an operator applies them.

use serde_json::{Value, json};

use super::{Rights, Rule};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Whose accounts they are.
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
}

/// The plugin's account, and for both accounts what they may do and no more.
pub fn roles(accounts: &Accounts<'_>, rights: &Rights) -> Vec<Value> {
    let Accounts { plugin, namespace, host: host_account, installs } = *accounts;
    let account = format!("evenkeel-{plugin}");
    let host = format!("{account}-host");
    let mut reads = rights.host.clone();
    if installs {
        reads.extend(rights.install.iter().cloned());
    }
    let impersonate = json!([{
        "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [account], "verbs": ["impersonate"],
    }]);
    vec![
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace},
            // Nobody logs in with it: the host writes in its name.
            "automountServiceAccountToken": false,
        }),
        role("ClusterRole", &account, None, &rules(&rights.plugin)),
        binding("ClusterRole", &account, None, &account, namespace),
        role("ClusterRole", &host, None, &rules(&reads)),
        binding("ClusterRole", &host, None, host_account, namespace),
        role("Role", &host, Some(namespace), &impersonate),
        binding("Role", &host, Some(namespace), host_account, namespace),
    ]
}

fn rules(rules: &[Rule]) -> Value {
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
        let rule = |group: &str, resource: &str, names: &[&str], verbs: &[&str]| {
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            Rule {
                api_groups: owned(&[group]),
                resources: owned(&[resource]),
                resource_names: owned(names),
                verbs: owned(verbs),
            }
        };
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
        let accounts = Accounts { plugin: "demo", namespace: "tools", host: "evenkeel", installs: false };
        let text: String = roles(&accounts, &rights)
            .iter()
            .map(|document| {
                let rules =
                    document["rules"].as_array().into_iter().flatten().map(|rule| format!("  {rule}\n"));
                let subject = document.pointer("/subjects/0/name").map(|name| format!("  {name}\n"));
                let head = format!("{} {}\n", document["kind"], document["metadata"]);
                head + &rules.collect::<String>() + &subject.unwrap_or_default()
            })
            .collect();
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
            "Role" {"name":"evenkeel-demo-host","namespace":"tools"}
              {"apiGroups":[""],"resourceNames":["evenkeel-demo"],"resources":["serviceaccounts"],"verbs":["impersonate"]}
            "RoleBinding" {"name":"evenkeel-demo-host","namespace":"tools"}
              "evenkeel"
        "#]]
        .assert_eq(&text);
        let installs = roles(&Accounts { installs: true, ..accounts }, &rights);
        assert_eq!(installs[3]["rules"].as_array().map(Vec::len), Some(2));
    }
}
