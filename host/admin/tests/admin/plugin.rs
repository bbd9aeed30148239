//! A plugin that is a native function, and the API server that it works on.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{
    Action, Apply, Conclusion, Controller, Failure, FailureKind, Gvk, Manifest, Permission, Reply, Request,
    Step, Verb,
};
use evenkeel_core::guest::{CallError, CallStats, Guest, GuestFuture, GuestReply};
use evenkeel_engine::Host;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// For each ConfigMap with the label `demo`, one named `copy-…`; what its `data.mode` says may go wrong.
pub struct Copier {
    manifest: Manifest,
    /// Every call takes one place and gives it back; with none, calls wait.
    pub gate: Arc<Semaphore>,
}

pub fn config_maps() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

impl Copier {
    pub fn new() -> Arc<Self> {
        Self::named("demo")
    }

    /// One that asks for more than the others.
    #[allow(dead_code)] // Each of the two test programs uses its part of this.
    pub fn asking_for(permission: Permission) -> Arc<Self> {
        let mut manifest = Self::new().manifest.clone();
        manifest.permissions.push(permission);
        Arc::new(Self { manifest, gate: Arc::new(Semaphore::new(1)) })
    }

    pub fn named(name: &str) -> Arc<Self> {
        let verbs = vec![Verb::Get, Verb::List, Verb::Apply];
        let controller = Controller {
            name: "copy".into(),
            primary: config_maps(),
            labels: "demo=yes".into(),
            view: vec![],
            resync: None,
        };
        let manifest = Manifest {
            name: name.into(),
            version: "1.0.0".into(),
            summary: "A plugin for a test.".into(),
            controllers: vec![controller],
            permissions: vec![
                Permission { gvk: config_maps(), verbs, names: vec![] },
                Permission {
                    gvk: Gvk::new("", "v1", "Pod"),
                    verbs: vec![Verb::Get, Verb::List],
                    names: vec![],
                },
            ],
            providers: vec![],
            crds: vec![],
            config_schema: None,
        };
        Arc::new(Self { manifest, gate: Arc::new(Semaphore::new(1)) })
    }
}

impl Guest for Copier {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        "sha256:1"
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            let _place = self.gate.acquire().await;
            let outcome = reply(request)?;
            let stats = CallStats { elapsed: Duration::from_micros(300), memory: 1 << 20 };
            Ok(GuestReply { outcome, stats })
        })
    }
}

fn reply(request: &Request) -> Result<Result<Reply, Failure>, CallError> {
    let Some(primary) = &request.primary else { return Ok(Ok(finish(vec![], None))) };
    let primary: Value = serde_json::from_str(primary).expect("the host hands out valid JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&primary["metadata"]["namespace"]), text(&primary["metadata"]["name"]));
    let metadata = json!({"namespace": namespace, "name": format!("copy-{name}")});
    let copy =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": primary["data"]});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": 1}});
    let apply = |object: &Value| {
        Action::Apply(Apply { object: object.to_string().into(), force: false, controlled: false })
    };
    Ok(match primary["data"]["mode"].as_str().unwrap_or_default() {
        "trap" => return Err(CallError::Trap { reason: "unreachable executed".into(), frames: vec![] }),
        "slow" => return Err(CallError::Deadline { limit: Duration::from_secs(2) }),
        "greedy" => return Err(CallError::Memory { limit: 1 << 26 }),
        "garbled" => return Err(CallError::InvalidReply { reason: "no UTF-8".into() }),
        "failing" => Err(Failure::new(FailureKind::Transient, "later")),
        "curious" => Ok(finish(vec![apply(&secret)], None)),
        "wrong" => Ok(finish(vec![apply(&wrong)], None)),
        "later" => Ok(finish(vec![apply(&copy)], Some(60_000))),
        _ => Ok(finish(vec![apply(&copy)], None)),
    })
}

fn finish(actions: Vec<Action>, requeue_after: Option<u64>) -> Reply {
    let conclusion = Conclusion { actions, prune: vec![], requeue_after };
    Reply { step: Step::Finish(conclusion), log: vec![] }
}

/// An API server with the namespace `a`; its clock shows what it is told.
#[allow(dead_code)]
pub fn sandbox(clock: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Sandbox {
    let sandbox = Sandbox::new(SandboxOptions::new(Arc::new(clock)));
    sandbox
        .put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}))
        .expect("a namespace");
    sandbox
}

/// A ConfigMap that the plugin looks after.
pub fn config_map(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "a", "name": name, "labels": {"demo": "yes"}}, "data": {"mode": mode},
    })
}

/// Lets the host run until it is idle; hardly any time passes.
#[allow(dead_code)]
pub async fn settle(host: &Host) {
    for _ in 0..2_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if host.idle() {
            return;
        }
    }
    panic!("it does not settle: {:#?}", host.status());
}
