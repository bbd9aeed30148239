//! The simulated vCenter is held to vcsim: the same questions and operations, the same answers.
//!
//! Ids, MAC addresses, hosts, BIOS UUIDs and the wording of messages are each side's own; all else has to agree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Operation};
use evenkeel_providers::Provider;
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::simulated::{ServerConfig, Simulated};
use evenkeel_providers::vsphere::tls::Trust;
use evenkeel_test_vcsim::{Options, Vcsim};
use serde_json::{Value, json};

use crate::support::{caller, login, soap};

/// One far end, with the ids that it gave to what the script names.
struct Side {
    vsphere: Vsphere,
    vms: BTreeMap<String, String>,
    keys: u32,
}

/// What is asked or done; `$name` stands for the VM of that name.
type Step = (&'static str, Value);

fn script(template: &str) -> Vec<Step> {
    let uuid = |number: u32| format!("0f1b2c3d-1111-4222-8333-{number:012}");
    let clone = |name: &str, number: u32| {
        json!({
            "name": name, "datacenter": "/DC0", "template": template, "cloneMode": "fullClone", "folder": "/DC0/vm",
            "datastore": "LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources", "instanceUuid": uuid(number),
            "owner": format!("ns/{name}/uid-{name}"), "group": "class-1", "numCpus": 2, "memoryMib": 2048,
            "nics": [{"network": "DC0_DVPG0", "mac": "00:50:56:00:00:01"}, {"network": "VM Network", "mac": "00:50:56:00:00:02"}],
            "extraConfig": {"guestinfo.metadata": "e30="},
        })
    };
    let on = |name: &str| json!({"vm": format!("${name}"), "owner": {"uid": format!("uid-{name}")}});
    let find = |kind: &str, uuid: String| json!({"datacenter": "/DC0", "kind": kind, "uuid": uuid});
    let group = |folder: Option<&str>, of: &str| json!({"datacenter": "/DC0", "folder": folder, "group": of});
    let named = |name: &str| json!({"datacenter": "/DC0", "name": name});
    let set = |value: &str| json!({"vm": "$a", "owner": {"uid": "uid-a"}, "extraConfig": {"guestinfo.metadata": value}});
    let place = |change: Value| {
        let mut place = json!({"datacenter": "/DC0", "template": template, "datastore": "LocalDS_0",
            "resourcePool": "DC0_C0", "networks": ["DC0_DVPG0", "/DC0/network/VM Network"]});
        change.as_object().into_iter().flatten().for_each(|(name, value)| place[name] = value.clone());
        place
    };
    vec![
        ("vm-by-uuid", find("instance", uuid(1))),
        ("placement", place(json!({}))),
        (
            "placement",
            place(json!({"template": "none", "folder": "none", "datastore": "none", "networks": ["none"]})),
        ),
        ("placement", place(json!({"datacenter": "/DC9"}))),
        ("placement", place(json!({"datastore": "", "resourcePool": ""}))),
        ("placement", place(json!({"folder": "/DC0/datastore/LocalDS_0", "snapshot": "base"}))),
        ("placement", place(json!({"snapshot": "base"}))),
        ("clone", clone("a", 1)),
        ("clone", clone("a", 1)),
        ("clone", clone("a", 2)),
        ("vm", json!({"vm": "$a"})),
        ("vm-by-uuid", find("instance", uuid(1))),
        ("vm-by-uuid", find("instance", uuid(2))),
        ("vm-by-uuid", find("bios", uuid(1))),
        ("vm-by-name", named("a")),
        ("vm-by-name", named("b")),
        ("vms-of-group", group(None, "class-1")),
        ("clone", clone("b", 1)),
        ("vms-of-group", group(Some("/DC0/vm"), "class-1")),
        ("vms-of-group", group(None, "class-2")),
        ("vms-of-group", group(Some("none"), "class-1")),
        ("vms-of-group", group(Some("/DC0/host"), "class-1")),
        ("vm-by-uuid", find("instance", uuid(1))),
        ("reconfigure", set("W10=")),
        ("reconfigure", set("W10=")),
        ("vm", json!({"vm": "$a"})),
        ("reconfigure", set("")),
        ("vm", json!({"vm": "$a"})),
        ("shutdown-guest", on("a")),
        ("power-off", on("a")),
        ("power-on", on("a")),
        ("power-on", on("a")),
        ("destroy", on("a")),
        ("vm", json!({"vm": "$a"})),
        ("power-on", json!({"vm": "$b", "owner": {"uid": "uid-a"}})),
        ("power-off", on("a")),
        ("destroy", on("a")),
        ("destroy", on("a")),
        ("power-on", on("a")),
        ("vm", json!({"vm": "$a"})),
        ("vm-by-uuid", find("instance", uuid(1))),
        ("task", json!({"task": "task-404"})),
    ]
}

impl Side {
    async fn ask(&self, question: &str, mut arguments: Value) -> Value {
        arguments["server"] = json!("vc");
        let query = ExternalQuery {
            provider: "vsphere".into(),
            question: question.into(),
            arguments: arguments.to_string().into(),
        };
        let answer = self.vsphere.answer(&caller("x"), &query).await.expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Asks, or does and waits for the task's end.
    async fn take(&mut self, (name, arguments): &Step) -> Value {
        let mut arguments = arguments.clone();
        if let Some(vm) = arguments["vm"].as_str().and_then(|vm| vm.strip_prefix('$')) {
            arguments["vm"] = json!(self.vms.get(vm).cloned().unwrap_or_default());
        }
        if matches!(*name, "task" | "vm" | "vm-by-uuid" | "vm-by-name" | "vms-of-group" | "placement") {
            return self.ask(name, arguments).await;
        }
        arguments["server"] = json!("vc");
        self.keys += 1;
        let operation = Operation {
            key: format!("key-{}", self.keys),
            provider: "vsphere".into(),
            operation: (*name).into(),
            arguments: arguments.to_string().into(),
        };
        let outcome =
            self.vsphere.perform(&caller("x"), &operation).await.expect("an outcome").expect("an answer");
        let outcome: Value = serde_json::from_str(&outcome).expect("JSON");
        let Some(task) = outcome["task"].as_str() else { return outcome };
        loop {
            let ended = self.ask("task", json!({"task": task})).await;
            if matches!(ended["task"]["state"].as_str(), Some("success" | "error")) {
                if let (Some(vm), Some(name)) = (ended["task"]["vm"].as_str(), arguments["name"].as_str()) {
                    self.vms.insert(name.to_owned(), vm.to_owned());
                }
                return ended;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Takes out what is each side's own.
fn mask(value: &mut Value, vms: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match name.as_str() {
                    "message" | "operation" | "task" if value.is_string() => *value = json!("(its own)"),
                    "biosUuid" | "host" | "key" | "diskGiB" => *value = json!("(its own)"),
                    "vm" if value.is_string() => {
                        let name = vms.iter().find(|(_, id)| Some(id.as_str()) == value.as_str());
                        *value = json!(name.map_or("(another)".to_owned(), |(name, _)| format!("${name}")));
                    }
                    // vcsim's guests have no tools; the simulated vCenter's have.
                    "toolsRunning" | "guestStateChangeSupported" => *value = json!("(its own)"),
                    _ => mask(value, vms),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, vms)),
        _ => {}
    }
}

#[tokio::test]
async fn the_simulated_vcenter_answers_as_vcsim_does() {
    let Some(vcsim) = Vcsim::start("the differential test", Options::default()) else { return };
    let template = vcsim.template();
    let config: ServerConfig = serde_json::from_value(json!({
        "inventory": {
            "resourcePools": ["/DC0/host/DC0_C0/Resources", "/DC0/host/DC0_H0/Resources"],
            "datastores": [{"path": "/DC0/datastore/LocalDS_0"}],
            "networks": ["/DC0/network/DC0_DVPG0", "/DC0/network/VM Network"],
        },
        "vms": [{"vm": "vm-5", "path": template, "template": true, "diskGiB": [10], "instanceUuid": "x", "biosUuid": "y"}],
        "taskSeconds": {"clone": 0, "reconfigure": 0, "power-on": 0, "power-off": 0, "destroy": 0},
        "ipSeconds": null,
    }))
    .expect("a good configuration");
    let far_end = Arc::new(soap(&vcsim, &Trust::Authorities(vcsim.authority())));
    let provider = Vsphere::new().with("vc", far_end, Arc::new(login()), CallLimits::default());
    let mut real = Side { vsphere: provider, vms: BTreeMap::new(), keys: 0 };
    let far_end = Arc::new(Simulated::start(&config, 1));
    let provider = Vsphere::new().with("vc", far_end, Arc::new(login()), CallLimits::unpaced());
    let mut simulated = Side { vsphere: provider, vms: BTreeMap::new(), keys: 0 };
    let mut differences = Vec::new();
    for (number, step) in script(&template).iter().enumerate() {
        let (mut theirs, mut ours) = (real.take(step).await, simulated.take(step).await);
        mask(&mut theirs, &real.vms);
        mask(&mut ours, &simulated.vms);
        if theirs != ours {
            differences.push(format!(
                "step {number}, {} {}:\n  vcsim     {theirs}\n  simulated {ours}",
                step.0, step.1
            ));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
