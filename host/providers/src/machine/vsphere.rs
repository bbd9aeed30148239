//! A driver on the provider `vsphere`: a Gardener machine becomes a VM of a vCenter.
//!
//! It speaks to the provider as a plugin does, so that sessions, limits, evidence before anything is started and the twin are
//! the same. The instance UUID of a VM is the UID of its Machine: by that it is found again, whoever lost an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef, Operation};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, ListCall};
use super::code::Code;
use super::driver::{Address, Driver, DriverError, DriverFuture, Vm};
use crate::provider::{Caller, Provider};

#[cfg(test)]
mod tests;
mod words;

use words::{Answer, Spec};

/// Between two looks at a task: the first pause, doubling up to the second.
const TASK_POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long a task is waited for before the call is given up; the next one goes on where it was.
const TASK_WAIT_MAX: Duration = Duration::from_secs(60);

/// The driver.
pub struct VsphereDriver {
    vsphere: Arc<dyn Provider>,
}

impl VsphereDriver {
    /// On this provider `vsphere`.
    pub fn new(vsphere: Arc<dyn Provider>) -> Self {
        Self { vsphere }
    }

    async fn create(&self, call: &Call) -> Result<Vm, DriverError> {
        let spec = Spec::of(call)?;
        let mut tries = Tries::of(call);
        if self.find(call, &spec).await?.is_none() {
            let task = self
                .operate(call, &spec, "clone", &tries.key(call, "clone"), clone_arguments(call, &spec))
                .await;
            if let Err(mut error) = self.finish(call, &spec, task).await {
                // Under its key a failed clone stays failed: the next one needs another.
                if error.code != Code::DeadlineExceeded && error.code != Code::Unavailable {
                    tries.clones += 1;
                }
                error.last_known_state = Some(tries.to_text());
                return Err(error);
            }
        }
        let Some(vm) = self.find(call, &spec).await? else {
            return Err(DriverError::new(Code::Unavailable, "the VM that was made cannot be seen yet"));
        };
        if text(&vm, "/power") != "on" {
            let arguments = on_vm(call, &spec, &vm);
            let key = format!("{}/power-on/{}", call.machine.uid, tries.clones);
            let task = self.operate(call, &spec, "power-on", &key, arguments).await;
            self.finish(call, &spec, task).await?;
        }
        Ok(self.shown(call, &vm, tries.to_text()))
    }

    async fn delete(&self, call: &Call) -> Result<Option<String>, DriverError> {
        let spec = Spec::of(call)?;
        let Some(vm) = self.find(call, &spec).await? else { return Ok(None) };
        for operation in ["power-off", "destroy"] {
            if operation == "power-off" && text(&vm, "/power") != "on" {
                continue;
            }
            // Several VMs one after the other may have been this machine's: each is another thing to do.
            let key = format!("{}/{operation}/{}", call.machine.uid, text(&vm, "/vm"));
            let task = self.operate(call, &spec, operation, &key, on_vm(call, &spec, &vm)).await;
            self.finish(call, &spec, task).await?;
        }
        Ok(None)
    }

    /// The machine's VM; none if it has none.
    async fn find(&self, call: &Call, spec: &Spec) -> Result<Option<Value>, DriverError> {
        let arguments = json!({
            "server": spec.server, "datacenter": spec.datacenter, "kind": "instance", "uuid": call.machine.uid,
        });
        match self.ask(call, "vm-by-uuid", &arguments).await? {
            Answer::Hit { vm: Some(vm), .. } => Ok(Some(vm)),
            Answer::Absent => Ok(None),
            Answer::Ambiguous { vms } => {
                let ids: Vec<&str> = vms.iter().map(|vm| text(vm, "/vm")).collect();
                Err(DriverError::new(Code::OutOfRange, format!("several VMs: {}", ids.join(", "))))
            }
            other => Err(other.error()),
        }
    }

    /// Waits for a task, if one was started.
    async fn finish(
        &self,
        call: &Call,
        spec: &Spec,
        started: Result<Option<String>, DriverError>,
    ) -> Result<(), DriverError> {
        let Some(task) = started? else { return Ok(()) };
        let query = query("task", &json!({"server": spec.server, "task": task}));
        // While it is not forgotten the provider keeps the answer up to date, and looking at it costs nothing.
        let ended = self.ended(call, &query, &task).await;
        self.vsphere.forget(&query);
        ended
    }

    async fn ended(&self, call: &Call, query: &ExternalQuery, task: &str) -> Result<(), DriverError> {
        let (mut pause, mut waited) = (TASK_POLL.0, Duration::ZERO);
        while waited < TASK_WAIT_MAX {
            let answer = self.vsphere.answer(&caller(call), query).await;
            match Answer::read(answer.map(Some))? {
                Answer::Hit { task: Some(task), .. } => match text(&task, "/state") {
                    "success" => return Ok(()),
                    "error" => return Err(words::fault(&task["fault"])),
                    _ => {}
                },
                // vCenter forgets tasks that ended a while ago: what came of it is seen by the VM.
                Answer::Absent => return Ok(()),
                other => return Err(other.error()),
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = TASK_POLL.1.min(pause * 2);
        }
        Err(DriverError::new(Code::DeadlineExceeded, format!("{task} is still under way")))
    }

    async fn ask(&self, call: &Call, question: &str, arguments: &Value) -> Result<Answer, DriverError> {
        let query = query(question, arguments);
        let answer = self.vsphere.answer(&caller(call), &query).await;
        // Nobody waits for it to change: the next call asks again.
        self.vsphere.forget(&query);
        Answer::read(answer.map(Some))
    }

    /// Starts something; gives the task, where there is one.
    async fn operate(
        &self,
        call: &Call,
        spec: &Spec,
        name: &str,
        key: &str,
        mut arguments: Value,
    ) -> Result<Option<String>, DriverError> {
        arguments["server"] = spec.server.clone().into();
        let operation = Operation {
            key: key.into(),
            provider: "vsphere".into(),
            operation: name.into(),
            arguments: arguments.to_string().into(),
        };
        match Answer::read(self.vsphere.perform(&caller(call), &operation).await)? {
            Answer::Task { task } => Ok(Some(task)),
            Answer::Done { .. } | Answer::Absent => Ok(None),
            other => Err(other.error()),
        }
    }

    fn shown(&self, call: &Call, vm: &Value, last_known_state: String) -> Vm {
        let cards = vm["nics"].as_array().into_iter().flatten();
        let ips =
            cards.flat_map(|card| card["ips"].as_array().into_iter().flatten()).filter_map(Value::as_str);
        let address = |address: &str| Address { type_: "InternalIP".to_owned(), address: address.to_owned() };
        Vm {
            provider_id: format!("vsphere:///{}", call.machine.uid),
            node_name: call.machine.name.clone(),
            addresses: ips.map(address).collect(),
            last_known_state: Some(last_known_state),
            uninitialized: false,
        }
    }
}

/// How often a clone was tried: the only thing that the driver has to be told again.
struct Tries {
    clones: u32,
}

impl Tries {
    fn of(call: &Call) -> Self {
        #[derive(Default, Deserialize)]
        struct State {
            #[serde(default)]
            clones: u32,
        }
        let state =
            call.last_known_state.as_deref().and_then(|text| serde_json::from_str::<State>(text).ok());
        Self { clones: state.unwrap_or_default().clones }
    }

    fn key(&self, call: &Call, operation: &str) -> String {
        format!("{}/{operation}/{}", call.machine.uid, self.clones)
    }

    fn to_text(&self) -> String {
        json!({"clones": self.clones}).to_string()
    }
}

fn query(question: &str, arguments: &Value) -> ExternalQuery {
    let arguments = arguments.to_string().into();
    ExternalQuery { provider: "vsphere".into(), question: question.into(), arguments }
}

fn caller(call: &Call) -> Caller {
    let gvk = Gvk::new("machine.sapcloud.io", "v1alpha1", "Machine");
    Caller {
        plugin: "machine-class".to_owned(),
        object: ObjectRef::new(gvk, Some(call.machine.namespace.as_str()), call.machine.name.as_str()),
        uid: Some(call.machine.uid.clone()),
    }
}

fn clone_arguments(call: &Call, spec: &Spec) -> Value {
    let metadata = json!({"local-hostname": call.machine.name, "instance-id": call.machine.uid});
    let mut arguments = spec.placement.clone();
    let user_data = call.sensitive.secret_data.get("userData").cloned().unwrap_or_default();
    let more = json!({
        "name": call.machine.name,
        "datacenter": spec.datacenter,
        "cloneMode": "fullClone",
        "instanceUuid": call.machine.uid,
        "owner": format!("{}/{}/{}", call.machine.namespace, call.machine.name, call.machine.uid),
        "extraConfig": {"guestinfo.metadata": metadata.to_string(), "guestinfo.userdata.encoding": "base64"},
        "sensitive": {"extraConfig": {"guestinfo.userdata": user_data}},
    });
    if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
        arguments.extend(more);
    }
    arguments
}

fn on_vm(call: &Call, spec: &Spec, vm: &Value) -> Value {
    let owner = json!({"uid": call.machine.uid, "instanceUuid": call.machine.uid});
    json!({"server": spec.server, "vm": vm["vm"], "owner": owner})
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Driver for VsphereDriver {
    fn create<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Vm> {
        Box::pin(self.create(call))
    }

    fn initialize<'a>(&'a self, _: &'a Call) -> DriverFuture<'a, Vm> {
        Box::pin(async { Err(DriverError::new(Code::Unimplemented, "a VM is complete once it was cloned")) })
    }

    fn status<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Vm> {
        Box::pin(async move {
            let spec = Spec::of(call)?;
            match self.find(call, &spec).await? {
                Some(vm) if text(&vm, "/power") == "on" => {
                    Ok(self.shown(call, &vm, Tries::of(call).to_text()))
                }
                // Made in part: creation goes on where it was.
                Some(_) | None => Err(DriverError::new(Code::NotFound, "there is no VM that runs")),
            }
        })
    }

    fn delete<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Option<String>> {
        Box::pin(self.delete(call))
    }

    fn list<'a>(&'a self, _: &'a ListCall) -> DriverFuture<'a, BTreeMap<String, String>> {
        Box::pin(async { Err(DriverError::new(Code::Unimplemented, "VMs are found by their machines only")) })
    }
}
