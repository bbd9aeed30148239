//! The vSphere machine: a VM is cloned, told its network, switched on, meddled with, and taken away.

use anyhow::Context;
use evenkeel_engine::Host;
use serde_json::{Value, json};

use super::far_end::{FarEnd, vm_of};
use super::heading;
use super::stage::{Kind, Stage};
use crate::output::say;

const NAMESPACE: &str = include_str!("../../../../../deploy/samples/capv-machine/namespace.yaml");
const MACHINE: &str = include_str!("../../../../../deploy/samples/capv-machine/machine.yaml");

/// Where the samples are.
const CLUSTER: &str = "cluster-a";
const MACHINES: Kind = Kind("infrastructure.reconcilers.dev/v1alpha1", "VSphereMachine");

/// What the operator says: the Secrets of that namespace may be read.
pub const SETTINGS: &str = "grant: {namespaces: [cluster-a]}";

/// What to try afterwards: the command, and what it shows.
pub const TRIES: &[(&str, &str)] = &[
    ("kubectl -n cluster-a get vspheremachines --watch", "the machine"),
    ("kubectl -n cluster-a describe vsm m-0", "its conditions and events"),
    ("kubectl -n cluster-a delete vsm m-0", "its VM goes first"),
    ("evenkeel explain VSphereMachine m-0 -n cluster-a", "why it did that, and what vCenter said"),
];

/// The machine of the samples.
fn machine() -> (Kind, Option<&'static str>, &'static str) {
    (MACHINES, Some(CLUSTER), "m-0")
}

/// A machine gets its VM.
pub async fn birth(stage: &mut Stage<'_>, far_end: &FarEnd) -> anyhow::Result<()> {
    let samples = "deploy/samples/capv-machine";
    say!("{}", heading(&format!("kubectl apply -f {samples}/namespace.yaml -f {samples}/machine.yaml")))?;
    stage.apply(NAMESPACE).await?;
    stage.apply_changed(MACHINE, |object| place(object, far_end)).await?;
    let is = |pointer: &'static str, wanted: &'static str| {
        move |object: &Value| object.pointer(pointer).and_then(Value::as_str) == Some(wanted)
    };
    let cloned = stage
        .object("the VM is cloned", machine(), |object| object["status"]["machineRef"].is_string())
        .await?;
    stage.object("it is switched on", machine(), is("/status/powerState", "poweredOn")).await?;
    far_end.guest_reports(cloned["status"]["machineRef"].as_str().unwrap_or_default(), "10.0.0.9")?;
    stage
        .object("its guest has an address", machine(), |object| {
            object["status"]["addresses"][0]["type"] == "ExternalIP"
        })
        .await?;
    stage.object("the machine is ready", machine(), |object| object["status"]["ready"] == true).await?;
    stage
        .object("it has its provider id", machine(), |object| object["spec"]["providerID"].is_string())
        .await?;
    Ok(())
}

/// Its network is changed, its VM is switched off behind its back, and it is deleted.
pub async fn life_and_death(stage: &mut Stage<'_>, far_end: &FarEnd, host: &Host) -> anyhow::Result<()> {
    let object = stage.get(MACHINES, Some(CLUSTER), "m-0").context("the machine is gone")?;
    let uuid = object["status"]["instanceUUID"].as_str().unwrap_or_default().to_owned();
    let metadata = |vm: &Value| vm["extraConfig"]["guestinfo.metadata"].clone();
    let before = metadata(&vm_of(host, &uuid).await?);
    let devices =
        json!([{"networkName": "/DC0/network/DC0_DVPG0", "dhcp4": true, "nameservers": ["10.0.0.53"]}]);
    let other = json!({"spec": {"network": {"devices": devices}}});
    say!("{}", heading(&format!("kubectl -n cluster-a patch vsm m-0 --type merge -p '{other}'")))?;
    stage.patch(MACHINES, Some(CLUSTER), "m-0", &other).await?;
    stage
        .until_asked("the guest's metadata is written anew", async || {
            let now = metadata(&vm_of(host, &uuid).await?);
            Ok(!now.is_null() && now != before)
        })
        .await?;
    if let FarEnd::Simulated(twin) = far_end {
        say!("{}", heading("Somebody switches the VM off in vCenter"))?;
        let vm = vm_of(host, &uuid).await?["vm"].clone();
        evenkeel_providers::twins::Twin::control(&**twin, &json!({"set-vm": {"vm": vm, "power": "off"}}))?;
        stage.until_asked("it is on again", async || Ok(vm_of(host, &uuid).await?["power"] == "on")).await?;
    }
    say!("{}", heading("kubectl -n cluster-a delete vsm m-0"))?;
    stage.delete(MACHINES, Some(CLUSTER), "m-0").await?;
    stage.gone(MACHINES, Some(CLUSTER), "m-0").await?;
    stage.until_asked("vCenter has no VM of it", async || Ok(vm_of(host, &uuid).await?.is_null())).await
}

/// Puts the machine where the far end has room for it.
fn place(object: &mut Value, far_end: &FarEnd) {
    let Some(site) = far_end.site() else { return };
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (field, value) in [
        ("datastore", site.datastore),
        ("folder", site.folder),
        ("resourcePool", site.resource_pool),
        ("template", &site.template),
    ] {
        spec.insert(field.to_owned(), value.into());
    }
    // The template's disk is larger.
    spec.remove("diskGiB");
}
