//! A machine's bootstrap token on a real API server, which takes it for what it is.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{Gvk, Permission, Verb};
use evenkeel_core::guest::Guest;
use evenkeel_engine::plugin::{OperatorGrant, PluginSettings};
use evenkeel_engine::{Host, HostOptions};
use evenkeel_providers::Providers;
use evenkeel_providers::machine::simulated::{Cloud, Config};
use evenkeel_providers::machine::{self, Drivers, MachineProvider};
use evenkeel_test_cluster::{ControlPlane, PlaneOptions, parts_or_skip};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::scenarios::component;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// An API server to which machines may join by a token, and a host that makes some.
struct Ground {
    _plane: ControlPlane,
    config: kube::Config,
    client: kube::Client,
}

impl Ground {
    async fn start(parts: &evenkeel_test_cluster::Parts) -> Self {
        let apiserver = vec!["--enable-bootstrap-token-auth=true".to_owned()];
        let options = PlaneOptions { apiserver, controllers: vec![], ..PlaneOptions::default() };
        let plane = ControlPlane::start(parts, &options).await.expect("a control plane");
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig("admin")).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a cluster");
        let client = kube::Client::try_from(config.clone()).expect("a client");
        Self { _plane: plane, config, client }
    }

    async fn host(&self, guest: Arc<dyn Guest>) -> Host {
        let drivers = Drivers::default().with("sim", Arc::new(Cloud::new(Config::default())));
        let providers = Providers::default().with(machine::NAME, Arc::new(MachineProvider::new(drivers)));
        let options = HostOptions { providers, install_crds: true, ..HostOptions::new(self.client.clone()) };
        let host = Host::start(options).expect("the host starts");
        let mut permissions = guest.manifest().permissions.clone();
        let (gvk, names) = (Gvk::new("", "v1", "Secret"), vec!["user-data".to_owned()]);
        permissions.push(Permission { gvk, verbs: vec![Verb::Get], names });
        let grant = OperatorGrant { permissions: Some(permissions), namespaces: None };
        let settings = PluginSettings { grant: Some(grant), ..PluginSettings::default() };
        host.load(guest, settings).await.expect("the plugin is taken");
        host
    }

    async fn make(&self, api_version: &str, kind: &str, name: &str, fields: Value) {
        let api = self.api(api_version, kind);
        let mut object = fields;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name});
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("it is made");
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "Node" {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        }
    }

    /// The bootstrap tokens that there are, whole.
    async fn tokens(&self) -> Vec<String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "kube-system");
        let of_type = ListParams::default().fields("type=bootstrap.kubernetes.io/token");
        let listed = secrets.list(&of_type).await.expect("a list");
        let half = |secret: &Secret, key: &str| {
            let data = secret.data.as_ref().and_then(|data| data.get(key));
            String::from_utf8(data.expect("both halves").0.clone()).expect("text")
        };
        listed
            .iter()
            .map(|secret| format!("{}.{}", half(secret, "token-id"), half(secret, "token-secret")))
            .collect()
    }

    /// Who the API server takes the bearer of a token for, or the code with which it lets nobody in.
    async fn who_is(&self, token: &str) -> Result<(String, Vec<String>), u16> {
        let mut config = self.config.clone();
        config.auth_info = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
        let client = kube::Client::try_from(config).expect("a client");
        let reviews: Api<SelfSubjectReview> = Api::all(client);
        match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(review) => {
                let user = review.status.and_then(|status| status.user_info).expect("a user");
                Ok((user.username.unwrap_or_default(), user.groups.unwrap_or_default()))
            }
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(other) => panic!("no answer: {other}"),
        }
    }

    async fn phase(&self) -> String {
        let machine =
            self.api("machine.sapcloud.io/v1alpha1", "Machine").get("m1").await.expect("it is there");
        machine.data["status"]["currentStatus"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    async fn until_phase(&self, wanted: &str) {
        let since = Instant::now();
        while self.phase().await != wanted {
            assert!(since.elapsed() < PATIENCE, "the machine is {:?}, not {wanted}", self.phase().await);
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn a_machine_joins_with_its_token_and_nobody_does_afterwards() {
    let Some(parts) = parts_or_skip("joining with a bootstrap token") else { return };
    let guest = component("machine-class");
    let runtime = tokio::runtime::Runtime::new().expect("tokio");
    runtime.block_on(async {
        let ground = Ground::start(&parts).await;
        let host = ground.host(guest).await;
        let group = "machine.sapcloud.io/v1alpha1";
        let user_data = json!({"stringData": {"userData": "kubeadm join --token <<BOOTSTRAP_TOKEN>>"}});
        ground.make("v1", "Secret", "user-data", user_data).await;
        let class = json!({"provider": "sim", "providerSpec": {}, "secretRef": {"name": "user-data"}});
        ground.make(group, "MachineClass", "a", class).await;
        let machine = json!({"spec": {"class": {"kind": "MachineClass", "name": "a"}}});
        ground.make(group, "Machine", "m1", machine).await;
        ground.until_phase("Pending").await;

        let tokens = ground.tokens().await;
        let [token] = &tokens[..] else { panic!("one token, not {}", tokens.len()) };
        let (user, groups) = ground.who_is(token).await.expect("it lets the machine in");
        assert_eq!(user, format!("system:bootstrap:{}", &token[..6]));
        assert_eq!(groups, ["system:bootstrappers", "system:authenticated"]);

        ground.make("v1", "Node", "m1", json!({})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let nodes = ground.api("v1", "Node");
        let patched = nodes.patch_status("m1", &PatchParams::default(), &Patch::Merge(&ready)).await;
        patched.expect("the Node is ready");
        ground.until_phase("Running").await;
        assert!(ground.tokens().await.is_empty());
        // For ten seconds an API server believes what it has seen.
        let since = Instant::now();
        while let Ok((user, _)) = ground.who_is(token).await {
            assert!(since.elapsed() < PATIENCE, "{user} is let in still");
            sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(ground.who_is(token).await, Err(401));
        host.shutdown(Duration::ZERO).await;
    });
}
