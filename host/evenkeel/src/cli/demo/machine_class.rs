//! The machine class: a class and its Secrets are held while a machine uses them, and go with it.

use serde_json::{Value, json};

use super::far_end::FarEnd;
use super::heading;
use super::stage::{Kind, Stage};
use crate::output::say;

const CLASS: &str = include_str!("../../../../../deploy/samples/machine-class/class.yaml");
const MACHINE: &str = include_str!("../../../../../deploy/samples/machine-class/machine.yaml");

/// Where the samples are.
const SHOOT: &str = "shoot";
const CLASSES: Kind = Kind("machine.sapcloud.io/v1alpha1", "MachineClass");
const MACHINES: Kind = Kind("machine.sapcloud.io/v1alpha1", "Machine");
const SECRETS: Kind = Kind("v1", "Secret");
const NODES: Kind = Kind("v1", "Node");

/// What the operator says: which Secrets may be read.
pub const SETTINGS: &str = include_str!("../../../../../deploy/samples/machine-class/grant.yaml");

/// What to try afterwards: the command, and what it shows.
pub const TRIES: &[(&str, &str)] = &[
    ("kubectl -n shoot get machineclasses,machines", "the class and its machine"),
    ("kubectl -n shoot delete machineclass small --wait=false", "it stays while a machine uses it"),
    ("kubectl -n shoot delete machine worker-1", "VM, Node, machine and class go, in this order"),
    ("evenkeel explain Machine worker-1 -n shoot", "why it did that, and what the cloud said"),
];

/// The drivers that the story needs, by what the class calls its `provider`.
pub fn drivers(far_end: &FarEnd) -> Value {
    match far_end {
        FarEnd::Vcsim(_) => json!({"vsphere": {"driver": "vsphere"}}),
        FarEnd::None | FarEnd::Simulated(_) | FarEnd::Device(_) => json!({"sim": {"driver": "simulated"}}),
    }
}

/// A class is held, and its machine joins.
pub async fn birth(stage: &mut Stage<'_>, far_end: &FarEnd) -> anyhow::Result<()> {
    say!("{}", heading("kubectl apply -f deploy/samples/machine-class/class.yaml"))?;
    stage.apply_changed(CLASS, |object| place(object, far_end)).await?;
    for secret in ["small-user-data", "cloud"] {
        stage.object(&format!("the Secret {secret} is held"), of(SECRETS, secret), is_held).await?;
    }
    say!("{}", heading("kubectl apply -f deploy/samples/machine-class/machine.yaml"))?;
    stage.apply(MACHINE).await?;
    stage.object("the class is held", of(CLASSES, "small"), is_held).await?;
    stage
        .object("a VM is made", of(MACHINES, "worker-1"), |object| object["spec"]["providerID"].is_string())
        .await?;
    say!("{}", heading("The VM boots, and its Node joins"))?;
    stage.apply("{apiVersion: v1, kind: Node, metadata: {name: worker-1}}").await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    stage.patch_status((NODES, None, "worker-1"), &ready).await?;
    let phase = |wanted: &'static str| {
        move |object: &Value| object["status"]["currentStatus"]["phase"].as_str() == Some(wanted)
    };
    stage.object("the machine runs", of(MACHINES, "worker-1"), phase("Running")).await?;
    stage
        .object("the Node bears what the machine says", (NODES, None, "worker-1"), |object| {
            object["metadata"]["labels"]["pool"] == "worker"
        })
        .await?;
    Ok(())
}

/// The class is deleted in use, and goes with its last machine.
pub async fn life_and_death(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    say!("{}", heading("kubectl -n shoot delete machineclass small --wait=false"))?;
    stage.delete(CLASSES, Some(SHOOT), "small").await?;
    stage.event("it stays, and says who uses it", SHOOT, "StillReferenced").await?;
    stage.object("the class is still held", of(CLASSES, "small"), is_held).await?;
    say!("{}", heading("kubectl -n shoot delete machine worker-1"))?;
    stage.delete(MACHINES, Some(SHOOT), "worker-1").await?;
    stage.gone(MACHINES, Some(SHOOT), "worker-1").await?;
    stage.gone(NODES, None, "worker-1").await?;
    stage.gone(CLASSES, Some(SHOOT), "small").await?;
    for secret in ["small-user-data", "cloud"] {
        let is_free = |object: &Value| !is_held(object);
        stage.object(&format!("the Secret {secret} is free"), of(SECRETS, secret), is_free).await?;
    }
    Ok(())
}

fn of(kind: Kind, name: &str) -> (Kind, Option<&str>, &str) {
    (kind, Some(SHOOT), name)
}

/// Whether a finalizer of the family keeps it.
fn is_held(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| {
        all.iter().filter_map(Value::as_str).any(|name| name.starts_with("machine.sapcloud.io/"))
    })
}

/// Has the class' VMs made where the far end has room for them.
fn place(object: &mut Value, far_end: &FarEnd) {
    let (Some(site), true) = (far_end.site(), object["kind"] == "MachineClass") else { return };
    object["provider"] = "vsphere".into();
    object["providerSpec"] = json!({
        "server": "vc.example.test", "datacenter": "/DC0", "template": site.template, "folder": site.folder,
        "datastore": site.datastore, "resourcePool": site.resource_pool,
        "networks": ["/DC0/network/DC0_DVPG0"], "numCpus": 2, "memoryMib": 2048,
    });
}
