//! Kite: a user and a virtual machine come to life, are meddled with, and go.

use serde_json::json;

use super::heading;
use super::stage::{Kind, Stage};
use crate::output::say;

const PLATFORM: &str = include_str!("../../../../../deploy/samples/kite/platform.yaml");
const USER: &str = include_str!("../../../../../deploy/samples/kite/user.yaml");
const MACHINE: &str = include_str!("../../../../../deploy/samples/kite/machine.yaml");

/// The kinds of the story by their names.
const NAMESPACE: Kind = Kind("v1", "Namespace");
const SECRET: Kind = Kind("v1", "Secret");
const SERVICE: Kind = Kind("v1", "Service");
const INGRESS: Kind = Kind("networking.k8s.io/v1", "Ingress");
const POLICY: Kind = Kind("networking.k8s.io/v1", "NetworkPolicy");
const QUOTA: Kind = Kind("v1", "ResourceQuota");
const USERS: Kind = Kind("anacnu.com/v1", "KiteUser");
const MACHINES: Kind = Kind("anacnu.com/v1", "KiteVirtualMachine");
const VM: Kind = Kind("kubevirt.io/v1", "VirtualMachine");
const DISK: Kind = Kind("cdi.kubevirt.io/v1beta1", "DataVolume");

/// The tenant of the samples.
const TENANT: &str = "tenant-ann";

/// What to try afterwards: the command, and what it shows.
pub const TRIES: &[(&str, &str)] = &[
    ("kubectl get kiteusers,kitevirtualmachines -A", "the two of them"),
    ("kubectl -n tenant-ann get all,secrets,ingresses,datavolumes", "what Kite made of them"),
    ("kubectl -n tenant-ann delete service vps-web-web", "it comes back"),
    (
        "kubectl -n tenant-ann patch ktvm web --type merge -p '{\"spec\":{\"powerState\":\"Off\"}}'",
        "it stops",
    ),
    ("kubectl -n tenant-ann delete ktvm web", "clean deletion"),
    ("evenkeel explain KiteVirtualMachine web -n tenant-ann", "why it did that"),
];

/// A user and a machine come to life.
pub async fn birth(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    say!(
        "{}",
        heading("kubectl apply -f deploy/samples/kite/platform.yaml -f deploy/samples/kite/user.yaml")
    )?;
    stage.apply(PLATFORM).await?;
    stage.apply(USER).await?;
    stage.state("the user is Ready", USERS, None, "ann", "/status/phase", "Ready").await?;
    for (kind, name) in [
        (POLICY, "deny-from-other-namespaces"),
        (POLICY, "tenant-isolation-egress"),
        (QUOTA, "kite-user-quota-policy"),
    ] {
        stage.there(kind, Some(TENANT), name).await?;
    }
    say!("{}", heading("kubectl apply -f deploy/samples/kite/machine.yaml"))?;
    stage.apply(MACHINE).await?;
    stage
        .state("the disk is imported", MACHINES, Some(TENANT), "web", "/status/dataVolumePhase", "Succeeded")
        .await?;
    stage.state("the machine runs", MACHINES, Some(TENANT), "web", "/status/phase", "Running").await?;
    let domain = "web-ann.example.test";
    stage.state("it has a domain", MACHINES, Some(TENANT), "web", "/status/domain", domain).await?;
    for (kind, name) in [
        (DISK, "web-disk"),
        (SECRET, "web-cloud-init-userdata"),
        (VM, "web"),
        (SERVICE, "vps-access-web"),
        (SERVICE, "vps-web-web"),
        (INGRESS, "web"),
    ] {
        stage.there(kind, Some(TENANT), name).await?;
    }
    Ok(())
}

/// The machine is meddled with, stopped and deleted, and its user goes.
pub async fn life_and_death(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    say!("{}", heading("kubectl -n tenant-ann delete service vps-web-web"))?;
    let before = stage.uid(SERVICE, Some(TENANT), "vps-web-web");
    stage.delete(SERVICE, Some(TENANT), "vps-web-web").await?;
    stage
        .until("the Service is back", |stage| {
            let now = stage.uid(SERVICE, Some(TENANT), "vps-web-web");
            now.is_some() && now != before
        })
        .await?;
    say!(
        "{}",
        heading("kubectl -n tenant-ann patch ktvm web --type merge -p '{\"spec\":{\"powerState\":\"Off\"}}'")
    )?;
    stage.patch(MACHINES, Some(TENANT), "web", &json!({"spec": {"powerState": "Off"}})).await?;
    stage.state("the machine is stopped", MACHINES, Some(TENANT), "web", "/status/phase", "Stopped").await?;
    say!("{}", heading("kubectl -n tenant-ann delete ktvm web"))?;
    stage.delete(MACHINES, Some(TENANT), "web").await?;
    for (kind, name) in [
        (MACHINES, "web"),
        (VM, "web"),
        (DISK, "web-disk"),
        (SECRET, "web-cloud-init-userdata"),
        (SERVICE, "vps-access-web"),
        (INGRESS, "web"),
    ] {
        stage.gone(kind, Some(TENANT), name).await?;
    }
    // A namespace outlives its user for so long; nobody wants to wait a minute for the end of a demo.
    let config = json!({"data": {"orphanNamespaceGraceSeconds": "1"}});
    say!(
        "{}",
        heading(&format!("kubectl -n kite patch configmap kite-runtime-config --type merge -p '{config}'"))
    )?;
    stage.patch(Kind("v1", "ConfigMap"), Some("kite"), "kite-runtime-config", &config).await?;
    say!("{}", heading("kubectl delete kiteuser ann"))?;
    stage.delete(USERS, None, "ann").await?;
    stage.gone(USERS, None, "ann").await?;
    stage.gone(NAMESPACE, None, TENANT).await
}
