//! A provider with somebody who asks.

use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_core::contract::{ExternalQuery, Failure, Gvk, ObjectRef, Operation};
use evenkeel_providers::twins::Twin;
use evenkeel_providers::vsphere::simulated::VsphereTwin;
use evenkeel_providers::{Caller, Provider};
use serde_json::{Value, json};

/// The default vCenter.
pub const SERVER: &str = "vc.example.test";

/// A twin, and one machine's controller.
pub struct World {
    pub twin: VsphereTwin,
    pub caller: Caller,
    keys: AtomicU32,
}

pub fn caller(name: &str) -> Caller {
    let gvk = Gvk::new("infrastructure.reconcilers.dev", "v1alpha1", "VSphereMachine");
    Caller {
        plugin: "capv-machine".into(),
        object: ObjectRef::new(gvk, Some("ns"), name),
        uid: Some(format!("uid-{name}")),
    }
}

impl World {
    pub fn new(config: Value) -> Self {
        let twin = VsphereTwin::new(&config, 7).expect("a good configuration");
        Self { twin, caller: caller("m-0"), keys: AtomicU32::default() }
    }

    pub fn query(&self, question: &str, arguments: Value) -> ExternalQuery {
        let mut arguments = arguments;
        arguments["server"] = json!(SERVER);
        ExternalQuery {
            provider: "vsphere".into(),
            question: question.into(),
            arguments: arguments.to_string().into(),
        }
    }

    pub async fn ask(&self, question: &str, arguments: Value) -> Value {
        let query = self.query(question, arguments);
        let answer = self.twin.provider().answer(&self.caller, &query).await.expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Asks for the result's word alone.
    pub async fn result_of(&self, question: &str, arguments: Value) -> String {
        word(&self.ask(question, arguments).await)
    }

    pub async fn try_perform(&self, key: &str, operation: &str, arguments: Value) -> Result<Value, Failure> {
        let mut arguments = arguments;
        arguments["server"] = json!(SERVER);
        let operation = Operation {
            key: key.into(),
            provider: "vsphere".into(),
            operation: operation.into(),
            arguments: arguments.to_string().into(),
        };
        let answer = self.twin.provider().perform(&self.caller, &operation).await?.expect("an answer");
        Ok(serde_json::from_str(&answer).expect("JSON"))
    }

    pub async fn perform_as(&self, key: &str, operation: &str, arguments: Value) -> Value {
        self.try_perform(key, operation, arguments).await.expect("an outcome")
    }

    /// Under a key of its own.
    pub async fn perform(&self, operation: &str, arguments: Value) -> Value {
        let key = self.keys.fetch_add(1, Ordering::SeqCst);
        self.perform_as(&format!("key-{key}"), operation, arguments).await
    }

    pub fn control(&self, command: Value) {
        self.twin.control(&command).expect("a good command");
    }

    /// What vCenter was told since the last look.
    pub fn expect(&self, wanted: Value) {
        self.twin.expect(&wanted).expect("vCenter is as wanted");
    }

    /// Has an operation done, and waits until its task has ended.
    pub async fn finish(&self, operation: &str, arguments: Value) -> Value {
        let outcome = self.perform(operation, arguments).await;
        let Some(task) = outcome["task"].as_str().map(str::to_owned) else { return outcome };
        loop {
            let answer = self.ask("task", json!({"task": task})).await;
            match answer["task"]["state"].as_str() {
                Some("queued" | "running") => tokio::time::sleep(std::time::Duration::from_secs(1)).await,
                _ => return answer["task"].clone(),
            }
        }
    }

    /// A machine's VM, off.
    pub async fn cloned(&self) -> String {
        let task = self.finish("clone", clone_arguments()).await;
        self.twin.provider().forget(&self.query("task", json!({"task": task["task"]})));
        let changes = self.twin.provider().changes().expect("it tells of changes");
        changes.hand_out(|_| ());
        task["vm"].as_str().unwrap_or_else(|| panic!("a VM: {task}")).to_owned()
    }
}

pub fn word(answer: &Value) -> String {
    answer["result"].as_str().unwrap_or_default().to_owned()
}

pub fn clone_arguments() -> Value {
    json!({
        "name": "m-0", "datacenter": "/DC0", "template": "/DC0/vm/tpl", "cloneMode": "fullClone",
        "instanceUuid": "0f1b2c3d-1111-4222-8333-444455556666", "owner": "ns/m-0/uid-m-0", "numCpus": 2, "memoryMib": 2048,
        "diskGib": 20, "nics": [{"network": "DC0_DVPG0"}, {"network": "VM Network", "mac": "00:50:56:00:00:aa"}],
        "extraConfig": {}, "sensitive": {"extraConfig": {"guestinfo.userdata": "c2VjcmV0"}},
    })
}

pub fn owner() -> Value {
    json!({"uid": "uid-m-0"})
}
