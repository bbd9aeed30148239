//! A machine, what vCenter says of it, and what a pass does then, as text.

use evenkeel_sdk::check::{Check, Checked};
use evenkeel_sdk::{Action, EventType};
use expect_test::Expect;
use serde_json::{Value, json};

use crate::CapvMachine;
use crate::api::Network;
use crate::metadata::{encoded, render};

/// The time of every pass.
pub const NOW: &str = "2026-01-01T12:00:00Z";
/// Five seconds earlier.
pub const JUST_NOW: &str = "2026-01-01T11:59:55Z";
/// Twenty minutes earlier.
pub const LONG_AGO: &str = "2026-01-01T11:40:00Z";

pub const ABSENT: &str = "{result: absent}";
pub const UNREACHABLE: &str = "{result: unknown, reason: Unreachable, message: vCenter vc does not answer}";

/// A pass under way: the machine `ns/m-0` with these fields besides its usual ones.
pub struct World(Check);

pub fn machine(status: &str) -> World {
    with("", "", status)
}

pub fn deleted(status: &str) -> World {
    with("deletionTimestamp: '2026-01-01T11:00:00Z'", "", status)
}

pub fn with(metadata: &str, spec: &str, status: &str) -> World {
    let object = json!({
        "apiVersion": "infrastructure.reconcilers.dev/v1alpha1",
        "kind": "VSphereMachine",
        "metadata": over(json!({
            "namespace": "ns", "name": "m-0", "uid": "u-1", "generation": 1,
            "finalizers": ["vspheremachine.infrastructure.reconcilers.dev"],
        }), metadata),
        "spec": over(json!({
            "server": "vc", "template": "/DC0/vm/tpl", "datacenter": "/DC0",
            "network": {"devices": [{"networkName": "net", "dhcp4": true}]},
        }), spec),
        "status": over(json!({}), status),
    });
    World(Check::of::<CapvMachine>("vspheremachine").key("ns/m-0").at(NOW).object(object))
}

fn over(mut base: Value, fields: &str) -> Value {
    let fields: Value = serde_saphyr::from_str(&format!("{{{fields}}}")).unwrap();
    for (key, value) in fields.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

/// A VM of ours with one card, switched off, whose metadata is as the machine's one device has it.
pub fn vm(fields: &str) -> Value {
    let network: Network = serde_saphyr::from_str("devices: [{networkName: net, dhcp4: true}]").unwrap();
    let vm = json!({
        "vm": "vm-7", "name": "m-0", "instanceUuid": "u-1", "biosUuid": "b-1", "power": "off", "accessible": true,
        "owner": "ns/m-0/u-1", "host": "esx-1",
        "nics": [{"mac": "00:50:56:aa:bb:01", "network": "net", "connected": true, "ips": []}],
        "extraConfig": encoded(&render("m-0", &network, &["00:50:56:aa:bb:01"])),
    });
    over(vm, fields)
}

/// The same, running, with this address.
pub fn running(ip: &str) -> Value {
    let nic = format!("nics: [{{mac: '00:50:56:aa:bb:01', network: net, connected: true, ips: ['{ip}']}}]");
    over(vm(&nic), "power: 'on'")
}

/// The metadata of other devices, for a VM whose cards have these addresses.
pub fn metadata(network: &str, macs: &[&str]) -> String {
    let network: Network = serde_saphyr::from_str(network).unwrap();
    json!(encoded(&render("m-0", &network, macs))).to_string()
}

impl World {
    /// The task `task-1`.
    pub fn task(self, fields: &str) -> Self {
        self.answer("task", "{task: task-1}", &format!("{{result: hit, task: {{task: task-1, {fields}}}}}"))
    }

    /// The VM `vm-7`, by its id.
    pub fn by_reference(self, vm: &Value) -> Self {
        let answer = json!({"result": "hit", "vm": vm}).to_string();
        self.answer("vm", "{vm: vm-7}", &answer)
    }

    /// The VM of the machine's instance UUID.
    pub fn by_uuid(self, vm: &Value) -> Self {
        let answer = json!({"result": "hit", "vm": vm}).to_string();
        self.answer("vm-by-uuid", "{kind: instance}", &answer)
    }

    /// Nothing is to be found by any UUID, nor by the id `vm-7`.
    pub fn nowhere(self) -> Self {
        self.answer("vm-by-uuid", "{}", ABSENT).answer("vm", "{vm: vm-7}", ABSENT)
    }

    /// All that a clone needs is there.
    pub fn placed(self) -> Self {
        self.answer(
            "placement",
            "{}",
            "{result: hit, placement: {template: {vm: vm-1, diskGiB: [10], snapshot: null}}}",
        )
    }

    pub fn answer(self, question: &str, arguments: &str, answer: &str) -> Self {
        Self(self.0.answers("vsphere", question, arguments, answer))
    }

    pub fn outcome(self, operation: &str, outcome: &str) -> Self {
        Self(self.0.performs("vsphere", operation, outcome))
    }

    pub fn given(self, objects: &str) -> Self {
        Self(self.0.given(objects))
    }

    pub fn config(self, config: &str) -> Self {
        Self(self.0.config(config))
    }

    /// Every operation is started as task-9, unless told otherwise.
    pub fn run(self) -> Checked {
        let mut check = self.0;
        for operation in crate::seam::OPERATIONS {
            check = check.performs_by_default("vsphere", operation, "{result: task, task: task-9}");
        }
        check.run()
    }

    pub fn check(self, expected: Expect) {
        expected.assert_eq(&told(&self.run()));
    }
}

/// What a pass did: operations, writes, what a person looks at in the status, events, and when it looks again.
pub fn told(checked: &Checked) -> String {
    let mut text = String::new();
    let last = checked.performed.iter().rposition(|action| matches!(action, Action::External(_)));
    for (index, action) in checked.performed.iter().enumerate() {
        text += &line(action, last.is_none_or(|last| index > last));
    }
    match &checked.end {
        Err(failure) => text += &format!("fails ({:?}): {}\n", failure.kind, failure.message),
        Ok(end) => {
            for action in &end.actions {
                text += &line(action, true);
            }
            if let Some(wait) = end.requeue_after {
                text += &format!("again after {}s\n", wait / 1000);
            }
        }
    }
    if text.is_empty() { "nothing\n".to_owned() } else { text }
}

fn line(action: &Action, tells_status: bool) -> String {
    match action {
        Action::External(it) => format!("{}\n", it.key),
        Action::ApplyStatus(_) if !tells_status => "notes that it begins\n".to_owned(),
        Action::ApplyStatus(apply) => {
            let object: Value = serde_json::from_str(&apply.object).unwrap();
            status(&object["status"])
        }
        Action::AddFinalizer(_) => "adds the finalizer\n".to_owned(),
        Action::RemoveFinalizer(_) => "removes the finalizer\n".to_owned(),
        Action::Patch(patch) => format!("patches {}\n", patch.merge),
        Action::Publish(event) => {
            let severity = match event.severity {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            };
            format!("event {severity} {}: {}\n", event.reason, event.message)
        }
        other => format!("{other:?}\n"),
    }
}

fn status(status: &Value) -> String {
    let mut text = "status".to_owned();
    for (key, value) in status.as_object().unwrap() {
        let shown = match (key.as_str(), value) {
            ("conditions" | "network" | "host" | "powerState" | "instanceUUID" | "operations", _) => continue,
            (_, Value::String(value)) => value.clone(),
            ("task", value) => value["operation"].as_str().unwrap().to_owned(),
            ("retry", value) => format!("{}x{}", value["operation"].as_str().unwrap(), value["failures"]),
            ("addresses", value) => {
                let all: Vec<_> =
                    value.as_array().unwrap().iter().map(|a| a["address"].as_str().unwrap()).collect();
                all.join(",")
            }
            ("initialization", value) => value["provisioned"].to_string(),
            (_, value) => value.to_string(),
        };
        text += &format!(" {key}={shown}");
    }
    text.push('\n');
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let word = |key: &str| condition[key].as_str().unwrap_or_default();
        if word("type") == "Ready" || matches!(word("reason"), "NotPaused" | "Available") {
            continue;
        }
        let message =
            if word("message").is_empty() { String::new() } else { format!(": {}", word("message")) };
        text += &format!("  {} {} {}{message}\n", word("type"), word("status"), word("reason"));
    }
    text
}
