//! A driver on the provider `vsphere`: a Gardener machine becomes a VM of a vCenter.
//!
//! It speaks to the provider as a plugin does, so that sessions, limits, evidence before anything is started and the twin are
//! the same. The instance UUID of a VM is the UID of its Machine: by that it is found again, whoever lost an answer. No call
//! waits for a task: the provider tells of its end, and the machine's pass goes on from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef, Operation};
use serde_json::{Value, json};

use super::NAME;
use super::call::{Call, Class, ListCall, Sensitive};
use super::code::Code;
use super::driver::{Address, Driver, DriverError, DriverFuture, Progress, Teller, UnderWay, Vm};
use crate::provider::{Caller, Provider};

mod tasks;
#[cfg(test)]
mod tests;
mod tries;
mod words;

use tasks::Tasks;
use tries::Tries;
use words::{Answer, Spec};

/// What stands before a Machine's UID in the identity of its VM.
const SCHEME: &str = "vsphere:///";

/// The driver.
pub struct VsphereDriver {
    vsphere: Arc<dyn Provider>,
    tasks: Arc<Tasks>,
}

/// How far a task is.
enum Stage {
    /// vCenter is at it.
    Running {
        /// Whether its end is told.
        watched: bool,
    },
    /// It ended well, or so long ago that vCenter forgot it: what came of it is seen by the VM.
    Ended,
    /// It failed.
    Failed(DriverError),
}

impl VsphereDriver {
    /// On this provider `vsphere`.
    pub fn new(vsphere: Arc<dyn Provider>) -> Self {
        let tasks = Arc::new(Tasks::default());
        if let Some(changes) = vsphere.changes() {
            let told = Arc::clone(&tasks);
            changes.listen(Box::new(move |query| told.is_told(query)));
        }
        Self { vsphere, tasks }
    }

    async fn create(&self, call: &Call) -> Result<Progress<Vm>, DriverError> {
        let (spec, mut tries) = (Spec::of(&call.class)?, Tries::of(call));
        if let Some(under_way) = self.running(call, &spec, &tries).await? {
            return Ok(Progress::UnderWay(under_way));
        }
        let vm = match self.find(call, &spec).await.map_err(|error| tries.keep(error))? {
            Some(vm) => vm,
            None => {
                let arguments = clone_arguments(call, &spec);
                if let Some(under_way) = self.step(call, &spec, &mut tries, "clone", "vm", arguments).await? {
                    return Ok(Progress::UnderWay(under_way));
                }
                let made = self.find(call, &spec).await.map_err(|error| tries.keep(error))?;
                let unseen = || DriverError::new(Code::Unknown, "the VM that was made cannot be seen");
                made.ok_or_else(|| tries.another(unseen()))?
            }
        };
        if text(&vm, "/power") != "on" {
            let (id, arguments) = (text(&vm, "/vm"), on_vm(call, &spec, &vm));
            if let Some(under_way) = self.step(call, &spec, &mut tries, "power-on", id, arguments).await? {
                return Ok(Progress::UnderWay(under_way));
            }
        }
        self.forget_task(uid(call));
        Ok(Progress::Done(shown(call, &vm, tries.settled())))
    }

    async fn status(&self, call: &Call) -> Result<Progress<Vm>, DriverError> {
        let (spec, tries) = (Spec::of(&call.class)?, Tries::of(call));
        let under_way = self.running(call, &spec, &tries).await?;
        let vm = match self.find(call, &spec).await? {
            // What is being switched off or moved is there still.
            Some(vm) if text(&vm, "/power") == "on" => {
                return Ok(Progress::Done(shown(call, &vm, tries.settled())));
            }
            other => other,
        };
        if let Some(under_way) = under_way {
            return Ok(Progress::UnderWay(UnderWay { last_known_state: None, ..under_way }));
        }
        // Made in part, or on its way out: whoever asks goes on where it was. Each step has words of its own.
        let place = match &vm {
            Some(vm) => format!("VM {} is {}", text(vm, "/vm"), text(vm, "/power")),
            None => "there is no VM".to_owned(),
        };
        let known = self.known_task(call, &tries).map(|task| format!(", {task} has ended"));
        Err(DriverError::new(Code::NotFound, place + &known.unwrap_or_default()))
    }

    async fn delete(&self, call: &Call) -> Result<Progress<Option<String>>, DriverError> {
        let (spec, mut tries) = (Spec::of(&call.class)?, Tries::of(call));
        // A VM that is still being made, too, has to go.
        if let Some(under_way) = self.running(call, &spec, &tries).await? {
            return Ok(Progress::UnderWay(under_way));
        }
        let find = || self.find(call, &spec);
        let Some(vm) = find().await.map_err(|error| tries.keep(error))? else {
            return Ok(self.deleted(call));
        };
        let (id, arguments) = (text(&vm, "/vm"), on_vm(call, &spec, &vm));
        for operation in ["power-off", "destroy"] {
            if operation == "power-off" && text(&vm, "/power") != "on" {
                continue;
            }
            let step = self.step(call, &spec, &mut tries, operation, id, arguments.clone()).await?;
            if let Some(under_way) = step {
                return Ok(Progress::UnderWay(under_way));
            }
        }
        match find().await.map_err(|error| tries.keep(error))? {
            None => Ok(self.deleted(call)),
            Some(vm) => {
                let message = format!("VM {} is there although its deletion has ended", text(&vm, "/vm"));
                Err(tries.another(DriverError::new(Code::Unknown, message)))
            }
        }
    }

    fn deleted(&self, call: &Call) -> Progress<Option<String>> {
        self.forget_task(uid(call));
        Progress::Done(None)
    }

    /// The task that was started last for a machine: as this host knows it, or as it was told by an earlier one.
    fn known_task(&self, call: &Call, tries: &Tries) -> Option<String> {
        self.tasks.of(uid(call)).or_else(|| tries.task().map(str::to_owned))
    }

    /// What is under way for a machine.
    async fn running(
        &self,
        call: &Call,
        spec: &Spec,
        tries: &Tries,
    ) -> Result<Option<UnderWay>, DriverError> {
        let Some(task) = self.known_task(call, tries) else { return Ok(None) };
        Ok(match self.look_at(call, spec, &task).await.map_err(|error| tries.keep(error))? {
            Stage::Running { watched } => Some(under_way(&task, watched, tries)),
            Stage::Ended | Stage::Failed(_) => None,
        })
    }

    async fn list(&self, call: &ListCall) -> Result<BTreeMap<String, String>, DriverError> {
        let spec = Spec::of(&call.class)?;
        if call.class.uid.is_empty() {
            return Err(DriverError::new(Code::Unimplemented, "VMs are marked with the UID of their class"));
        }
        let arguments = json!({
            "server": spec.server, "datacenter": spec.datacenter, "folder": spec.folder(), "group": call.class.uid,
        });
        let caller = Caller {
            plugin: "machine-class".to_owned(),
            object: ObjectRef::new(gvk("MachineClass"), None, call.class.name.as_str()),
            uid: Some(call.class.uid.clone()),
        };
        let query = query("vms-of-group", &arguments);
        match Answer::read(self.vsphere.answer(&caller, &query).await.map(Some))? {
            Answer::Group { vms } => Ok(vms.iter().filter_map(listed).collect()),
            Answer::Absent => {
                Err(DriverError::new(Code::FailedPrecondition, "the folder of the class is not there"))
            }
            other => Err(other.error()),
        }
    }

    /// The machine's VM; none if it has none.
    async fn find(&self, call: &Call, spec: &Spec) -> Result<Option<Value>, DriverError> {
        let arguments = json!({
            "server": spec.server, "datacenter": spec.datacenter, "kind": "instance", "uuid": uid(call),
        });
        let query = query("vm-by-uuid", &arguments);
        let answer = self.vsphere.answer(&caller(call), &query).await;
        // Nobody waits for it to change: tasks are waited for.
        self.vsphere.forget(&query);
        match Answer::read(answer.map(Some))? {
            Answer::Hit { vm: Some(vm), .. } => Ok(Some(vm)),
            Answer::Absent => Ok(None),
            Answer::Ambiguous { vms } => {
                let ids: Vec<&str> = vms.iter().map(|vm| text(vm, "/vm")).collect();
                Err(DriverError::new(Code::OutOfRange, format!("several VMs: {}", ids.join(", "))))
            }
            other => Err(other.error()),
        }
    }

    /// Starts an operation where it was not started, and looks how far it is; none once it is through.
    async fn step(
        &self,
        call: &Call,
        spec: &Spec,
        tries: &mut Tries,
        operation: &str,
        subject: &str,
        arguments: Value,
    ) -> Result<Option<UnderWay>, DriverError> {
        let key = tries.key(uid(call), operation, subject);
        let started = self.operate(call, spec, operation, &key, arguments).await;
        let Some(task) = started.map_err(|error| tries.another(error))? else { return Ok(None) };
        tries.started(&task);
        match self.look_at(call, spec, &task).await.map_err(|error| tries.keep(error))? {
            Stage::Running { watched } => Ok(Some(under_way(&task, watched, tries))),
            Stage::Ended => Ok(None),
            Stage::Failed(error) => Err(tries.another(error)),
        }
    }

    /// How far a task is. While it runs, the machine's status is told of its end.
    async fn look_at(&self, call: &Call, spec: &Spec, task: &str) -> Result<Stage, DriverError> {
        let query = query("task", &json!({"server": spec.server, "task": task}));
        // Before it is asked: it may end while the answer is on its way.
        if let Some(earlier) = self.tasks.wait_for(uid(call), task, &query) {
            self.vsphere.forget(&earlier);
        }
        let answer = self.vsphere.answer(&caller(call), &query).await;
        let stage = match Answer::read(answer.map(Some))? {
            Answer::Hit { task: Some(task), watched, .. } => match text(&task, "/state") {
                "success" => Stage::Ended,
                "error" => Stage::Failed(words::fault(&task["fault"])),
                _ => return Ok(Stage::Running { watched }),
            },
            Answer::Absent => Stage::Ended,
            other => return Err(other.error()),
        };
        self.vsphere.forget(&query);
        Ok(stage)
    }

    fn forget_task(&self, uid: &str) {
        if let Some(query) = self.tasks.forget(uid) {
            self.vsphere.forget(&query);
        }
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
}

/// The instance UUID of a call's VM: the Machine's UID, or where there is no Machine what its VM is called by.
fn uid(call: &Call) -> &str {
    let known = call.machine.provider_id.as_deref().unwrap_or_default();
    if call.machine.uid.is_empty() { known.trim_start_matches(SCHEME) } else { &call.machine.uid }
}

fn under_way(task: &str, watched: bool, tries: &Tries) -> UnderWay {
    UnderWay { message: format!("{task} is under way"), watched, last_known_state: Some(tries.to_text()) }
}

fn shown(call: &Call, vm: &Value, last_known_state: String) -> Vm {
    let cards = vm["nics"].as_array().into_iter().flatten();
    let ips = cards.flat_map(|card| card["ips"].as_array().into_iter().flatten()).filter_map(Value::as_str);
    let address = |address: &str| Address { type_: "InternalIP".to_owned(), address: address.to_owned() };
    Vm {
        provider_id: format!("{SCHEME}{}", call.machine.uid),
        node_name: call.machine.name.clone(),
        addresses: ips.map(address).collect(),
        last_known_state: Some(last_known_state),
        uninitialized: false,
    }
}

/// A VM of a class as it is listed: its two marks have to agree, so that a copy that somebody made of it is none of ours.
fn listed(vm: &Value) -> Option<(String, String)> {
    let (instance, owner) = (text(vm, "/instanceUuid"), text(vm, "/owner"));
    let mut marks = owner.rsplit('/');
    let (uid, name) = (marks.next()?, marks.next()?);
    (!uid.is_empty() && uid.eq_ignore_ascii_case(instance))
        .then(|| (format!("{SCHEME}{uid}"), name.to_owned()))
}

/// A question of this driver: it bears its own name, so that what is told of it comes back here.
fn query(question: &str, arguments: &Value) -> ExternalQuery {
    let arguments = arguments.to_string().into();
    ExternalQuery { provider: NAME.into(), question: question.into(), arguments }
}

fn gvk(kind: &str) -> Gvk {
    Gvk::new("machine.sapcloud.io", "v1alpha1", kind)
}

fn caller(call: &Call) -> Caller {
    Caller {
        plugin: "machine-class".to_owned(),
        object: ObjectRef::new(
            gvk("Machine"),
            Some(call.machine.namespace.as_str()),
            call.machine.name.as_str(),
        ),
        uid: Some(uid(call).to_owned()),
    }
}

fn clone_arguments(call: &Call, spec: &Spec) -> Value {
    let Call { machine, class, sensitive: Sensitive { secret_data }, last_known_state: _ } = call;
    let Class { uid: class_uid, name: _, provider: _, provider_spec: _ } = class;
    let metadata = json!({"local-hostname": machine.name, "instance-id": machine.uid});
    let mut arguments = spec.placement.clone();
    let user_data = secret_data.get("userData").cloned().unwrap_or_default();
    let more = json!({
        "name": machine.name,
        "datacenter": spec.datacenter,
        "cloneMode": "fullClone",
        "instanceUuid": machine.uid,
        "owner": format!("{}/{}/{}", machine.namespace, machine.name, machine.uid),
        "group": Some(class_uid).filter(|uid| !uid.is_empty()),
        "extraConfig": {"guestinfo.metadata": metadata.to_string(), "guestinfo.userdata.encoding": "base64"},
        "sensitive": {"extraConfig": {"guestinfo.userdata": user_data}},
    });
    if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
        arguments.extend(more);
    }
    arguments
}

fn on_vm(call: &Call, spec: &Spec, vm: &Value) -> Value {
    let owner = json!({"uid": uid(call), "instanceUuid": uid(call)});
    json!({"server": spec.server, "vm": vm["vm"], "owner": owner})
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Driver for VsphereDriver {
    fn create<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(self.create(call))
    }

    fn initialize<'a>(&'a self, _: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async { Err(DriverError::new(Code::Unimplemented, "a VM is complete once it was cloned")) })
    }

    fn status<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(self.status(call))
    }

    fn delete<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Option<String>>> {
        Box::pin(self.delete(call))
    }

    fn list<'a>(&'a self, call: &'a ListCall) -> DriverFuture<'a, BTreeMap<String, String>> {
        Box::pin(self.list(call))
    }

    fn tells(&self, teller: Teller) {
        self.tasks.tell_to(teller);
    }

    fn forget(&self, uid: &str) {
        self.forget_task(uid);
    }
}
