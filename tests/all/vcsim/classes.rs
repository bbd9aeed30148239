//! Machine classes and their machines, each machine a VM of vcsim.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ground::Ground;
use crate::world::{CLASSES, Family, MACHINES, NODES, PASSWORD, SECRETS, World, together};

/// What no output may hold: in the Secret it is in base64.
const MARKER: &str = "bWFya2VyLW9mLXVzZXItZGF0YQ";

/// The finalizer of classes and machines.
const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";

impl World {
    async fn classes(ground: &Ground, test: &str) -> Option<World> {
        Self::classes_with(ground, test, json!({})).await
    }

    async fn classes_with(ground: &Ground, test: &str, config: Value) -> Option<World> {
        let world = World::start_with(ground, Family::MachineClass, test, PASSWORD, config).await?;
        world.make(SECRETS, "user-data", json!({"data": {"userData": format!("{MARKER}==")}})).await;
        let class = json!({
            "provider": "vsphere",
            "providerSpec": {
                "server": "vc", "datacenter": "/DC0", "template": world.vcsim.template(),
                "datastore": "/DC0/datastore/LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources",
                "networks": ["/DC0/network/DC0_DVPG0"], "numCpus": 2, "memoryMib": 2048,
            },
            "secretRef": {"namespace": world.namespace, "name": "user-data"},
        });
        world.make(CLASSES, "small", class).await;
        Some(world)
    }

    /// Nodes are in no namespace, and stories share a cluster.
    fn named(&self, number: u32) -> String {
        format!("{}-m{number}", self.namespace)
    }

    async fn order(&self, name: &str) {
        self.make(MACHINES, name, json!({"spec": {"class": {"kind": "MachineClass", "name": "small"}}}))
            .await;
    }

    async fn phase(&self, name: &str, phase: &str) -> Value {
        let is = |machine: &Value| machine["status"]["currentStatus"]["phase"] == phase;
        self.until(MACHINES, name, &format!("is {phase}"), is).await
    }

    /// Its VM boots, and its Node joins.
    async fn joins(&self, name: &str) {
        self.phase(name, "Pending").await;
        self.make(NODES, name, json!({})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.patch_status(NODES, name, ready).await;
        self.phase(name, "Running").await;
    }

    async fn goes(&self, name: &str) {
        self.delete(MACHINES, name).await;
        self.until_gone(MACHINES, name).await;
        self.until_gone(NODES, name).await;
    }
}

fn is_held(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| {
        all.iter().filter_map(Value::as_str).any(|name| name.starts_with("machine.sapcloud.io/"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_a_class_becomes_a_vm_and_nothing_of_it_remains() {
    life(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_and_its_secret_are_held_until_the_last_of_twenty_machines_is_gone() {
    held_until_the_last_machine_is_gone(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_machine_controller_finds_its_classes_held() {
    upstreams_machine_controller(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_a_class_that_is_deleted_while_its_vm_is_cloned_leaves_none() {
    deleted_while_cloning(&Ground::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_whose_machine_was_taken_away_by_force_is_found_and_deleted() {
    orphan(&Ground::embedded()).await;
}

pub async fn life(ground: &Ground) {
    let Some(world) = World::classes(ground, "a class' machine").await else { return };
    let name = world.named(0);
    world.order(&name).await;
    world.joins(&name).await;
    let machine = world.get(MACHINES, &name).await.expect("the machine");
    assert!(
        machine["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with("vsphere:///")),
        "{machine:#}"
    );
    assert_eq!(["CloneVM_Task", "PowerOnVM_Task"].map(|method| world.calls(method)), [1, 1]);
    world.goes(&name).await;
    assert_eq!(["PowerOffVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [1, 1]);
    world.delete(CLASSES, "small").await;
    world.until_gone(CLASSES, "small").await;
    world.until(SECRETS, "user-data", "is free", |secret| !is_held(secret)).await;
    let outputs = world.outputs();
    assert!(!outputs.contains(MARKER), "the Secret's data is put out");
    assert!(outputs.contains("create") && outputs.contains("vsphere:///"), "the traffic is there");
}

pub async fn held_until_the_last_machine_is_gone(ground: &Ground) {
    let Some(world) = World::classes(ground, "twenty machines of a class").await else { return };
    let names: Vec<String> = (0..20).map(|number| world.named(number)).collect();
    let began = Instant::now();
    together(names.iter().map(|name| world.order(name))).await;
    together(names.iter().map(|name| world.joins(name))).await;
    let there = began.elapsed();
    world.delete(CLASSES, "small").await;
    let (last, others) = names.split_last().expect("twenty");
    together(others.iter().map(|name| world.goes(name))).await;
    let (gone, timed, calls) = (began.elapsed() - there, world.timed_passes(), world.all_calls());
    eprintln!(
        "20 machines of a class: there in {there:?}, gone in {gone:?}, {timed} passes by a timer, {} calls each: {}",
        calls / 20,
        world.vcsim.calls().expect("calls")
    );
    assert!(is_held(&world.get(CLASSES, "small").await.expect("the class is in use")));
    assert!(is_held(&world.get(SECRETS, "user-data").await.expect("so is its Secret")));
    world.goes(last).await;
    world.until_gone(CLASSES, "small").await;
    world.until(SECRETS, "user-data", "is free", |secret| !is_held(secret)).await;
    assert_eq!(["CloneVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [20, 20]);
}

/// The plugin holds classes and Secrets; the test is the machine controller of upstream, by its own rules: it waits for
/// the finalizer of the class before it makes a VM, and asks nobody before it lets its machine go.
pub async fn upstreams_machine_controller(ground: &Ground) {
    let settings = json!({"machines": false, "enqueue": "never"});
    let Some(world) = World::classes_with(ground, "an upstream machine controller", settings).await else {
        return;
    };
    let name = world.named(0);
    world.until(SECRETS, "user-data", "is held", is_held).await;
    let machine = json!({"metadata": {"finalizers": [FINALIZER]},
        "spec": {"class": {"kind": "MachineClass", "name": "small"}}});
    world.make(MACHINES, &name, machine).await;
    world.until(CLASSES, "small", "is held", is_held).await;
    world.patch(MACHINES, &name, json!({"spec": {"providerID": "aws:///i-1"}})).await;
    world.patch_status(MACHINES, &name, json!({"status": {"currentStatus": {"phase": "Running"}}})).await;
    world.delete(CLASSES, "small").await;
    world.delete(MACHINES, &name).await;
    // It drains for a while, and the class has to be there for it.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(is_held(&world.get(CLASSES, "small").await.expect("the class is in use")));
    let machine = world.get(MACHINES, &name).await.expect("the machine is upstream's");
    assert_eq!(
        (&machine["metadata"]["finalizers"], &machine["status"]["currentStatus"]["phase"]),
        (&json!([FINALIZER]), &json!("Running")),
        "nobody else touches it"
    );
    world.patch(MACHINES, &name, json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(MACHINES, &name).await;
    world.until_gone(CLASSES, "small").await;
    world.until(SECRETS, "user-data", "is free", |secret| !is_held(secret)).await;
    assert_eq!(world.all_calls(), 0, "vCenter was never asked");
}

/// Nobody waits for the clone: its end runs the pass that takes the VM away.
pub async fn deleted_while_cloning(ground: &Ground) {
    let Some(world) = World::classes(ground, "a machine deleted while it is cloned").await else { return };
    world.vcsim.control("task-delay?CloneVm=1500").expect("a delay");
    let name = world.named(0);
    world.order(&name).await;
    let is_cloned = |machine: &Value| {
        let last = &machine["status"]["lastOperation"];
        last["state"] == "Processing" && last["type"] == "Create"
    };
    world.until(MACHINES, &name, "says that it is made", is_cloned).await;
    world.delete(MACHINES, &name).await;
    world.until_gone(MACHINES, &name).await;
    assert_eq!(["CloneVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [1, 1]);
}

pub async fn orphan(ground: &Ground) {
    let Some(world) = World::classes(ground, "a VM without its machine").await else { return };
    let (kept, lost) = (world.named(0), world.named(1));
    for name in [&kept, &lost] {
        world.order(name).await;
        world.joins(name).await;
    }
    world.settings(json!({"machines": false})).await;
    world.patch(MACHINES, &lost, json!({"metadata": {"finalizers": null}})).await;
    world.delete(MACHINES, &lost).await;
    world.until_gone(MACHINES, &lost).await;
    world.settings(json!({"orphans": "2s", "shortRetry": "1s"})).await;
    world.until(CLASSES, "small", "has its orphan deleted", |_| world.calls("Destroy_Task") == 1).await;
    world.goes(&kept).await;
    assert_eq!(["CloneVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [2, 2]);
}
