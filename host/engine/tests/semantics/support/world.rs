//! An embedded Kubernetes with a host on it, on virtual time.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Fence;
use evenkeel_core::contract::{Failure, ObjectRef};
use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::{Clock as _, VirtualClock};
use evenkeel_engine::faults::Faults;
use evenkeel_engine::host::{Host, HostOptions};
use evenkeel_engine::plugin::{Held, LoadOutcome, OperatorGrant, PluginSettings};
use evenkeel_engine::provider::Providers;
use evenkeel_engine::status::{ControllerStatus, PluginState, PluginStatus};
use evenkeel_sandbox::{Cut, Fault, Sandbox, SandboxOptions, WriteRecord};
use futures::FutureExt;
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::held::{HeldService, Hold};
use super::words::crd;

pub struct World {
    pub sandbox: Sandbox,
    clock: VirtualClock,
    host: Option<Host>,
    hold: Hold,
    workers: usize,
    faults: Option<Arc<dyn Faults>>,
    providers: Providers,
    fence: Option<Arc<Fence>>,
    /// Writes up to here were looked at.
    looked: Cell<u64>,
    /// Writes up to here were an earlier host's.
    started: Cell<u64>,
}

impl World {
    /// An API server with the namespaces `a` and `b` and the kind Widget, and a host without a plugin.
    pub async fn new() -> Self {
        Self::with_worker_count(4).await
    }

    pub async fn with(plugin: Arc<dyn Guest>) -> Self {
        Self::with_workers(plugin, 4).await
    }

    pub async fn with_workers(plugin: Arc<dyn Guest>, workers: usize) -> Self {
        let world = Self::with_worker_count(workers).await;
        world.load(plugin).await;
        world
    }

    /// A host whose deeds may fail on purpose.
    pub async fn with_faults(plugin: Arc<dyn Guest>, faults: Arc<dyn Faults>) -> Self {
        let mut world = Self::new().await;
        world.faults = Some(faults);
        world.restart().await;
        world.load(plugin).await;
        world
    }

    /// A host that reaches these providers.
    pub async fn with_providers(plugin: Arc<dyn Guest>, providers: Providers) -> Self {
        let mut world = Self::new().await;
        world.providers = providers;
        world.restart().await;
        world.load(plugin).await;
        world
    }

    /// A host that leads for so many seconds, and may end what it began within two more.
    pub async fn with_providers_for(plugin: Arc<dyn Guest>, providers: Providers, seconds: u64) -> Self {
        let mut world = Self::new().await;
        let clock = world.clock;
        let fence = Fence::new(Arc::new(move || clock.now()));
        let act = Duration::from_secs(seconds);
        fence.open((Instant::now(), clock.now()), act, act + Duration::from_secs(2));
        (world.providers, world.fence) = (providers, Some(fence));
        world.restart().await;
        world.load(plugin).await;
        world.host().lead().await;
        world
    }

    async fn with_worker_count(workers: usize) -> Self {
        let clock = VirtualClock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let sandbox = Sandbox::new(SandboxOptions::new(Arc::new(move || clock.now())));
        for name in ["a", "b"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            sandbox.put(namespace).expect("a namespace");
        }
        sandbox.put(crd("Widget", "widgets")).expect("a definition");
        let mut world = Self {
            sandbox,
            clock,
            host: None,
            hold: Hold::default(),
            workers,
            faults: None,
            providers: Providers::default(),
            fence: None,
            looked: Cell::new(0),
            started: Cell::new(0),
        };
        world.start().await;
        world
    }

    // ---- the host ------------------------------------------------------------------------------------------------

    pub async fn start(&mut self) {
        let service = HeldService { inner: self.sandbox.service(), hold: self.hold.clone() };
        let client = kube::Client::new(service, "default");
        let options = HostOptions {
            clock: Arc::new(self.clock),
            workers: self.workers,
            faults: self.faults.clone(),
            providers: self.providers.clone(),
            install_crds: true,
            seed: 1,
            fence: self.fence.clone(),
            ..HostOptions::new(client)
        };
        self.started.set(self.sandbox.last_write());
        self.host = Some(Host::start(options).expect("a host"));
    }

    pub async fn stop(&mut self) {
        self.shut_down(60).await;
    }

    pub async fn shut_down(&mut self, grace_seconds: u64) -> bool {
        let host = self.host.take().expect("a running host");
        host.shutdown(Duration::from_secs(grace_seconds)).await
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("a running host")
    }

    pub async fn load(&self, plugin: Arc<dyn Guest>) {
        self.host().load(plugin, PluginSettings::default()).await.expect("a plugin that loads");
    }

    pub async fn load_with(&self, plugin: Arc<dyn Guest>, config: Value) -> Result<LoadOutcome, Held> {
        let settings = PluginSettings { config: config.to_string().into(), ..PluginSettings::default() };
        self.host().load(plugin, settings).await
    }

    /// Loads it with the operator allowing by name all that it asks for.
    pub async fn load_allowed(&self, plugin: Arc<dyn Guest>) -> Result<LoadOutcome, Held> {
        let permissions = Some(plugin.manifest().permissions.clone());
        let grant = Some(OperatorGrant { permissions, namespaces: None });
        self.host().load(plugin, PluginSettings { grant, ..PluginSettings::default() }).await
    }

    /// Loads it with the operator allowing just what the widgets' and ConfigMaps' controllers of the tests need.
    pub async fn load_granted(
        &self,
        plugin: Arc<dyn Guest>,
        namespaces: &[&str],
    ) -> Result<LoadOutcome, Held> {
        let permissions = plugin
            .manifest()
            .permissions
            .iter()
            .filter(|permission| &*permission.gvk.kind != "Secret")
            .cloned()
            .collect();
        let namespaces = Some(namespaces.iter().map(|name| (*name).to_owned()).collect());
        let grant = Some(OperatorGrant { permissions: Some(permissions), namespaces });
        self.host().load(plugin, PluginSettings { grant, ..PluginSettings::default() }).await
    }

    // ---- time ----------------------------------------------------------------------------------------------------

    /// Lets the host run until it is idle; hardly any time passes.
    pub async fn settle(&self) {
        for _ in 0..2_000 {
            // Everything that can run does so before the clock moves on.
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.host().idle() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if self.host().idle() {
                    return;
                }
            }
        }
        panic!("it does not settle: {:#?}", self.host().status());
    }

    pub async fn advance(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub async fn advance_ms(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }

    // ---- what a user does ----------------------------------------------------------------------------------------

    /// Server-side apply, forced.
    pub async fn apply(&self, object: Value) {
        let path = path_of(&object);
        let query = "fieldManager=user&force=true";
        self.user(Method::PATCH, &path, query, "application/apply-patch+yaml", object).expect("an apply");
    }

    pub async fn install(&self, definition: Value) {
        self.apply(definition).await;
    }

    pub async fn merge(&self, object: &ObjectRef, merge: Value) {
        let query = "fieldManager=user";
        self.user(Method::PATCH, &path(object), query, "application/merge-patch+json", merge)
            .expect("a patch");
    }

    pub async fn merge_status(&self, object: &ObjectRef, merge: Value) {
        let path = format!("{}/status", path(object));
        self.user(Method::PATCH, &path, "fieldManager=user", "application/merge-patch+json", merge)
            .expect("a patch");
    }

    pub async fn delete(&self, object: &ObjectRef) {
        self.user(Method::DELETE, &path(object), "", "application/json", json!({})).expect("a delete");
    }

    fn user(
        &self,
        method: Method,
        path: &str,
        query: &str,
        content: &str,
        body: Value,
    ) -> Result<Value, Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?{query}"))
            .header("content-type", content)
            .header("accept", "application/json")
            .header("user-agent", "user")
            .body(body.to_string().into())
            .expect("a request");
        let response = self.sandbox.service().answer(request);
        let status = response.status();
        // The answer is at hand: nothing is waited for.
        let body = read(response.into_body()).now_or_never().expect("an answer at hand");
        let body: Value = serde_json::from_slice(&body).expect("a JSON answer");
        if status.is_success() { Ok(body) } else { Err(body) }
    }

    // ---- trouble -------------------------------------------------------------------------------------------------

    pub fn cut_watches(&self) {
        self.sandbox.cut_watches(&Cut::default());
    }

    /// The watches of a kind end, and what they would go on from is no longer kept: they have to list anew.
    pub fn expire_watches(&self, kind: &str) {
        self.sandbox.cut_watches(&Cut { kind: Some(kind.into()), expire: true });
    }

    /// The host hears nothing of a kind's changes until [`World::release_watches`].
    pub fn hold_watches(&self, plural: &str) {
        self.hold.hold(plural);
    }

    /// Each write of the host takes so long on its way.
    pub fn slow_writes(&self, time: Duration) {
        self.hold.slow_writes(time);
    }

    pub fn release_watches(&self) {
        self.hold.release();
    }

    /// The next requests of a verb fail; `target` is an object's name, or for a list the plural of its kind. The verb
    /// `apply-status` is an apply of the status.
    pub fn fail_next(&self, verb: &str, target: &str, code: u16, reason: &str, times: u32) {
        let target = Some(target.to_owned());
        let (kind, name) = if verb == "list" { (target, None) } else { (None, target) };
        let (verb, subresource) = match verb {
            "apply-status" => ("apply", Some("status".to_owned())),
            verb => (verb, None),
        };
        let fault = Fault {
            verb: Some(verb.into()),
            kind,
            name,
            subresource,
            code,
            reason: reason.into(),
            message: "boom".into(),
            times,
            ..Fault::default()
        };
        self.sandbox.fail_next(fault);
    }

    // ---- what came of it -----------------------------------------------------------------------------------------

    /// As the API server has it.
    pub async fn raw(&self, object: &ObjectRef) -> Option<Value> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        self.sandbox.get(&object.gvk.api_version(), &object.gvk.kind, namespace, &object.name)
    }

    pub async fn object(&self, object: &ObjectRef) -> Option<Value> {
        self.raw(object).await
    }

    fn host_writes(&self, after: u64) -> Vec<WriteRecord> {
        let host = |record: &WriteRecord| record.user_agent != "user" && record.code < 300;
        self.sandbox.writes(after).into_iter().filter(host).collect()
    }

    /// What the host wrote since this was last asked.
    pub fn writes(&self) -> Vec<String> {
        let writes = self.host_writes(self.looked.get());
        self.looked.set(self.sandbox.last_write());
        writes.iter().map(line).collect()
    }

    /// What this host wrote.
    pub fn writes_of_this_run(&self) -> Vec<String> {
        self.host_writes(self.started.get()).iter().map(line).collect()
    }

    /// The UID that the last delete of the host asked for.
    pub fn last_delete_precondition(&self) -> Value {
        let writes = self.host_writes(0);
        let body = &writes.iter().rfind(|record| record.verb == "delete").expect("a delete").body;
        let body: Value = serde_json::from_str(body).expect("a JSON body");
        body["preconditions"]["uid"].clone()
    }

    pub fn last_patch_had_resource_version(&self) -> bool {
        let writes = self.host_writes(0);
        let body = &writes.iter().rfind(|record| record.verb == "patch").expect("a patch").body;
        let body: Value = serde_json::from_str(body).expect("a JSON body");
        body["metadata"]["resourceVersion"].is_string()
    }

    pub fn plugin(&self, name: &str) -> PluginStatus {
        let plugins = self.host().status().plugins;
        plugins.into_iter().find(|plugin| plugin.name == name).expect("a plugin of that name")
    }

    pub fn controller(&self, name: &str) -> ControllerStatus {
        let plugins = self.host().status().plugins;
        let mut controllers = plugins.into_iter().flat_map(|plugin| plugin.controllers);
        controllers.find(|controller| controller.name == name).expect("a controller of that name")
    }

    pub fn is_active(&self, plugin: &str) -> bool {
        self.plugin(plugin).state == PluginState::Active
    }

    pub fn held(&self, plugin: &str) -> Option<String> {
        match self.plugin(plugin).state {
            PluginState::Active => None,
            PluginState::Held { reason } => Some(reason),
        }
    }

    /// How the last pass of a Widget failed, if it did.
    pub fn last_failure(&self, controller: &str, name: &str) -> Option<Failure> {
        let key = self.host().key("demo", controller, &super::widget_ref(name))?;
        key.failure.map(|failed| failed.failure)
    }

    /// What is watched, a watch a line.
    pub fn watches(&self) -> Vec<String> {
        let watches = self.host().status().watches;
        let watches = watches.iter().filter(|watch| &*watch.gvk.kind != "CustomResourceDefinition");
        watches.map(|watch| format!("{} in {}", watch.gvk, watch.scope)).collect()
    }

    /// Objects of a kind in the host's cache.
    pub fn cached(&self, kind: &str) -> usize {
        let stats = self.host().cluster().stats();
        stats.kinds.iter().filter(|one| &*one.gvk.kind == kind).map(|one| one.objects).sum()
    }

    /// The journal, a pass a line.
    pub fn journal_text(&self) -> Vec<String> {
        let line = |record: &evenkeel_engine::PassRecord| {
            format!(
                "{} {} {} {} {:?}",
                record.time, record.controller, record.key, record.trigger, record.end
            )
        };
        self.host().journal().records().iter().map(|record| line(record)).collect()
    }

    pub fn journal_json(&self) -> String {
        serde_json::to_string(&self.host().journal().records()).expect("records are serializable")
    }
}

async fn read(body: evenkeel_sandbox::ApiBody) -> Vec<u8> {
    use http_body_util::BodyExt;
    body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default()
}

fn line(record: &WriteRecord) -> String {
    let verb = match (record.verb.as_str(), record.subresource.as_str()) {
        ("apply", "status") => "apply-status",
        (verb, _) => verb,
    };
    let place = if record.namespace.is_empty() { String::new() } else { format!("{}/", record.namespace) };
    format!("{verb} {} {place}{}", record.kind, record.name)
}

fn path_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gvk =
        evenkeel_core::contract::Gvk::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]));
    let metadata = &object["metadata"];
    path(&ObjectRef::new(gvk, metadata["namespace"].as_str(), &text(&metadata["name"])))
}

fn path(object: &ObjectRef) -> String {
    let group =
        if object.gvk.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", object.gvk.group) };
    let namespace = object.namespace.as_ref().map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    let plural = format!("{}s", object.gvk.kind.to_lowercase());
    format!("{group}/{}{namespace}/{plural}/{}", object.gvk.version, object.name)
}
