//! What `deploy/` and `scaffold rbac` promise, on a real API server with RBAC on.
//!
//! Skipped aloud where no control plane was built: `cargo run -p evenkeel-test-cluster -- build`.

#[path = "../admin/plugin.rs"]
mod plugin;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_admin::leader::Leadership;
use evenkeel_cluster::election::{Election, ElectionOptions};
use evenkeel_core::admit::Write;
use evenkeel_core::contract::{FailureKind, Gvk, ObjectRef, Permission, Verb};
use evenkeel_core::guest::Guest;
use evenkeel_core::lease::Timings;
use evenkeel_core::names::ServiceAccount;
use evenkeel_core::rights::{Accounts, rights, roles};
use evenkeel_engine::plugin::{Held, PluginSettings};
use evenkeel_engine::{Host, HostOptions};
use evenkeel_test_cluster::{ControlPlane, Parts, PlaneOptions, parts_or_skip};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::plugin::{Copier, config_map};

struct World {
    plane: ControlPlane,
    parts: Parts,
    admin: kube::Client,
}

impl World {
    /// A control plane with the base of `deploy/` on it, first tried and then done; none where there is no control plane.
    async fn start(test: &str) -> Option<Self> {
        let parts = parts_or_skip(test)?;
        let options =
            PlaneOptions { controllers: vec![], limit: Duration::from_secs(300), ..PlaneOptions::default() };
        let plane = ControlPlane::start(&parts, &options).await.expect("a control plane");
        let admin = kube::Client::try_from(config(&plane).await).expect("a client");
        let world = Self { plane, parts, admin };
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base");
        let base = base.canonicalize().expect("deploy/base").display().to_string();
        // A dry run makes no namespace for what lives in it.
        world.kubectl(&["apply", "--server-side", "-f", &format!("{base}/namespace.yaml")]);
        world.kubectl(&["apply", "--server-side", "--dry-run=server", "-k", &base]);
        world.kubectl(&["apply", "--server-side", "-k", &base]);
        Some(world)
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = Command::new(self.parts.program("kubectl"))
            .args(args)
            .env("KUBECONFIG", self.plane.kubeconfig("admin"))
            .output()
            .expect("kubectl starts");
        assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let text = self.admin.request_text(request).await?;
        Ok(serde_json::from_str(&text).expect("JSON"))
    }

    async fn apply(&self, object: &Value) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), object.to_string()).expect("a file that can be written");
        self.kubectl(&["apply", "--server-side", "-f", &file.path().display().to_string()]);
    }

    /// A client that is the host's own service account, and nobody else.
    async fn host(&self) -> kube::Client {
        let path = "/api/v1/namespaces/evenkeel-system/serviceaccounts/evenkeel/token";
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = self.send("POST", path, &asked).await.expect("a token");
        let token = token["status"]["token"].as_str().expect("a token").to_owned();
        let mut config = config(&self.plane).await;
        config.auth_info =
            kube::config::AuthInfo { token: Some(token.into()), ..kube::config::AuthInfo::default() };
        kube::Client::try_from(config).expect("a client")
    }

    /// What `scaffold rbac` prints for a plugin.
    async fn grant(&self, guest: &dyn Guest) {
        let manifest = guest.manifest();
        let needed = rights(manifest, &|gvk| format!("{}s", gvk.kind.to_lowercase()));
        let accounts = Accounts {
            plugin: &manifest.name,
            namespace: "evenkeel-system",
            host: "evenkeel",
            installs: false,
            only: None,
        };
        for document in roles(&accounts, &needed) {
            self.apply(&document).await;
        }
    }
}

async fn config(plane: &ControlPlane) -> kube::Config {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig("admin")).expect("a kubeconfig");
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration")
}

fn account() -> PluginSettings {
    let account = ServiceAccount::parse("evenkeel-system/evenkeel-demo").expect("an account");
    PluginSettings { service_account: Some(account), ..PluginSettings::default() }
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_has_the_rights_that_its_manifest_names_and_no_more() {
    let Some(world) = World::start("the test of least privilege").await else { return };
    let client = world.host().await;
    let host = Host::start(HostOptions::new(client)).expect("a host");
    let copier = Copier::new();

    // Before anything is granted the host may not even act in the plugin's name.
    let held = host.load(copier.clone(), account()).await.expect_err("it has no account");
    assert!(matches!(&held, Held::Rights { .. }) && held.to_string().contains("impersonate"), "{held}");

    world.grant(&*copier).await;
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})).await;
    host.load(copier, account()).await.expect("it may do what it asks for");
    world.apply(&config_map("x", "plain")).await;
    let copy = "/api/v1/namespaces/a/configmaps/copy-x";
    until("the copy is there", async || world.send("GET", copy, &Value::Null).await.is_ok()).await;
    let made = world.send("GET", copy, &Value::Null).await.expect("the copy");
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "evenkeel/demo/copy");
    assert!(host.status().ready, "{:#?}", host.status());

    // What its manifest does not name is refused twice: by the host's own check, and by the API server.
    world.apply(&config_map("y", "curious")).await;
    until("it is denied", async || !host.status().plugins[0].denied.is_empty()).await;
    let denied = host.status().plugins[0].denied.join("\n");
    assert!(
        denied
            .contains("the line {apiVersion: v1, kind: Secret, verbs: [apply], names: [copy-y]} is missing"),
        "{denied}"
    );
    let secret = Write::Apply {
        object: ObjectRef::new(Gvk::new("", "v1", "Secret"), Some("a"), "copy-y"),
        body: json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": "copy-y"}})
            .to_string()
            .into(),
        manager: "evenkeel/demo/copy".into(),
        force: false,
        subresource: None,
    };
    for user in [account().service_account.map(|account| account.user()), None] {
        let refused =
            host.cluster().write_as(&secret, user.as_deref()).await.expect_err("nobody may write Secrets");
        assert_eq!((refused.failure.kind, refused.code), (FailureKind::Denied, Some(403)), "{refused}");
    }

    // The host's own account reads for the plugin, and writes nothing but its Lease.
    let mut map = secret;
    if let Write::Apply { object, body, .. } = &mut map {
        *object = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), "own");
        *body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "own"}})
                .to_string()
                .into();
    }
    let refused = host.cluster().write_as(&map, None).await.expect_err("the host's account may not write");
    assert_eq!(refused.code, Some(403), "{refused}");
    host.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_asks_for_more_than_its_account_has_is_held_and_told_which_rules_are_missing() {
    let Some(world) = World::start("the test of plugins that ask for more").await else { return };
    world.grant(&*Copier::new()).await;
    let host = Host::start(HostOptions::new(world.host().await)).expect("a host");
    let more = Permission {
        gvk: Gvk::new("", "v1", "Secret"),
        verbs: vec![Verb::Apply],
        names: vec!["login".into()],
    };
    let greedy = Copier::asking_for(more);
    let held = host.load(greedy, account()).await.expect_err("its account was made for less");
    let rule = "{apiGroups: [\"\"], resources: [secrets], resourceNames: [login], verbs: [create, patch]}";
    assert!(held.to_string().contains(rule), "{held}");
    host.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_does_not_count_a_kind_yet_holds_a_write_up_and_one_that_is_used_up_refuses_it() {
    // No controllers: what is counted is what the test says.
    let Some(world) = World::start("the test of quotas").await else { return };
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})).await;
    let mut quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "a", "name": "q"},
        "spec": {"hard": {"configmaps": "1"}}});
    world.apply(&quota).await;
    let host = Host::start(HostOptions::new(world.admin.clone())).expect("a host");
    let write = async |name: &str| {
        let object = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), name);
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}});
        let write =
            Write::Create { object, body: body.to_string().into(), manager: "evenkeel/demo/copy".into() };
        host.cluster().write_as(&write, None).await.map_err(|refused| refused.failure)
    };

    let status = "/api/v1/namespaces/a/resourcequotas/q/status?fieldManager=test";
    quota["status"] = json!({"hard": {"configmaps": "1"}});
    world.send("PATCH", status, &quota).await.expect("a status");
    // Until the server has heard of the quota itself everything is taken.
    let mut tries = 0;
    until("it is refused", async || {
        tries += 1;
        let Err(refused) = write(&format!("early-{tries}")).await else { return false };
        assert_eq!(refused.kind, FailureKind::Transient, "{}", refused.message);
        true
    })
    .await;

    quota["status"]["used"] = json!({"configmaps": "0"});
    world.send("PATCH", status, &quota).await.expect("a status");
    until("there is room", async || write("one").await.is_ok()).await;

    let refused = write("two").await.expect_err("there is room for one");
    assert_eq!(refused.kind, FailureKind::Denied, "{}", refused.message);
    host.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_under_the_rights_of_the_base_share_a_lease_and_hand_it_over() {
    let Some(world) = World::start("the test of fail-over").await else { return };
    let copier = Copier::new();
    world.grant(&*copier).await;
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})).await;
    let mut hosts = Vec::new();
    for name in ["one", "two"] {
        let client = world.host().await;
        let options = ElectionOptions {
            namespace: "evenkeel-system".into(),
            name: "evenkeel".into(),
            identity: format!("{name}_1"),
            timings: Timings::default(),
            seed: 1,
            clock: Arc::new(jiff::Timestamp::now),
            on_request: None,
        };
        let election = Election::start(client.clone(), options).expect("sound timings");
        let options = HostOptions { fence: Some(election.fence()), ..HostOptions::new(client) };
        let host = Host::start(options).expect("a host");
        host.load(copier.clone(), account()).await.expect("a plugin that loads");
        let leadership = Leadership::follow(host.clone(), election);
        if name == "one" {
            until("one leads", async || host.leads()).await;
        }
        hosts.push((host, leadership));
    }
    let (two, second) = hosts.pop().expect("two hosts");
    let (one, first) = hosts.pop().expect("two hosts");
    until("the other one is ready", async || two.status().ready).await;
    assert!(one.leads() && !two.leads());
    let began = tokio::time::Instant::now();
    assert!(first.shut_down(&one, Duration::from_secs(5)).await);
    until("the other one leads", async || two.leads()).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "handing over took {took:?}");
    eprintln!("handed over in {took:?}");
    world.apply(&config_map("x", "plain")).await;
    let copy = "/api/v1/namespaces/a/configmaps/copy-x";
    until("it acts", async || world.send("GET", copy, &Value::Null).await.is_ok()).await;
    second.shut_down(&two, Duration::from_secs(5)).await;
}
