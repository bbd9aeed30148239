//! A plugin that copies each ConfigMap with the label `copy` under the name `<name>-copy`, and says so in an Event. Under
//! `data.fail` stands a failure that it reports instead; under `data.log` what it logs.

use evenkeel_core::contract::{
    Action, Apply, Conclusion, Controller, Event, EventType, Failure, FailureKind, Gvk, LogLevel, LogLine,
    Manifest, Permission, Reply, Request, Step, Verb,
};
use evenkeel_core::guest::{CallStats, Guest, GuestFuture, GuestReply};
use serde_json::{Value, json};

pub struct Copier(Manifest);

impl Default for Copier {
    fn default() -> Self {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let controller = |name: &str, labels: &str| Controller {
            name: name.into(),
            primary: gvk.clone(),
            labels: labels.into(),
            view: vec![],
            resync: None,
        };
        Self(Manifest {
            name: "copier".into(),
            version: "1.0.0".into(),
            summary: "Copies.".into(),
            controllers: vec![controller("copy", "copy"), controller("watch", "watch")],
            permissions: vec![Permission {
                gvk: gvk.clone(),
                verbs: vec![Verb::Get, Verb::List, Verb::Apply, Verb::Publish],
                names: vec![],
            }],
            providers: vec![],
            crds: vec![],
            config_schema: None,
        })
    }
}

impl Guest for Copier {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn digest(&self) -> &str {
        "sha256:copier"
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        let outcome = reply(request);
        Box::pin(async move { Ok(GuestReply { outcome, stats: CallStats::default() }) })
    }
}

fn reply(request: &Request) -> Result<Reply, Failure> {
    let original: Value = request
        .primary
        .as_ref()
        .map_or(Value::Null, |primary| serde_json::from_str(primary).expect("the host hands out valid JSON"));
    let text = |pointer: &str| original.pointer(pointer).and_then(Value::as_str);
    if let Some(message) = text("/data/fail") {
        return Err(Failure { kind: FailureKind::Invalid, message: message.into(), retry_after: None });
    }
    let mut actions = Vec::new();
    if let (Some(name), "copy") = (text("/metadata/name"), request.controller.as_str()) {
        let copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": original["data"],
            "metadata": {"name": format!("{name}-copy"), "namespace": original["metadata"]["namespace"]},
        });
        actions.push(Action::Apply(Apply {
            object: copy.to_string().into(),
            force: false,
            controlled: false,
        }));
        actions.push(Action::Publish(Event {
            about: request.key.clone(),
            severity: EventType::Normal,
            reason: "Copied".into(),
            message: format!("there is a copy of {name}"),
        }));
    }
    let line = |message: &str| LogLine { level: LogLevel::Info, message: message.into() };
    let log = text("/data/log").map(line).into_iter().collect();
    let conclusion =
        Conclusion { actions, prune: vec![], requeue_after: text("/data/requeue").map(|_| 30_000) };
    Ok(Reply { step: Step::Finish(conclusion), log })
}
