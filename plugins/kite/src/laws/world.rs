//! A model of an API server for one machine's life: objects, and which controller applied which fields of them.

use std::collections::BTreeMap;

use evenkeel_sdk::{Action, Answer, Gvk, ObjectRef, Observation, Query, Request, Step, run};
use serde_json::{Value, json};

use crate::Kite;
use crate::api::KiteVirtualMachine;
use crate::kinds::{DataVolume, VirtualMachine, VmService};

/// Every pass that the machine's objects can have.
pub const PASSES: [(&str, &str); 5] = [
    ("virtual-machine", "tenant-a/vm-a"),
    ("vm-status", "tenant-a/vm-a"),
    ("data-volume", "tenant-a/vm-a-disk"),
    ("vm-service", "tenant-a/vps-access-vm-a"),
    ("vm-service", "tenant-a/vps-web-vm-a"),
];

/// Every name that an action may be about.
pub const NAMES: [&str; 8] = [
    "vm-a",
    "vm-a-disk",
    "vm-a-cloud-init-userdata",
    "vm-a-guest-login",
    "vm-a-ssh-key",
    "vps-access-vm-a",
    "vps-web-vm-a",
    "kite-runtime-config",
];

/// Passes in which everything has to come to rest.
const ROUNDS_MAX: usize = 20;

type Key = (String, String);

pub struct World {
    objects: BTreeMap<Key, Value>,
    /// The leaves that a controller last applied to an object, by pointer.
    applied: BTreeMap<(String, Key, bool), Vec<String>>,
    others: Vec<Value>,
    uids: u32,
}

pub fn instance() -> Value {
    let labels = labels();
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "tenant-a", "name": "vm-a", "labels": labels}, "status": {"nodeName": "n1"}})
}

fn labels() -> Value {
    json!({"kite.anacnu.com/managed-by": "kite-controller", "kite.anacnu.com/kite-vm-name": "vm-a",
        "kite.anacnu.com/kite-vm-namespace": "tenant-a"})
}

impl World {
    pub fn new() -> Self {
        let others = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-a"}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "kite", "name": "ubuntu-22.04"},
                "spec": {"resources": {"requests": {"storage": "4Gi"}}}}),
        ];
        let mut world = Self { objects: BTreeMap::new(), applied: BTreeMap::new(), others, uids: 0 };
        world.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "tenant-a", "name": "vm-a-guest-login"},
            "data": {"passwordHash": "JDYkc2FsdCQxMjM0NTY3OA=="}}));
        world.put(json!({"apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
            "metadata": {"namespace": "tenant-a", "name": "vm-a", "uid": "U1", "generation": 1},
            "spec": {"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice"}}));
        world
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.to_owned(), name.to_owned()))
    }

    pub fn put(&mut self, mut object: Value) {
        let key = key_of(&object);
        self.uids += 1;
        if object["metadata"].get("uid").is_none() {
            object["metadata"]["uid"] = format!("X{}", self.uids).into();
        }
        self.objects.insert(key, object);
    }

    /// Somebody else's change, if the object is there.
    pub fn merge(&mut self, kind: &str, name: &str, patch: &Value) {
        if let Some(object) = self.objects.get_mut(&(kind.to_owned(), name.to_owned())) {
            merge(object, patch);
        }
    }

    pub fn delete(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        self.objects.remove(&key);
        self.applied.retain(|(_, of, _), _| *of != key);
    }

    pub fn edit_spec(&mut self, fields: &Value) {
        let machine = self.machine();
        let before = machine["spec"].clone();
        merge(&mut machine["spec"], fields);
        if machine["spec"] != before {
            let generation = machine["metadata"]["generation"].as_i64().unwrap_or_default();
            machine["metadata"]["generation"] = (generation + 1).into();
        }
    }

    pub fn mark_deleted(&mut self) {
        self.machine()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }

    fn machine(&mut self) -> &mut Value {
        let key = ("KiteVirtualMachine".to_owned(), "vm-a".to_owned());
        self.objects.get_mut(&key).expect("the machine is there")
    }

    /// What a pass concludes over the world as it is. Each call is made twice: equal input gives equal actions (130).
    ///
    /// The test helper `Check` does the same and describes the plugin anew each time, which is too slow for thousands.
    pub fn conclusion(&self, index: usize) -> Vec<Action> {
        let (controller, key) = PASSES[index];
        let (namespace, name) = key.split_once('/').expect("a key has a namespace");
        let gvk = primary(controller);
        let key = ObjectRef { gvk, namespace: Some(namespace.to_owned()), name: name.to_owned() };
        let mut request = Request {
            controller: controller.to_owned(),
            primary: self.find(&key).map(Value::to_string),
            key,
            last_seen: None,
            observations: Vec::new(),
            performed: Vec::new(),
            last_failure: None,
            config: "{}".to_owned(),
        };
        for _ in 0..ROUNDS_MAX {
            let reply = run::<Kite>(request.clone());
            assert_eq!(reply, run::<Kite>(request.clone()));
            match reply.expect("a pass concludes").step {
                Step::Observe(queries) => {
                    let answered =
                        queries.into_iter().map(|query| Observation { answer: self.answer(&query), query });
                    request.observations.extend(answered);
                }
                Step::Finish(end) => return end.actions,
                Step::Perform(_) => panic!("Kite does nothing in the middle of a pass"),
            }
        }
        panic!("the pass asks in a circle");
    }

    fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Get(get) => Answer::Object(self.find(&get.object).map(Value::to_string)),
            // The only list is that of the machines that claim a prefix: this one.
            Query::List(_) => Answer::Objects(
                self.get("KiteVirtualMachine", "vm-a").map(Value::to_string).into_iter().collect(),
            ),
            Query::Clock => Answer::Time("2026-01-01T00:00:00Z".to_owned()),
            Query::External(_) => panic!("Kite asks no provider"),
        }
    }

    fn find(&self, at: &ObjectRef) -> Option<&Value> {
        let is_it = |object: &&Value| {
            let metadata = &object["metadata"];
            object["kind"] == at.gvk.kind
                && metadata["name"] == at.name
                && metadata["namespace"].as_str() == at.namespace.as_deref()
        };
        self.others.iter().chain(self.objects.values()).find(is_it)
    }

    /// Runs a pass and does what it concludes; whether that changed anything.
    pub fn pass(&mut self, index: usize) -> bool {
        let before = (self.objects.clone(), self.applied.clone());
        for action in self.conclusion(index) {
            self.act(PASSES[index].0, &action);
        }
        before != (self.objects.clone(), self.applied.clone())
    }

    /// Runs every pass once; how many changed something.
    pub fn round(&mut self) -> usize {
        (0..PASSES.len()).filter(|index| self.pass(*index)).count()
    }

    /// Runs passes until none changes anything.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if self.round() == 0 {
                return;
            }
        }
        panic!("the controllers do not come to rest:\n{}", self.summary());
    }

    /// What a person sees of the machine.
    pub fn summary(&self) -> String {
        let Some(machine) = self.get("KiteVirtualMachine", "vm-a") else { return "gone".to_owned() };
        let status = &machine["status"];
        let word = |key: &str| status[key].as_str().unwrap_or("none");
        let mut text = format!("{} {} {}", word("phase"), word("currentPowerState"), word("nodeName"));
        for type_ in ["VirtualMachineReady", "ResourcesApplied", "DiskReady"] {
            let condition =
                status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == type_);
            let reason = condition.and_then(|c| c["reason"].as_str()).unwrap_or("none");
            text += &format!(" {type_}={reason}");
        }
        text
    }

    /// What is still there.
    pub fn left(&self) -> Vec<String> {
        self.objects.keys().map(|(kind, name)| format!("{kind}/{name}")).collect()
    }

    fn act(&mut self, controller: &str, action: &Action) {
        match action {
            Action::Create(apply) | Action::Apply(apply) => {
                let mut object: Value =
                    serde_json::from_str(&apply.object).expect("an action's object is JSON");
                if apply.controlled {
                    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
                        "name": "vm-a", "uid": "U1", "controller": true, "blockOwnerDeletion": true}]);
                }
                self.apply(controller, &object, false);
            }
            Action::ApplyStatus(apply) => {
                let object: Value = serde_json::from_str(&apply.object).expect("an action's object is JSON");
                if self.objects.contains_key(&key_of(&object)) {
                    self.apply(controller, &object, true);
                }
            }
            Action::Delete(deletion) => {
                let ObjectRef { gvk, name, .. } = &deletion.object;
                self.delete(&gvk.kind, name);
            }
            Action::AddFinalizer(finalizer) => {
                self.machine()["metadata"]["finalizers"] = json!([finalizer.name])
            }
            Action::RemoveFinalizer(_) => self.delete("KiteVirtualMachine", "vm-a"),
            Action::Patch(patch) => {
                let body: Value = serde_json::from_str(&patch.merge).expect("a patch is JSON");
                self.merge(&patch.object.gvk.kind.clone(), &patch.object.name.clone(), &body);
            }
            Action::Publish(_) | Action::Enqueue(_) | Action::External(_) => {}
        }
    }

    /// Server-side apply, forced: fields that this controller no longer applies go, unless another one applies them.
    fn apply(&mut self, controller: &str, object: &Value, status: bool) {
        let key = key_of(object);
        if !self.objects.contains_key(&key) {
            self.put(object.clone());
        }
        let mut leaves = Vec::new();
        flatten("", object, &mut leaves);
        let pointers: Vec<String> = leaves.iter().map(|(pointer, _)| pointer.clone()).collect();
        let owner = (controller.to_owned(), key.clone(), status);
        let before = self.applied.insert(owner.clone(), pointers.clone()).unwrap_or_default();
        let others: Vec<_> = self
            .applied
            .iter()
            .filter(|(other, _)| other.1 == key && **other != owner)
            .flat_map(|(_, p)| p)
            .collect();
        let dropped: Vec<_> = before
            .iter()
            .filter(|pointer| !pointers.contains(pointer) && !others.contains(pointer))
            .collect();
        let live = self.objects.get_mut(&key).expect("it was put above");
        for pointer in dropped {
            remove(live, pointer);
        }
        merge_applied(live, object);
    }
}

fn primary(controller: &str) -> Gvk {
    use evenkeel_sdk::Kind;
    match controller {
        "virtual-machine" => KiteVirtualMachine::gvk(),
        "vm-status" => VirtualMachine::gvk(),
        "data-volume" => DataVolume::gvk(),
        _ => VmService::gvk(),
    }
}

fn key_of(object: &Value) -> Key {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (word(&object["kind"]), word(&object["metadata"]["name"]))
}

/// The leaves of an object; conditions are told apart by their type, other lists are one leaf.
fn flatten(at: &str, value: &Value, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&format!("{at}/{key}"), value, into))
        }
        Value::Array(items) if at.ends_with("/conditions") => {
            for item in items {
                into.push((format!("{at}/{}", item["type"].as_str().unwrap_or_default()), item.clone()));
            }
        }
        other => into.push((at.to_owned(), other.clone())),
    }
}

fn merge_applied(live: &mut Value, applied: &Value) {
    let Value::Object(fields) = applied else { return *live = applied.clone() };
    if !live.is_object() {
        *live = json!({});
    }
    for (key, value) in fields {
        if key == "conditions" && live[key].is_array() {
            for condition in value.as_array().into_iter().flatten() {
                let list = live[key].as_array_mut().expect("it is a list");
                match list.iter_mut().find(|old| old["type"] == condition["type"]) {
                    Some(old) => *old = condition.clone(),
                    None => list.push(condition.clone()),
                }
            }
        } else {
            merge_applied(&mut live[key], value);
        }
    }
}

/// Takes a leaf away.
fn remove(live: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    // Keys with a slash of their own are labels and annotations, which are never dropped here.
    match live.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(last);
        }
        Some(Value::Array(items)) => items.retain(|item| item["type"] != last),
        _ => {}
    }
}

/// A JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().expect("it was made one").remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
