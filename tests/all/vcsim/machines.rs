//! vSphere machines from their objects to their VMs and back.

use serde_json::{Value, json};

use crate::ground::Ground;
use crate::world::{Family, PASSWORD, SECRETS, VSPHERE_MACHINES, World, condition, spec, together};

/// Calls that a machine may cost from its creation until it is ready, waiting left out. A single one was seen to take 35.
const CALLS_MAX: u64 = 40;

/// What no output may hold: in the Secret it is in base64.
const MARKER: &str = "bWFya2VyLW9mLXVzZXItZGF0YQ";

impl World {
    async fn machines(ground: &Ground, test: &str, password: &str) -> Option<World> {
        World::start(ground, Family::VsphereMachine, test, password).await
    }

    pub async fn create(&self, name: &str) {
        self.create_with(name, json!({})).await;
    }

    pub async fn create_with(&self, name: &str, more: Value) {
        let mut machine = json!({
            "server": "vc", "datacenter": "/DC0", "template": self.vcsim.template(), "cloneMode": "fullClone",
            "datastore": "/DC0/datastore/LocalDS_0", "resourcePool": "/DC0/host/DC0_C0/Resources",
            "numCPUs": 2, "memoryMiB": 2048,
            "network": {"devices": [{"networkName": "/DC0/network/DC0_DVPG0", "dhcp4": true}]},
        });
        more.as_object().into_iter().flatten().for_each(|(name, value)| machine[name] = value.clone());
        self.make(VSPHERE_MACHINES, name, spec(machine)).await;
    }

    async fn machine(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(VSPHERE_MACHINES, name, what, wanted).await
    }

    /// Waits until its VM runs, has its guest report an address, and waits until it is ready.
    pub async fn ready(&self, name: &str, address: &str) -> Value {
        let on = self
            .machine(name, "has a VM that runs", |machine| machine["status"]["powerState"] == "poweredOn")
            .await;
        let vm = on["status"]["machineRef"].as_str().expect("a VM").to_owned();
        self.vcsim.control(&format!("guest-ip?vm={vm}&card=0&ip={address}")).expect("an address");
        self.machine(name, "is ready", |machine| machine["status"]["ready"] == true).await
    }

    async fn cloning(&self, name: &str) {
        self.machine(name, "is cloned", |machine| machine["status"]["taskRef"].is_string()).await;
    }

    pub async fn take_away(&self, name: &str) {
        self.delete(VSPHERE_MACHINES, name).await;
        self.until_gone(VSPHERE_MACHINES, name).await;
    }
}

macro_rules! on_the_embedded_api_server {
    ($($story:ident: $name:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            $story(&Ground::embedded()).await;
        }
    )*};
}
on_the_embedded_api_server! {
    life: a_machine_gets_its_vm_keeps_it_up_to_date_and_takes_it_away;
    twenty_at_once: twenty_machines_at_once_get_a_vm_each_and_leave_none;
    wrong_password: a_wrong_password_is_told_and_the_right_one_is_taken_up;
    dropped_session: a_session_that_is_dropped_during_a_clone_costs_nothing;
    killed_vcenter: a_vcenter_that_is_killed_midway_and_comes_back_empty_is_taken_up_again;
    killed_host: a_host_that_is_killed_during_a_clone_makes_no_second_vm;
}

pub async fn life(ground: &Ground) {
    let Some(world) = World::machines(ground, "a machine's life", PASSWORD).await else { return };
    world.make(SECRETS, "boot", json!({"data": {"value": format!("{MARKER}==")}})).await;
    world.create_with("m-0", json!({"bootstrapRef": {"name": "boot"}})).await;
    let machine = world.ready("m-0", "10.0.0.9").await;
    assert_eq!(machine["status"]["addresses"][0], json!({"type": "ExternalIP", "address": "10.0.0.9"}));
    assert!(
        machine["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with("vsphere://")),
        "{machine:#}"
    );
    let started = ["CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"].map(|method| world.calls(method));
    assert_eq!(started, [1, 1, 1]);
    let calls = world.all_calls();
    eprintln!("from creation to ready: {calls} calls: {}", world.vcsim.calls().expect("calls"));
    assert!(calls <= CALLS_MAX, "{calls} calls: {}", world.vcsim.calls().expect("calls"));

    let devices =
        json!([{"networkName": "/DC0/network/DC0_DVPG0", "dhcp4": true, "nameservers": ["10.0.0.53"]}]);
    world.patch(VSPHERE_MACHINES, "m-0", json!({"spec": {"network": {"devices": devices}}})).await;
    world.machine("m-0", "has its new network told", |_| world.calls("ReconfigVM_Task") == 2).await;
    world.take_away("m-0").await;
    assert_eq!(["PowerOffVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [1, 1]);
    let outputs = world.outputs();
    assert!(!outputs.contains(MARKER), "the user data is put out");
    assert!(!outputs.contains(&format!("\"{PASSWORD}\"")), "the password is put out");
    assert!(
        outputs.contains("CloneVM_Task") && outputs.contains("guestinfo.metadata"),
        "the traffic is there"
    );
}

pub async fn twenty_at_once(ground: &Ground) {
    let Some(world) = World::machines(ground, "twenty machines", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=300&PowerOn=100").expect("a delay");
    let names: Vec<String> = (0..20).map(|number| format!("m-{number}")).collect();
    together(names.iter().map(|name| world.create(name))).await;
    let ready = names.iter().enumerate();
    let machines =
        together(ready.map(async |(number, name)| world.ready(name, &format!("10.0.1.{number}")).await))
            .await;
    let mut vms: Vec<String> =
        machines.iter().map(|machine| machine["status"]["machineRef"].to_string()).collect();
    vms.sort();
    vms.dedup();
    assert_eq!(vms.len(), 20);
    let calls = world.all_calls();
    eprintln!("20 machines at once: {} calls each", calls / 20);
    assert!(calls / 20 <= CALLS_MAX, "{calls} calls: {}", world.vcsim.calls().expect("calls"));
    together(names.iter().map(|name| world.take_away(name))).await;
    assert_eq!(["CloneVM_Task", "Destroy_Task"].map(|method| world.calls(method)), [20, 20]);
}

pub async fn wrong_password(ground: &Ground) {
    let Some(world) = World::machines(ground, "a wrong password", "wrong").await else { return };
    world.create("m-0").await;
    let tells = |machine: &Value| condition(machine, "VCenterAvailable").0 == "False";
    let machine = world.machine("m-0", "tells of the password", tells).await;
    let (_, reason, message) = condition(&machine, "VCenterAvailable");
    assert_eq!(reason, "VCenterUnreachable");
    assert!(message.contains("the user name or the password is wrong"), "{message}");
    assert!(!message.contains("wrong\""), "{message}");
    world.password.set(PASSWORD);
    world.ready("m-0", "10.0.0.9").await;
    world.take_away("m-0").await;
}

pub async fn dropped_session(ground: &Ground) {
    let Some(world) = World::machines(ground, "a dropped session", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=1500").expect("a delay");
    world.create("m-0").await;
    world.cloning("m-0").await;
    world.vcsim.control("drop-sessions").expect("no sessions");
    world.ready("m-0", "10.0.0.9").await;
    assert_eq!(world.calls("CloneVM_Task"), 1);
    world.take_away("m-0").await;
}

pub async fn killed_vcenter(ground: &Ground) {
    let Some(mut world) = World::machines(ground, "a killed vCenter", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=5000").expect("a delay");
    world.create("m-0").await;
    world.cloning("m-0").await;
    world.vcsim.kill();
    let is_away = |machine: &Value| condition(machine, "VCenterAvailable").0 == "False";
    let machine = world.machine("m-0", "tells that vCenter is away", is_away).await;
    assert!(machine["status"]["taskRef"].is_string(), "a lookup that fails decides nothing: {machine:#}");
    world.vcsim.restart().expect("it comes back");
    world.ready("m-0", "10.0.0.9").await;
    world.take_away("m-0").await;
}

pub async fn killed_host(ground: &Ground) {
    let Some(mut world) = World::machines(ground, "a killed host", PASSWORD).await else { return };
    world.vcsim.control("task-delay?CloneVm=1500").expect("a delay");
    world.create("m-0").await;
    world.machine("m-0", "is about to be cloned", |_| world.calls("CloneVM_Task") == 1).await;
    world.restart_host().await;
    world.ready("m-0", "10.0.0.9").await;
    world.take_away("m-0").await;
    assert_eq!(world.calls("Destroy_Task"), 1, "one VM was there to be destroyed");
}
