//! Accounts, roles and Secrets, as the API server judges them.

use std::path::Path;

use serde_json::{Value, json};

use crate::host::{HostOptions, HostProcess};
use crate::kite;
use crate::world::{World, evenkeel, kite_component, root, until};

/// Stands in Secrets, and may stand nowhere else.
const MARK: &str = "0ZebraFrog7";
const HASH: &str =
    "$6$0ZebraFrog7$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Whether an account may do something, by the API server's word.
fn may(world: &World, account: &str, question: &[&str]) -> bool {
    let user = format!("--as=system:serviceaccount:evenkeel-system:{account}");
    let mut command = std::process::Command::new(world.parts.program("kubectl"));
    command
        .args(["auth", "can-i"])
        .args(question)
        .arg(user)
        .env("KUBECONFIG", world.plane.kubeconfig("admin"));
    let output = command.output().expect("kubectl starts");
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().lines().last() {
        Some("yes") => true,
        Some("no") => false,
        _ => panic!("{question:?}: {said} {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn neither_account_may_do_more_than_the_manifest_says() {
    let Some(world) = World::start("what accounts may do").await else { return };
    let everywhere = "--all-namespaces";
    let cases: [(&str, &[&str], bool); 16] = [
        ("evenkeel", &["*", "*", everywhere], false),
        ("evenkeel", &["list", "kiteusers.anacnu.com"], true),
        ("evenkeel", &["patch", "kiteusers.anacnu.com"], false),
        ("evenkeel", &["create", "namespaces"], false),
        ("evenkeel", &["create", "pods", everywhere], false),
        ("evenkeel", &["create", "clusterrolebindings.rbac.authorization.k8s.io"], false),
        ("evenkeel", &["escalate", "clusterroles.rbac.authorization.k8s.io"], false),
        ("evenkeel", &["impersonate", "users"], false),
        ("evenkeel", &["impersonate", "serviceaccounts/evenkeel-kite", "-n", "evenkeel-system"], true),
        ("evenkeel", &["impersonate", "serviceaccounts/default", "-n", "kube-system"], false),
        ("evenkeel", &["patch", "leases.coordination.k8s.io/evenkeel", "-n", "evenkeel-system"], true),
        ("evenkeel", &["patch", "leases.coordination.k8s.io/other", "-n", "evenkeel-system"], false),
        ("evenkeel-kite", &["create", "namespaces"], true),
        ("evenkeel-kite", &["create", "pods", everywhere], false),
        ("evenkeel-kite", &["patch", "networkpolicies.networking.k8s.io/other", "-n", "a"], false),
        ("evenkeel-kite", &["list", "kiteusers.anacnu.com"], false),
    ];
    for (account, question, want) in cases {
        assert_eq!(may(&world, account, question), want, "{account} {question:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_plugin_whose_account_lacks_a_right_is_held_until_it_has_it() {
    let Some(world) = World::start("a plugin that asks for more").await else { return };
    kite::configure(&world).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/evenkeel-kite";
    let whole = world.get(role).await;
    let mut narrow = whole.clone();
    let rules = narrow["rules"].as_array_mut().expect("rules");
    rules.retain(|rule| !rule["resources"].to_string().contains("resourcequotas"));
    for member in ["resourceVersion", "uid", "managedFields", "creationTimestamp"] {
        narrow["metadata"].as_object_mut().expect("metadata").remove(member);
    }
    world.must("PUT", role, &narrow).await;

    let host = world.host("host", HostOptions::default());
    let rule = "resources: [resourcequotas], resourceNames: [kite-user-quota-policy], verbs: [create, delete, patch]";
    until("it is held, and told why", async || match host.page("/readyz").await {
        Some((503, text)) if text.contains(rule) => Ok(()),
        Some((_, text)) => Err(text),
        None => Err(host.log()),
    })
    .await;
    kite::create(&world, "ann").await;
    assert_eq!(world.get(&kite::path("ann")).await["status"], Value::Null, "nothing runs");

    let mut whole = whole;
    whole["metadata"] = narrow["metadata"].clone();
    world.must("PUT", role, &whole).await;
    // The file is looked at again when it is touched, as after an edit.
    let settings = world.plugins().join("kite.yaml");
    std::fs::write(&settings, "serviceAccount: evenkeel-system/evenkeel-kite # again\n").expect("settings");
    kite::all_ready(&world, 1).await;
    host.ready().await;
}

/// The kinds of KubeVirt and CDI, a machine, and the Secret that it logs in by.
async fn machine(world: &World) {
    for project in ["kubevirt", "cdi"] {
        let file = root().join(format!("host/sandbox/src/standins/{project}.crds.yaml"));
        world.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()], "");
    }
    let samples = root().join("deploy/samples/kite");
    world
        .kubectl(&["apply", "--server-side", "-f", &samples.join("platform.yaml").display().to_string()], "");
    world.kubectl(&["apply", "--server-side", "-f", &samples.join("user.yaml").display().to_string()], "");
}

/// A policy that refuses to have a machine's cloud-init Secret written, and quotes it when it does.
async fn telltale(world: &World) {
    let api = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "telltale"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"],
            }]},
            "matchConditions": [{"name": "ours", "expression": "object.metadata.name.endsWith('cloud-init-userdata')"}],
            "validations": [{
                "expression": "false",
                "messageExpression": format!("'refused, it says {MARK} and ' + string(object.data.userdata)"),
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "telltale"}, "spec": {"policyName": "telltale", "validationActions": ["Deny"]},
    });
    world.must("POST", &format!("{api}/validatingadmissionpolicies"), &policy).await;
    world.must("POST", &format!("{api}/validatingadmissionpolicybindings"), &binding).await;
    // A policy takes a moment until it counts.
    let probe = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x-cloud-init-userdata"}});
    until("the policy refuses", async || {
        match world.send("POST", "/api/v1/namespaces/default/secrets?dryRun=All", &probe).await {
            Ok(answer) if answer.status.as_u16() == 422 => Ok(()),
            other => Err(format!("{:?}", other.map(|answer| answer.status))),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn what_is_in_a_secret_stands_in_no_log_journal_metric_event_status_or_page() {
    let Some(world) = World::start("where Secrets must not be").await else { return };
    machine(&world).await;
    let host = world.host("host", HostOptions { talkative: true, ..HostOptions::default() });
    kite::all_ready(&world, 1).await;
    // The API server itself quotes the Secret, in the message of its refusal.
    telltale(&world).await;
    let login = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-guest-login"}, "stringData": {"passwordHash": HASH},
    });
    world.must("POST", "/api/v1/namespaces/tenant-ann/secrets", &login).await;
    let machine = json!({
        "apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine", "metadata": {"name": "web"},
        "spec": {"cpu": 1, "memory": "1Gi", "disk": "25Gi", "image": "ubuntu-22.04", "powerState": "On",
            "domainPrefix": "web-ann", "sshId": "ann"},
    });
    let machines = "/apis/anacnu.com/v1/namespaces/tenant-ann/kitevirtualmachines";
    world.must("POST", machines, &machine).await;
    let path = format!("{machines}/web");
    let conditions = async || world.get(&path).await["status"]["conditions"].to_string();
    until("the refusal is told", async || {
        let found = conditions().await;
        if found.contains("cloud-init") { Ok(()) } else { Err(found) }
    })
    .await;
    search(&world, &host, "while the API server refuses").await;

    world
        .must(
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/telltale",
            &Value::Null,
        )
        .await;
    let cloud_init = "/api/v1/namespaces/tenant-ann/secrets/web-cloud-init-userdata";
    until("the Secret is written", async || match world.get(cloud_init).await {
        Value::Null => Err(conditions().await),
        _ => Ok(()),
    })
    .await;
    search(&world, &host, "once it is written").await;
}

/// Looks for the mark in everything that is not a Secret.
async fn search(world: &World, host: &HostProcess, when: &str) {
    for (place, text) in outputs(world, host).await {
        assert!(!text.is_empty(), "{place} was looked into, {when}");
        let at = [MARK, HASH].iter().find_map(|secret| text.find(secret)).or_else(|| {
            // As the API server writes it: the value by itself.
            text.find(&base64(HASH.as_bytes()))
        });
        if let Some(at) = at {
            let from = at.saturating_sub(200);
            panic!("a Secret stands in {place}, {when}: {}", text.get(from..at).unwrap_or_default());
        }
    }
}

async fn outputs(world: &World, host: &HostProcess) -> Vec<(String, String)> {
    let mut found = vec![("the log".to_owned(), host.log())];
    for page in [
        "/metrics",
        "/readyz",
        "/livez",
        "/explain?kind=KiteVirtualMachine&name=web&last=1000",
        "/explain?kind=Secret&name=web-cloud-init-userdata&last=1000",
    ] {
        found.push((page.to_owned(), host.page(page).await.expect("a page").1));
    }
    found.extend(files(&host.data().join("journal")));
    for list in [
        "/api/v1/events",
        "/apis/anacnu.com/v1/kitevirtualmachines",
        "/apis/anacnu.com/v1/kiteusers",
        "/api/v1/configmaps",
        "/apis/kubevirt.io/v1/virtualmachines",
    ] {
        let answer = world.must("GET", list, &Value::Null).await;
        found.push((list.to_owned(), answer.to_string()));
    }
    found
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).expect("a journal");
    entries
        .filter_map(|entry| {
            let path = entry.expect("a readable entry").path();
            let text = String::from_utf8_lossy(&std::fs::read(&path).ok()?).into_owned();
            (!text.is_empty()).then(|| (path.display().to_string(), text))
        })
        .collect()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_grant_of_some_namespaces_takes_roles_in_them_and_none_elsewhere() {
    let Some(world) = World::start("a grant of some namespaces").await else { return };
    kite::configure(&world).await;
    // Whoever gives roles in a namespace makes it; Kite takes it for one of its own by its labels.
    let labels = json!({"name": "tenant-ann", "kite.anacnu.com/managed-by": "kite-controller"});
    let tenant = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-ann", "labels": labels}});
    world.must("POST", "/api/v1/namespaces", &tenant).await;
    for kind in ["clusterrole", "clusterrolebinding"] {
        world.kubectl(&["delete", kind, "evenkeel-kite", "evenkeel-kite-host"], "");
    }
    let component = kite_component().display().to_string();
    let roles = evenkeel(&["scaffold", "rbac", &component, "--grant-namespace", "kite,tenant-ann"]);
    world.kubectl(&["apply", "--server-side", "-f", "-"], &roles);
    let (policy, machines) =
        ("networkpolicies.networking.k8s.io/tenant-isolation-egress", "kitevirtualmachines.anacnu.com");
    let cases: [(&str, &[&str], bool); 6] = [
        ("evenkeel", &["list", machines, "-n", "tenant-ann"], true),
        ("evenkeel", &["list", machines, "-n", "default"], false),
        ("evenkeel", &["list", machines, "--all-namespaces"], false),
        ("evenkeel", &["list", "kiteusers.anacnu.com"], true),
        ("evenkeel-kite", &["patch", policy, "-n", "tenant-ann"], true),
        ("evenkeel-kite", &["patch", policy, "-n", "default"], false),
    ];
    for (account, question, want) in cases {
        assert_eq!(may(&world, account, question), want, "{account} {question:?}");
    }
}
