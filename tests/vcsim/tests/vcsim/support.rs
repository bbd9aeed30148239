//! A provider on a vcsim, and somebody who asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef, Operation};
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::credentials::Login;
use evenkeel_providers::vsphere::http::Endpoint;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::soap::Soap;
use evenkeel_providers::vsphere::tls::Trust;
use evenkeel_providers::vsphere::vcenter::Vcenter;
use evenkeel_providers::vsphere::vi_json::ViJson;
use evenkeel_providers::{Caller, Provider};
use evenkeel_test_vcsim::{Options, Vcsim};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub vcsim: Vcsim,
    pub vsphere: Arc<Vsphere>,
    pub caller: Caller,
    keys: AtomicU32,
    /// How often each question was told to be answered otherwise.
    told: watch::Receiver<BTreeMap<ExternalQuery, u64>>,
}

pub fn caller(name: &str) -> Caller {
    let gvk = Gvk::new("infrastructure.reconcilers.dev", "v1alpha1", "VSphereMachine");
    let object = ObjectRef::new(gvk, Some("ns"), name);
    Caller { plugin: "capv-machine".into(), object, uid: Some(format!("uid-{name}")) }
}

pub fn login() -> Login {
    Login { user: "user".into(), password: "pass".into() }
}

/// What a vCenter is spoken to in.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Soap,
    ViJson,
}

pub fn soap(vcsim: &Vcsim, trust: &Trust) -> Soap {
    Soap::new(endpoint(vcsim, trust))
}

fn endpoint(vcsim: &Vcsim, trust: &Trust) -> Endpoint {
    let tls = trust.config().expect("somebody to trust");
    Endpoint { host: "127.0.0.1".into(), port: vcsim.port(), tls }
}

impl World {
    /// None where there is no vcsim.
    pub fn start(test: &str) -> Option<World> {
        Self::start_with(test, login(), CallLimits::default())
    }

    pub fn start_with(test: &str, login: Login, limits: CallLimits) -> Option<World> {
        Self::speaking(Protocol::Soap, test, login, limits)
    }

    pub fn speaking(protocol: Protocol, test: &str, login: Login, limits: CallLimits) -> Option<World> {
        let options = Options { login: Some(("user".into(), "pass".into())) };
        let vcsim = Vcsim::start(test, options)?;
        let endpoint = endpoint(&vcsim, &Trust::Authorities(vcsim.authority()));
        let far_end: Arc<dyn Vcenter> = match protocol {
            Protocol::Soap => Arc::new(Soap::new(endpoint)),
            Protocol::ViJson => Arc::new(ViJson::new(endpoint)),
        };
        let vsphere = Arc::new(Vsphere::new().with("vc", far_end, Arc::new(login), limits));
        let told = count(Arc::clone(&vsphere));
        Some(World { vcsim, vsphere, caller: caller("m-0"), keys: AtomicU32::default(), told })
    }

    /// How often a question was told to be answered otherwise.
    pub fn told(&self, query: &ExternalQuery) -> u64 {
        self.told.borrow().get(query).copied().unwrap_or_default()
    }

    /// Returns once that is more than before.
    pub async fn told_again(&self, query: &ExternalQuery, before: u64) {
        let mut told = self.told.clone();
        let again = told.wait_for(|told| told.get(query).is_some_and(|count| *count > before));
        let Ok(again) = tokio::time::timeout(PATIENCE, again).await else {
            let stands = self.ask_query(&self.caller, query.clone()).await;
            self.vsphere.doubt(query);
            let read = self.ask_query(&self.caller, query.clone()).await;
            panic!("nothing was told of {query:?}\n  it stands as {stands}\n  read anew     {read}");
        };
        again.expect("it goes on telling");
    }

    pub async fn ask_as(&self, caller: &Caller, question: &str, arguments: Value) -> Value {
        self.ask_query(caller, query(question, arguments)).await
    }

    pub async fn ask_query(&self, caller: &Caller, query: ExternalQuery) -> Value {
        let answer = self.vsphere.answer(caller, &query).await.expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    pub async fn ask(&self, question: &str, arguments: Value) -> Value {
        self.ask_as(&self.caller, question, arguments).await
    }

    pub async fn perform_as(
        &self,
        caller: &Caller,
        key: &str,
        operation: &str,
        mut arguments: Value,
    ) -> Value {
        arguments["server"] = json!("vc");
        let operation = Operation {
            key: key.into(),
            provider: "vsphere".into(),
            operation: operation.into(),
            arguments: arguments.to_string().into(),
        };
        let answer = self.vsphere.perform(caller, &operation).await.expect("an outcome").expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    pub async fn perform(&self, operation: &str, arguments: Value) -> Value {
        let key = format!("key-{}", self.keys.fetch_add(1, Ordering::SeqCst));
        self.perform_as(&self.caller, &key, operation, arguments).await
    }

    /// Has an operation done, and waits until the provider tells that its task has ended.
    pub async fn finish_as(&self, caller: &Caller, operation: &str, arguments: Value) -> Value {
        let key = format!("key-{}", self.keys.fetch_add(1, Ordering::SeqCst));
        let outcome = self.perform_as(caller, &key, operation, arguments).await;
        let Some(task) = outcome["task"].as_str().map(str::to_owned) else { return outcome };
        self.ended(caller, &task).await
    }

    pub async fn finish(&self, operation: &str, arguments: Value) -> Value {
        self.finish_as(&self.caller, operation, arguments).await
    }

    /// The task once it has ended: looked at again whenever the provider tells of it, and never else.
    pub async fn ended(&self, caller: &Caller, task: &str) -> Value {
        let query = query("task", json!({"task": task}));
        loop {
            let before = self.told(&query);
            let answer = self.ask_query(caller, query.clone()).await;
            assert_eq!(answer["result"], "hit", "{answer}");
            if !matches!(answer["task"]["state"].as_str(), Some("queued" | "running")) {
                return answer["task"].clone();
            }
            assert_eq!(answer["watched"], true);
            self.told_again(&query, before).await;
        }
    }

    pub fn clone_arguments(&self, name: &str) -> Value {
        json!({
            "name": name, "datacenter": "/DC0", "template": self.vcsim.template(), "cloneMode": "fullClone",
            "datastore": "LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources",
            "instanceUuid": uuid(name), "owner": format!("ns/{name}/uid-{name}"), "numCpus": 2, "memoryMib": 2048,
            "nics": [{"network": "VM Network"}, {"network": "DC0_DVPG0", "mac": "00:50:56:00:00:aa"}],
            "sensitive": {"extraConfig": {"guestinfo.userdata": "c2VjcmV0"}},
        })
    }
}

pub fn query(question: &str, mut arguments: Value) -> ExternalQuery {
    arguments["server"] = json!("vc");
    let arguments = arguments.to_string().into();
    ExternalQuery { provider: "vsphere".into(), question: question.into(), arguments }
}

/// Counts what is told, for as many as want to know.
fn count(vsphere: Arc<Vsphere>) -> watch::Receiver<BTreeMap<ExternalQuery, u64>> {
    let (counts, told) = watch::channel(BTreeMap::new());
    tokio::spawn(async move {
        let changes = vsphere.changes().expect("it tells of changes");
        while !counts.is_closed() {
            changes.some().await;
            changes.hand_out(|told| {
                counts.send_modify(|counts| {
                    told.iter().for_each(|query| *counts.entry(query.clone()).or_default() += 1);
                });
            });
        }
    });
    told
}

/// A UUID of a name's own.
pub fn uuid(name: &str) -> String {
    let number = name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(131).wrapping_add(byte.into()));
    format!("0f1b2c3d-1111-4222-8333-{:012x}", number & 0xffff_ffff_ffff)
}

pub fn owner(name: &str) -> Value {
    json!({"uid": format!("uid-{name}"), "instanceUuid": uuid(name)})
}
