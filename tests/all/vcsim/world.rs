//! A cluster in this process, a host on it with the machines' plugin, and a vcsim beside it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use evenkeel::build::build_plugin;
use evenkeel_core::guest::Guest;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_providers::Providers;
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::credentials::{Credentials, Login, NoCredentials};
use evenkeel_providers::vsphere::http::Endpoint;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::soap::Soap;
use evenkeel_providers::vsphere::tls::Trust;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use evenkeel_test_vcsim::{Options, Vcsim};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

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

pub struct World {
    pub vcsim: Vcsim,
    pub sandbox: Sandbox,
    pub host: Host,
    pub password: Changing,
    machines: Api<DynamicObject>,
    kind: ApiResource,
}

/// The plugin as a component, built and compiled once for all tests.
fn plugin() -> Arc<dyn Guest> {
    static PLUGIN: OnceLock<(Runtime, Arc<dyn Guest>)> = OnceLock::new();
    let (_, guest) = PLUGIN.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/capv-machine");
        let built =
            build_plugin(&folder, false, &mut |step| eprintln!("build: {step}")).expect("the plugin builds");
        let wasm = fs::read(&built.component).expect("a component");
        std::thread::spawn(move || {
            let runtime = Runtime::new(RuntimeOptions::default()).expect("a runtime");
            let blocking = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("tokio");
            let plugin = blocking.block_on(runtime.load(&wasm)).expect("the plugin loads");
            (runtime, plugin as Arc<dyn Guest>)
        })
        .join()
        .expect("it loads")
    });
    Arc::clone(guest)
}

impl World {
    /// None where there is no vcsim.
    pub async fn start(test: &str, password: &str) -> Option<World> {
        let options = Options { login: Some(("user".to_owned(), PASSWORD.to_owned())) };
        let vcsim = Vcsim::start(test, options)?;
        let changing = Changing::default();
        changing.set(password);
        let sandbox = Sandbox::new(SandboxOptions::default());
        let guest = plugin();
        for crd in &guest.manifest().crds {
            sandbox.put(serde_json::from_str(crd).expect("JSON")).expect("a CRD");
        }
        let host = host(&sandbox, &vcsim, &changing);
        host.load(guest, PluginSettings::default()).await.expect("the plugin is taken");
        let kind = GroupVersionKind::gvk("infrastructure.reconcilers.dev", "v1alpha1", "VSphereMachine");
        let kind = ApiResource::from_gvk_with_plural(&kind, "vspheremachines");
        let client = kube::Client::new(sandbox.service(), "default");
        let machines = Api::namespaced_with(client, "default", &kind);
        Some(World { vcsim, sandbox, host, password: changing, machines, kind })
    }

    /// Ends the host at once, and starts another that remembers nothing.
    pub async fn restart_host(&mut self) {
        self.host.shutdown(Duration::ZERO).await;
        self.host = host(&self.sandbox, &self.vcsim, &self.password);
        self.host.load(plugin(), PluginSettings::default()).await.expect("the plugin is taken");
    }

    pub async fn create(&self, name: &str) {
        let mut machine = DynamicObject::new(name, &self.kind);
        machine.data = json!({"spec": {
            "server": "vc", "datacenter": "/DC0", "template": self.vcsim.template(), "cloneMode": "fullClone",
            "datastore": "/DC0/datastore/LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources",
            "numCPUs": 2, "memoryMiB": 2048,
            "network": {"devices": [{"networkName": "/DC0/network/DC0_DVPG0", "dhcp4": true}]},
        }});
        self.machines.create(&PostParams::default(), &machine).await.expect("a machine");
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        self.machines
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("it takes the patch");
    }

    pub async fn delete(&self, name: &str) {
        self.machines.delete(name, &DeleteParams::default()).await.expect("it is deleted");
    }

    pub async fn get(&self, name: &str) -> Option<Value> {
        let machine = self.machines.get_opt(name).await.expect("an answer");
        machine.map(|machine| serde_json::to_value(machine).expect("JSON"))
    }

    /// Waits until a machine is as wanted; an object that is gone is null.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let machine = self.get(name).await.unwrap_or(Value::Null);
            if wanted(&machine) {
                return machine;
            }
            assert!(began.elapsed() < PATIENCE, "{name} never {what}: {machine:#}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until its VM runs, has its guest report an address, and waits until it is ready.
    pub async fn ready(&self, name: &str, address: &str) -> Value {
        let on = self
            .until(name, "has a VM that runs", |machine| machine["status"]["powerState"] == "poweredOn")
            .await;
        let vm = on["status"]["machineRef"].as_str().expect("a VM").to_owned();
        self.vcsim.control(&format!("guest-ip?vm={vm}&card=0&ip={address}")).expect("an address");
        self.until(name, "is ready", |machine| machine["status"]["ready"] == true).await
    }
}

fn host(sandbox: &Sandbox, vcsim: &Vcsim, password: &Changing) -> Host {
    let tls = Trust::Authorities(vcsim.authority()).config().expect("an authority");
    let far_end = Soap::new(Endpoint { host: "127.0.0.1".to_owned(), port: vcsim.port(), tls });
    let limits = CallLimits { deadline: Duration::from_secs(5), ..CallLimits::default() };
    let vsphere = Vsphere::new().with("vc", Arc::new(far_end), Arc::new(password.clone()), limits);
    let client = kube::Client::new(sandbox.service(), "default");
    let providers = Providers::default().with("vsphere", Arc::new(vsphere));
    Host::start(HostOptions { providers, ..HostOptions::new(client) }).expect("the host starts")
}

/// A condition of a machine: status, reason, message.
pub fn condition(machine: &Value, kind: &str) -> (String, String, String) {
    let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    let text = |member: &str| condition[member].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}
