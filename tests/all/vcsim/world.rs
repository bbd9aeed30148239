//! A cluster, a host on it with a family's plugin, and a vcsim beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel::build::build_plugin;
use evenkeel_admin::metrics::Metrics;
use evenkeel_core::contract::{Gvk, Permission, Verb};
use evenkeel_core::guest::Guest;
use evenkeel_core::record::Trigger;
use evenkeel_engine::plugin::{OperatorGrant, PluginSettings};
use evenkeel_engine::{Host, HostOptions};
use evenkeel_providers::Providers;
use evenkeel_providers::machine::vsphere::VsphereDriver;
use evenkeel_providers::machine::{self, Drivers, MachineProvider};
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::credentials::{Credentials, Login, NoCredentials};
use evenkeel_providers::vsphere::http::Endpoint;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::soap::Soap;
use evenkeel_providers::vsphere::tls::Trust;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use evenkeel_test_vcsim::{Options, Vcsim};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::ground::Ground;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The password that vCenter takes.
pub const PASSWORD: &str = "pass";

/// A password that can be changed, as in a Secret.
#[derive(Clone, Default)]
pub struct Changing(Arc<Mutex<String>>);

impl Changing {
    pub fn set(&self, password: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = password.to_owned();
    }
}

impl Credentials for Changing {
    fn get(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Login, NoCredentials>> + Send + '_>> {
        let password = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(std::future::ready(Ok(Login { user: "user".to_owned(), password })))
    }
}

/// A kind by its plural: group and version, kind, plural.
pub type Kind = (&'static str, &'static str, &'static str);

/// The kinds of the stories.
pub const VSPHERE_MACHINES: Kind =
    ("infrastructure.reconcilers.dev/v1alpha1", "VSphereMachine", "vspheremachines");
pub const CLASSES: Kind = ("machine.sapcloud.io/v1alpha1", "MachineClass", "machineclasses");
pub const MACHINES: Kind = ("machine.sapcloud.io/v1alpha1", "Machine", "machines");
pub const SECRETS: Kind = ("/v1", "Secret", "secrets");
pub const NODES: Kind = ("/v1", "Node", "nodes");

/// A family's plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    VsphereMachine,
    MachineClass,
}

impl Family {
    /// The plugin as a component, built and compiled once for all tests. Whoever waits for that keeps no connection open.
    fn plugin(self) -> Arc<dyn Guest> {
        type Loaded = BTreeMap<Family, Arc<dyn Guest>>;
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        static LOADED: Mutex<Loaded> = Mutex::new(BTreeMap::new());
        let runtime = RUNTIME.get_or_init(|| Runtime::new(RuntimeOptions::default()).expect("a runtime"));
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let guest = loaded.entry(self).or_insert_with(|| {
            let name = match self {
                Self::VsphereMachine => "capv-machine",
                Self::MachineClass => "machine-class",
            };
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(name);
            let built = build_plugin(&folder, false, &mut |step| eprintln!("build: {step}"));
            let wasm = fs::read(&built.expect("the plugin builds").component).expect("a component");
            std::thread::scope(|scope| {
                let load = || {
                    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build();
                    tokio.expect("tokio").block_on(runtime.load(&wasm)).expect("the plugin loads")
                };
                scope.spawn(load).join().expect("it loads") as Arc<dyn Guest>
            })
        });
        Arc::clone(guest)
    }
}

pub struct World {
    pub vcsim: Vcsim,
    pub host: Host,
    pub metrics: Arc<Metrics>,
    pub password: Changing,
    pub namespace: String,
    client: kube::Client,
    family: Family,
}

impl World {
    /// None where there is no vcsim.
    pub async fn start(ground: &Ground, family: Family, test: &str, password: &str) -> Option<World> {
        Self::start_with(ground, family, test, password, json!({})).await
    }

    /// With settings of the plugin.
    pub async fn start_with(
        ground: &Ground,
        family: Family,
        test: &str,
        password: &str,
        config: Value,
    ) -> Option<World> {
        family.plugin();
        let options = Options { login: Some(("user".to_owned(), PASSWORD.to_owned())) };
        let vcsim = Vcsim::start(test, options)?;
        let changing = Changing::default();
        changing.set(password);
        // What another story left behind on the same cluster is not of interest.
        static STORIES: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("story-{}", STORIES.fetch_add(1, Ordering::SeqCst));
        let client = ground.client().await;
        ground.make_namespace(&namespace).await;
        let (host, metrics) = start_host(client.clone(), &vcsim, &changing);
        let world = World { vcsim, host, metrics, password: changing, namespace, client, family };
        world.settings(config).await;
        Some(world)
    }

    /// Loads the plugin with these settings.
    pub async fn settings(&self, config: Value) {
        let grant = match self.family {
            Family::VsphereMachine => {
                OperatorGrant { permissions: None, namespaces: Some(vec![self.namespace.clone()]) }
            }
            // A drain looks for the Pods of a Node in all namespaces, and then Secrets are granted by name.
            Family::MachineClass => {
                let mut permissions = self.family.plugin().manifest().permissions.clone();
                let gvk = Gvk::new("", "v1", "Secret");
                permissions.push(Permission {
                    gvk,
                    verbs: vec![Verb::Get],
                    names: vec!["user-data".to_owned()],
                });
                OperatorGrant { permissions: Some(permissions), namespaces: None }
            }
        };
        let config = config.to_string().into();
        let settings = PluginSettings { config, grant: Some(grant), ..PluginSettings::default() };
        self.host.load(self.family.plugin(), settings).await.expect("the plugin is taken");
    }

    /// Ends the host at once, and starts another that remembers nothing.
    pub async fn restart_host(&mut self) {
        self.host.shutdown(Duration::ZERO).await;
        (self.host, self.metrics) = start_host(self.client.clone(), &self.vcsim, &self.password);
        self.settings(json!({})).await;
    }

    // ---- objects -------------------------------------------------------------------------------------------------

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = resource(kind);
        if kind == NODES {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Makes an object of this name; its metadata may have more than that.
    pub async fn make(&self, kind: Kind, name: &str, mut data: Value) {
        let mut object = DynamicObject::new(name, &resource(kind));
        if let Some(metadata) = data.as_object_mut().and_then(|members| members.remove("metadata")) {
            object.metadata = serde_json::from_value(metadata).expect("metadata");
            object.metadata.name = Some(name.to_owned());
        }
        object.data = data;
        self.api(kind).create(&PostParams::default(), &object).await.expect("it is made");
    }

    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("it takes the patch");
    }

    pub async fn patch_status(&self, kind: Kind, name: &str, patch: Value) {
        let patched = self.api(kind).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("it takes the patch");
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.expect("it is deleted");
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let object = self.api(kind).get_opt(name).await.expect("an answer");
        object.map(|object| serde_json::to_value(object).expect("JSON"))
    }

    /// Waits until an object is as wanted; one that is gone is null.
    pub async fn until(&self, kind: Kind, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let object = self.get(kind, name).await.unwrap_or(Value::Null);
            if wanted(&object) {
                return object;
            }
            assert!(began.elapsed() < PATIENCE, "{name} never {what}: {object:#}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn until_gone(&self, kind: Kind, name: &str) {
        self.until(kind, name, "goes", Value::is_null).await;
    }

    // ---- vCenter -------------------------------------------------------------------------------------------------

    /// Calls that vCenter has taken, of one method.
    pub fn calls(&self, method: &str) -> u64 {
        self.vcsim.calls().expect("calls")[method].as_u64().unwrap_or_default()
    }

    /// Calls that vCenter has taken, those apart that wait for something to happen.
    pub fn all_calls(&self) -> u64 {
        let calls = self.vcsim.calls().expect("calls");
        let counted = calls.as_object().expect("a map").iter();
        counted
            .filter(|(method, _)| *method != "WaitForUpdatesEx")
            .filter_map(|(_, count)| count.as_u64())
            .sum()
    }

    /// Passes in which the plugin was called because a time had come.
    pub fn timed_passes(&self) -> usize {
        let is_timed = |trigger: &Trigger| matches!(trigger, Trigger::Requeue | Trigger::Resync);
        let records = self.host.journal().records();
        records.iter().filter(|record| is_timed(&record.trigger) && !record.calls.is_empty()).count()
    }

    /// When the first pass of a machine began that is not from before. It is noted when it is over, so that is waited for.
    pub async fn first_pass_since(&self, machine: &str, since: Timestamp) -> Timestamp {
        let began = Instant::now();
        loop {
            let records = self.host.journal().records();
            let of = records.iter().filter(|record| &*record.key.name == machine);
            let times = of.map(|record| record.time.parse::<Timestamp>().expect("RFC 3339"));
            if let Some(first) = times.filter(|time| *time >= since).min() {
                return first;
            }
            assert!(began.elapsed() < PATIENCE, "{machine} has no pass");
            sleep(Duration::from_millis(20)).await;
        }
    }

    // ---- what is put out -----------------------------------------------------------------------------------------

    /// Everything that an operator gets to see of the host's work, as one text.
    pub fn outputs(&self) -> String {
        let records = self.host.journal().records();
        let journal: Vec<String> = records
            .iter()
            .map(|record| serde_json::to_string(&**record).expect("a record is JSON"))
            .collect();
        format!("{}\n{}\n{:?}", journal.join("\n"), self.metrics.text(&self.host, None), self.host.status())
    }
}

fn resource((version, kind, plural): Kind) -> ApiResource {
    let (group, version) = version.split_once('/').expect("group and version");
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn start_host(client: kube::Client, vcsim: &Vcsim, password: &Changing) -> (Host, Arc<Metrics>) {
    let tls = Trust::Authorities(vcsim.authority()).config().expect("an authority");
    let far_end = Soap::new(Endpoint { host: "127.0.0.1".to_owned(), port: vcsim.port(), tls });
    let limits = CallLimits { deadline: Duration::from_secs(5), ..CallLimits::default() };
    let vsphere = Vsphere::new().with("vc", Arc::new(far_end), Arc::new(password.clone()), limits);
    let vsphere = Arc::new(vsphere);
    let driver = VsphereDriver::new(Arc::<Vsphere>::clone(&vsphere));
    let machines = MachineProvider::new(Drivers::default().with("vsphere", Arc::new(driver)))
        .with_orphan_wait_min(Duration::from_secs(1));
    let metrics = Metrics::new("test");
    let providers = Providers::default()
        .with("vsphere", vsphere)
        .with(machine::NAME, Arc::new(machines))
        .observed_by(metrics.on_provider_call());
    let options = HostOptions {
        providers,
        install_crds: true,
        observer: Some(metrics.clone()),
        ..HostOptions::new(client)
    };
    (Host::start(options).expect("the host starts"), metrics)
}

/// A condition of a machine: status, reason, message.
pub fn condition(machine: &Value, kind: &str) -> (String, String, String) {
    let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    let text = |member: &str| condition[member].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Waits until all of them are done.
pub async fn together<T>(all: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    futures::future::join_all(all).await
}

/// The rest of an object with this spec.
pub fn spec(spec: Value) -> Value {
    json!({"spec": spec})
}
