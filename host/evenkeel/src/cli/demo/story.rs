//! What a person would do with kubectl, and the states that must follow.

use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_sandbox::Sandbox;
use evenkeel_sim::scenario::kinds::Kinds;
use evenkeel_sim::scenario::user::{delete_options, path};
use http::Request;
use serde_json::{Value, json};

use super::heading;
use crate::output::{self, Paint};

const PLATFORM: &str = include_str!("../../../../../deploy/samples/kite/platform.yaml");
const USER: &str = include_str!("../../../../../deploy/samples/kite/user.yaml");
const MACHINE: &str = include_str!("../../../../../deploy/samples/kite/machine.yaml");

/// How often a state is looked at.
const LOOK: Duration = Duration::from_millis(20);

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

#[derive(Clone, Copy)]
struct Kind(&'static str, &'static str);

/// The tenant of the samples.
const TENANT: &str = "tenant-ann";

/// Where the story plays.
pub struct Stage<'a> {
    sandbox: &'a Sandbox,
    client: kube::Client,
    timeout: Duration,
    reached: usize,
}

impl<'a> Stage<'a> {
    /// With the longest wait for one state.
    pub fn new(sandbox: &'a Sandbox, timeout: Duration) -> Self {
        Self { sandbox, client: kube::Client::new(sandbox.service(), "default"), timeout, reached: 0 }
    }

    /// States reached so far, in words.
    pub fn reached(&self) -> String {
        format!("{} states", self.reached)
    }

    /// A user and a machine come to life.
    pub async fn birth(&mut self) -> anyhow::Result<()> {
        println!(
            "{}",
            heading("kubectl apply -f deploy/samples/kite/platform.yaml -f deploy/samples/kite/user.yaml")
        );
        self.apply(PLATFORM).await?;
        self.apply(USER).await?;
        self.state("the user is Ready", USERS, None, "ann", "/status/phase", "Ready").await?;
        for (kind, name) in [
            (POLICY, "deny-from-other-namespaces"),
            (POLICY, "tenant-isolation-egress"),
            (QUOTA, "kite-user-quota-policy"),
        ] {
            self.there(kind, name).await?;
        }
        println!("{}", heading("kubectl apply -f deploy/samples/kite/machine.yaml"));
        self.apply(MACHINE).await?;
        self.state(
            "the disk is imported",
            MACHINES,
            Some(TENANT),
            "web",
            "/status/dataVolumePhase",
            "Succeeded",
        )
        .await?;
        self.state("the machine runs", MACHINES, Some(TENANT), "web", "/status/phase", "Running").await?;
        let domain = "web-ann.example.test";
        self.state("it has a domain", MACHINES, Some(TENANT), "web", "/status/domain", domain).await?;
        for (kind, name) in [
            (DISK, "web-disk"),
            (SECRET, "web-cloud-init-userdata"),
            (VM, "web"),
            (SERVICE, "vps-access-web"),
            (SERVICE, "vps-web-web"),
            (INGRESS, "web"),
        ] {
            self.there(kind, name).await?;
        }
        Ok(())
    }

    /// The machine is meddled with, stopped and deleted, and its user goes.
    pub async fn life_and_death(&mut self) -> anyhow::Result<()> {
        println!("{}", heading("kubectl -n tenant-ann delete service vps-web-web"));
        let before = self.uid(SERVICE, "vps-web-web");
        self.delete(SERVICE, Some(TENANT), "vps-web-web").await?;
        self.until("the Service is back", |stage| {
            let now = stage.uid(SERVICE, "vps-web-web");
            now.is_some() && now != before
        })
        .await?;
        println!(
            "{}",
            heading("kubectl -n tenant-ann patch ktvm web -p '{\"spec\":{\"powerState\":\"Off\"}}'")
        );
        self.patch(MACHINES, Some(TENANT), "web", &json!({"spec": {"powerState": "Off"}})).await?;
        self.state("the machine is stopped", MACHINES, Some(TENANT), "web", "/status/phase", "Stopped")
            .await?;
        println!("{}", heading("kubectl -n tenant-ann delete ktvm web"));
        self.delete(MACHINES, Some(TENANT), "web").await?;
        for (kind, name) in [
            (MACHINES, "web"),
            (VM, "web"),
            (DISK, "web-disk"),
            (SECRET, "web-cloud-init-userdata"),
            (SERVICE, "vps-access-web"),
            (INGRESS, "web"),
        ] {
            self.gone(kind, Some(TENANT), name).await?;
        }
        println!("{}", heading("kubectl delete kiteuser ann"));
        let config = json!({"data": {"orphanNamespaceGraceSeconds": "1"}});
        self.patch(Kind("v1", "ConfigMap"), Some("kite"), "kite-runtime-config", &config).await?;
        self.delete(USERS, None, "ann").await?;
        self.gone(USERS, None, "ann").await?;
        self.gone(NAMESPACE, None, TENANT).await
    }

    // ---- deeds ---------------------------------------------------------------------------------------------------

    async fn apply(&self, documents: &str) -> anyhow::Result<()> {
        for object in serde_saphyr::from_multiple::<Value>(documents).context("a sample is no YAML")? {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let (kind, name) =
                (text("/kind").unwrap_or_default(), text("/metadata/name").unwrap_or_default());
            let target = self.path(text("/apiVersion"), kind, text("/metadata/namespace"), name)?;
            let target = format!("{target}?fieldManager=kubectl");
            let body = object.to_string().into_bytes();
            self.send("PATCH", &target, "application/apply-patch+yaml", body).await?;
        }
        Ok(())
    }

    async fn patch(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        merge: &Value,
    ) -> anyhow::Result<()> {
        let target = self.path(Some(kind.0), kind.1, namespace, name)?;
        self.send("PATCH", &target, "application/merge-patch+json", merge.to_string().into_bytes()).await
    }

    async fn delete(&self, kind: Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
        let target = self.path(Some(kind.0), kind.1, namespace, name)?;
        self.send("DELETE", &target, "application/json", delete_options("Background")).await
    }

    async fn send(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<()> {
        let request =
            Request::builder().method(method).uri(target).header("content-type", content_type).body(body)?;
        self.client
            .request::<Value>(request)
            .await
            .with_context(|| format!("{method} {target} was refused"))?;
        Ok(())
    }

    fn path(
        &self,
        version: Option<&str>,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<String> {
        let crds: Vec<Value> = self
            .sandbox
            .dump()
            .into_iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .collect();
        let kinds = Kinds::with_crds(&crds);
        Ok(path(kinds.find(version, kind)?, namespace, Some(name), None))
    }

    // ---- states --------------------------------------------------------------------------------------------------

    async fn state(
        &mut self,
        what: &str,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        pointer: &str,
        expected: &str,
    ) -> anyhow::Result<()> {
        let look = |stage: &Self| {
            let object = stage.sandbox.get(kind.0, kind.1, namespace.unwrap_or_default(), name)?;
            object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        let reached = self.until(what, |stage| look(stage).as_deref() == Some(expected)).await;
        reached.with_context(|| {
            let actual = look(self).unwrap_or_else(|| "missing".to_owned());
            format!("{} {name}: {pointer} is {actual}, expected {expected}", kind.1)
        })
    }

    async fn there(&mut self, kind: Kind, name: &str) -> anyhow::Result<()> {
        let what = format!("{} {name} is there", kind.1);
        self.until(&what, |stage| stage.uid(kind, name).is_some()).await
    }

    async fn gone(&mut self, kind: Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
        let what = format!("{} {name} is gone", kind.1);
        let namespace = namespace.unwrap_or_default().to_owned();
        self.until(&what, |stage| stage.sandbox.get(kind.0, kind.1, &namespace, name).is_none()).await
    }

    fn uid(&self, kind: Kind, name: &str) -> Option<Value> {
        let object = self.sandbox.get(kind.0, kind.1, TENANT, name)?;
        object.pointer("/metadata/uid").cloned()
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + self.timeout;
        while !holds(self) {
            if tokio::time::Instant::now() >= end {
                bail!("{what}: not after {} s", self.timeout.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.reached += 1;
        println!("  {} {what}", output::paint("reached:", Paint::Good, output::colour_stdout()));
        Ok(())
    }
}
