//! A model of an API server and a cloud for a class, its Secret and a few machines. A pass is one step: that the host acts on
//! nothing but fresh evidence is its own matter, and tested there.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_sdk::{Action, Answer, Failure, FailureKind, Observation, Performed, Query, Request, Step, run};
use serde_json::{Value, json};

use crate::kinds::{Machine, MachineClass, SecretHead, place};
use crate::{MachineClassPlugin, names};

/// The machines that may be.
pub const MACHINES: [&str; 3] = ["m1", "m2", "m3"];
const NAMESPACE: &str = "shoot";
/// User data that asks for a token: `join <<BOOTSTRAP_TOKEN>>`.
const JOIN_WITH_TOKEN: &str = "am9pbiA8PEJPT1RTVFJBUF9UT0tFTj4+";
/// Passes of everything in which it has to come to rest.
const ROUNDS_MAX: usize = 40;
/// Rounds of a pass, as the host has it.
const CALLS_MAX: usize = 16;

type Key = (String, String);

/// All that there is.
#[derive(Default)]
pub struct World {
    objects: BTreeMap<Key, Value>,
    /// The machines' UIDs of the cloud's VMs.
    vms: BTreeSet<String>,
    /// UIDs for which a VM was ever asked.
    asked: BTreeSet<String>,
    /// Whether calls of the cloud succeed.
    pub cloud_works: bool,
    /// Laws that were broken in the middle of a pass.
    pub broken: Vec<String>,
    uids: u32,
    /// The time, since the start.
    pub minutes: i64,
}

impl World {
    /// Every pass that can be: of the class, of its Secret, of each machine.
    pub const PASSES: usize = 2 + MACHINES.len();

    /// The machines that have VMs, by name.
    pub fn vms(&self) -> Vec<String> {
        let machines = self.objects.values().filter(|object| object["kind"] == "Machine");
        let has = |object: &&Value| self.vms.contains(text(object, "/metadata/uid"));
        machines.filter(has).map(|object| text(object, "/metadata/name").to_owned()).collect()
    }

    /// VMs whose machines are gone.
    pub fn orphans(&self) -> Vec<String> {
        let known: BTreeSet<&str> =
            self.objects.values().map(|object| text(object, "/metadata/uid")).collect();
        self.vms.iter().filter(|uid| !known.contains(uid.as_str())).cloned().collect()
    }

    /// Tokens with which nobody is to join: their machines are gone, or have joined, and say so.
    pub fn idle_tokens(&self) -> Vec<String> {
        let waits = |uid: &str| {
            self.objects.values().any(|object| {
                object["kind"] == "Machine"
                    && text(object, "/metadata/uid") == uid
                    && text(object, "/status/currentStatus/phase") != "Running"
            })
        };
        let of = |object: &&Value| object["metadata"]["annotations"][names::TOKEN_OF].is_string();
        self.objects
            .iter()
            .filter(|(_, object)| of(object))
            .filter(|(_, object)| {
                !waits(object["metadata"]["annotations"][names::TOKEN_OF].as_str().unwrap_or_default())
            })
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    /// Machines with a VM and without a class that do not say so.
    pub fn silent_losses(&self) -> Vec<String> {
        if self.objects.contains_key(&key("MachineClass", "a")) {
            return Vec::new();
        }
        let silent = |name: &String| {
            let machine = self.objects.get(&key("Machine", name));
            !machine.is_some_and(|machine| {
                text(machine, "/status/lastOperation/description").contains("does not exist")
            })
        };
        self.vms().into_iter().filter(silent).collect()
    }

    /// Everything that is left, Nodes and VMs included.
    pub fn left(&self) -> Vec<String> {
        let objects = self.objects.keys().map(|(kind, name)| format!("{kind} {name}"));
        objects.chain(self.vms.iter().map(|uid| format!("VM of {uid}"))).collect()
    }

    pub fn create_machine(&mut self, name: &str) {
        self.uids += 1;
        let uid = format!("U{}", self.uids);
        self.create(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": {"namespace": NAMESPACE, "name": name, "uid": uid},
            "spec": {"class": {"kind": "MachineClass", "name": "a"}},
        }));
    }

    pub fn create_class(&mut self) {
        self.create(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
            "metadata": {"namespace": NAMESPACE, "name": "a"},
            "provider": "sim", "providerSpec": {}, "secretRef": {"name": "s1"},
        }));
    }

    pub fn create_secret(&mut self) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": "s1"},
            "data": {"userData": JOIN_WITH_TOKEN},
        }));
    }

    /// The Node of a machine with a VM joins, and is well.
    pub fn join(&mut self, name: &str) {
        if self.vms().iter().any(|known| known == name) {
            self.create(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("N-{name}")},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }));
        }
    }

    pub fn lose_vm(&mut self, name: &str) {
        if let Some(machine) = self.objects.get(&key("Machine", name)) {
            self.vms.remove(text(machine, "/metadata/uid"));
        }
    }

    pub fn set_ready(&mut self, name: &str, ready: bool) {
        if let Some(node) = self.objects.get_mut(&key("Node", name)) {
            let status = if ready { "True" } else { "Unknown" };
            let ready = json!([{"type": "Ready", "status": status}]);
            node["status"]["conditions"] = by_type(&node["status"]["conditions"], &ready);
        }
    }

    pub fn keep(&mut self, name: &str, wish: &str) {
        if let Some(machine) = self.objects.get_mut(&key("Machine", name)) {
            machine["metadata"]["annotations"][names::PRESERVE] = wish.into();
        }
    }

    /// Gives the Node a label, or takes those of updates away.
    pub fn label_node(&mut self, name: &str, label: Option<(&str, &str)>) {
        let Some(node) = self.objects.get_mut(&key("Node", name)) else { return };
        match label {
            Some((label, value)) => node["metadata"]["labels"][label] = value.into(),
            None => {
                if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
                    labels.retain(|label, _| !label.starts_with("node.machine.sapcloud.io/"));
                }
            }
        }
    }

    /// Nodes that take no Pods as if their machines were kept, though those are not.
    pub fn stray_taints(&self) -> Vec<String> {
        let kept = |name: &str| {
            let machine = self.objects.get(&key("Machine", name));
            machine.is_some_and(|machine| {
                machine.pointer("/status/currentStatus/preserveExpiryTime").is_some()
                    || machine.pointer("/metadata/deletionTimestamp").is_some()
            })
        };
        let tainted = |node: &Value| {
            let taints = node.pointer("/spec/taints").and_then(Value::as_array);
            taints.into_iter().flatten().any(|taint| taint["key"] == names::PRESERVED_TAINT)
        };
        let nodes = self.objects.iter().filter(|((kind, _), _)| kind == "Node");
        nodes
            .filter(|((_, name), node)| tainted(node) && !kept(name))
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    /// Somebody takes our finalizers off an object that lives.
    pub fn strip(&mut self, kind: &str, name: &str) {
        if let Some(object) = self.objects.get_mut(&key(kind, name))
            && object.pointer("/metadata/deletionTimestamp").is_none()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("finalizers");
        }
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        if let Some(object) = self.objects.get_mut(&key(kind, name))
            && object.pointer("/metadata/deletionTimestamp").is_none()
        {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            self.collect(kind, name);
        }
    }

    pub fn delete_all(&mut self, kind: &str) {
        let names: Vec<String> =
            self.objects.keys().filter(|(of, _)| of == kind).map(|(_, name)| name.clone()).collect();
        names.iter().for_each(|name| self.delete(kind, name));
    }

    /// Passes of everything until nothing changes any more.
    pub fn rest(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = (self.objects.clone(), self.vms.clone());
            (0..Self::PASSES).for_each(|index| self.pass(index, None));
            self.minutes += 1;
            if before == (self.objects.clone(), self.vms.clone()) {
                return;
            }
        }
        self.broken.push("it does not come to rest".to_owned());
    }

    /// A pass, if its object is there. The host dies after `dies` of its concluding actions.
    pub fn pass(&mut self, index: usize, dies: Option<usize>) {
        let (controller, object) = match index {
            0 => (names::MACHINE_CLASS, place::<MachineClass>(NAMESPACE, "a")),
            1 => (names::SECRET, place::<SecretHead>(NAMESPACE, "s1")),
            machine => (names::MACHINE, place::<Machine>(NAMESPACE, MACHINES[machine - 2])),
        };
        let Some(primary) = self.objects.get(&key(&object.gvk.kind, &object.name)) else { return };
        let mut request = Request {
            controller: controller.to_owned(),
            primary: Some(primary.to_string()),
            key: object,
            last_seen: None,
            observations: vec![],
            performed: vec![],
            last_failure: None,
            config: "{}".to_owned(),
        };
        for _ in 0..CALLS_MAX {
            // Invalid and transient ends are what the host retries.
            let Ok(reply) = run::<MachineClassPlugin>(request.clone()) else { return };
            match reply.step {
                Step::Observe(queries) => {
                    let answered =
                        queries.into_iter().map(|query| Observation { answer: self.answer(&query), query });
                    request.observations.extend(answered.collect::<Vec<_>>());
                }
                Step::Perform(actions) => {
                    for action in actions {
                        let Ok(outcome) = self.act(&action) else { return };
                        request.performed.push(Performed { action, outcome: Ok(outcome) });
                    }
                }
                Step::Finish(end) => {
                    for action in end.actions.iter().take(dies.unwrap_or(usize::MAX)) {
                        if self.act(action).is_err() {
                            return;
                        }
                    }
                    return;
                }
            }
        }
        self.broken.push(format!("a pass of {controller} does not end"));
    }

    fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Get(get) => {
                let found = self.objects.get(&key(&get.object.gvk.kind, &get.object.name));
                Answer::Object(found.map(Value::to_string))
            }
            Query::List(list) => {
                let label = list.labels.split_once('=');
                let matches = |object: &&Value| {
                    object["kind"] == *list.gvk.kind
                        && list.fields.iter().all(|field| {
                            let wanted: Value = serde_json::from_str(&field.value).expect("a value is JSON");
                            object.pointer(&field.pointer) == Some(&wanted)
                        })
                        && label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value)
                };
                Answer::Objects(self.objects.values().filter(matches).map(Value::to_string).collect())
            }
            Query::Clock => {
                let start = 1_767_225_600;
                let now =
                    evenkeel_sdk::jiff::Timestamp::from_second(start + self.minutes * 60).expect("a time");
                Answer::Time(now.to_string())
            }
            Query::External(query) => {
                let arguments: Value = serde_json::from_str(&query.arguments).expect("arguments are JSON");
                Answer::External(Ok(match query.question.as_str() {
                    "status" => self.cloud(text(&arguments, "/machine/uid")),
                    _ => {
                        let uid = text(&arguments, "/uid");
                        let keys: Vec<String> =
                            self.asked.get(uid).map(|uid| format!("create/{uid}")).into_iter().collect();
                        json!({"operations": keys}).to_string()
                    }
                }))
            }
        }
    }

    /// What the cloud says of a VM.
    fn cloud(&self, uid: &str) -> String {
        let failed =
            |code: &str| json!({"result": "failed", "code": code, "message": "so it is"}).to_string();
        if !self.cloud_works {
            return failed("Unavailable");
        }
        if !self.vms.contains(uid) {
            return failed("NotFound");
        }
        let machines = self.objects.values().filter(|object| object["kind"] == "Machine");
        let own = machines.into_iter().find(|object| text(object, "/metadata/uid") == uid);
        let name = own.map(|object| text(object, "/metadata/name")).unwrap_or_default();
        json!({"result": "done", "providerID": format!("sim:///{uid}"), "nodeName": name}).to_string()
    }

    fn act(&mut self, action: &Action) -> Result<Option<String>, Failure> {
        match action {
            Action::AddFinalizer(it) => {
                let object = self.find(&it.object.gvk.kind, &it.object.name)?;
                let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
                let mut finalizers = finalizers(object);
                if !finalizers.contains(&it.name) {
                    if deleting {
                        return Err(failure(FailureKind::Invalid));
                    }
                    finalizers.push(it.name.clone());
                }
                object["metadata"]["finalizers"] = json!(finalizers);
            }
            Action::RemoveFinalizer(it) => {
                if let Ok(object) = self.find(&it.object.gvk.kind, &it.object.name) {
                    let left: Vec<String> =
                        finalizers(object).into_iter().filter(|name| *name != it.name).collect();
                    object["metadata"]["finalizers"] = json!(left);
                    self.collect(&it.object.gvk.kind, &it.object.name);
                }
            }
            Action::Apply(apply) | Action::ApplyStatus(apply) => {
                let wanted: Value = serde_json::from_str(&apply.object).expect("an object is JSON");
                let object = self.find(text(&wanted, "/kind"), text(&wanted, "/metadata/name"))?;
                if wanted["kind"] == "Machine" && matches!(action, Action::ApplyStatus(_)) {
                    // All of it is this controller's: what it leaves out is taken away.
                    object["status"] = wanted["status"].clone();
                } else {
                    let there = object.pointer("/status/conditions").cloned();
                    merge(object, &wanted);
                    if let (Some(there), Some(applied)) = (there, wanted.pointer("/status/conditions")) {
                        object["status"]["conditions"] = by_type(&there, applied);
                    }
                }
            }
            Action::Patch(patch) => {
                let wanted: Value = serde_json::from_str(&patch.merge).expect("a patch is JSON");
                merge(self.find(&patch.object.gvk.kind, &patch.object.name)?, &wanted);
            }
            Action::Delete(it) => self.delete(&it.object.gvk.kind, &it.object.name),
            Action::External(operation) => {
                let arguments: Value =
                    serde_json::from_str(&operation.arguments).expect("arguments are JSON");
                return Ok(Some(self.operate(&operation.operation, &arguments)));
            }
            Action::Create(apply) => {
                let mut object: Value = serde_json::from_str(&apply.object).expect("an object is JSON");
                if self.find(text(&object, "/kind"), text(&object, "/metadata/name")).is_ok() {
                    return Err(failure(FailureKind::Conflict));
                }
                self.uids += 1;
                object["metadata"]["uid"] = format!("U{}", self.uids).into();
                self.create(object);
            }
            Action::Publish(_) | Action::Enqueue(_) => {}
        }
        Ok(None)
    }

    fn operate(&mut self, operation: &str, arguments: &Value) -> String {
        let uid = text(arguments, "/machine/uid").to_owned();
        match operation {
            "create" => {
                self.note_creation(text(arguments, "/machine/name"));
                self.asked.insert(uid.clone());
                if self.cloud_works {
                    self.vms.insert(uid.clone());
                }
            }
            "delete" if self.cloud_works => {
                self.vms.remove(&uid);
                return json!({"result": "done"}).to_string();
            }
            "token" => return json!({"token": "0123456789abcdef"}).to_string(),
            _ => {}
        }
        self.cloud(&uid)
    }

    /// M2: a VM is made of a class that is there, held, and not on its way out.
    pub fn note_creation(&mut self, machine: &str) {
        let class = self.objects.get(&key("MachineClass", "a"));
        let held = class.is_some_and(|class| {
            class.pointer("/metadata/deletionTimestamp").is_none()
                && finalizers(class).iter().any(|name| name == names::FINALIZER)
        });
        if !held {
            self.broken.push(format!("a VM of {machine} was made while its class was not held"));
        }
    }

    fn create(&mut self, object: Value) {
        self.objects.entry(key(text(&object, "/kind"), text(&object, "/metadata/name"))).or_insert(object);
    }

    fn find(&mut self, kind: &str, name: &str) -> Result<&mut Value, Failure> {
        self.objects.get_mut(&key(kind, name)).ok_or_else(|| failure(FailureKind::NotFound))
    }

    /// Takes away what is deleted and held by nobody.
    fn collect(&mut self, kind: &str, name: &str) {
        let key = key(kind, name);
        let gone = self.objects.get(&key).is_some_and(|object| {
            object.pointer("/metadata/deletionTimestamp").is_some() && finalizers(object).is_empty()
        });
        if gone {
            self.objects.remove(&key);
        }
    }
}

fn failure(kind: FailureKind) -> Failure {
    Failure { kind, message: "the API server says no".to_owned(), retry_after: None }
}

fn key(kind: &str, name: &str) -> Key {
    (kind.to_owned(), name.to_owned())
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The conditions of a status after some of them were applied.
fn by_type(there: &Value, applied: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let applied = list(applied);
    let mut all = list(there);
    all.retain(|condition| !applied.iter().any(|new| new["type"] == condition["type"]));
    all.extend(applied);
    all.into()
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    fields.remove(key);
                } else {
                    merge(fields.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}
