//! What a person would do with kubectl, and waiting for the states that must follow.

use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_agent::yaml;
use evenkeel_sandbox::Sandbox;
use evenkeel_sim::scenario::kinds::Kinds;
use evenkeel_sim::scenario::user::{delete_options, path};
use http::Request;
use serde_json::Value;

use crate::output::{self, Paint, say};

/// How often a state is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often somebody outside is asked.
const LOOK_OUTSIDE: Duration = Duration::from_millis(200);

/// A kind: its `apiVersion` and its name.
#[derive(Clone, Copy)]
pub struct Kind(pub &'static str, pub &'static str);

/// Where a story plays.
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

    // ---- deeds ---------------------------------------------------------------------------------------------------

    /// Applies the documents of a sample as they stand.
    pub async fn apply(&self, documents: &str) -> anyhow::Result<()> {
        self.apply_changed(documents, |_| ()).await
    }

    /// Applies the documents of a sample, each changed to what the stage has.
    pub async fn apply_changed(&self, documents: &str, change: impl Fn(&mut Value)) -> anyhow::Result<()> {
        for mut object in yaml::all::<Value>(documents).context("a sample is no YAML")? {
            change(&mut object);
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

    /// Merges a patch into an object.
    pub async fn patch(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        merge: &Value,
    ) -> anyhow::Result<()> {
        let target = self.path(Some(kind.0), kind.1, namespace, name)?;
        self.send("PATCH", &target, "application/merge-patch+json", merge.to_string().into_bytes()).await
    }

    /// Merges a patch into an object's status.
    pub async fn patch_status(
        &self,
        (kind, namespace, name): (Kind, Option<&str>, &str),
        merge: &Value,
    ) -> anyhow::Result<()> {
        let target = format!("{}/status", self.path(Some(kind.0), kind.1, namespace, name)?);
        self.send("PATCH", &target, "application/merge-patch+json", merge.to_string().into_bytes()).await
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
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

    /// Waits until a field has a text.
    pub async fn state(
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

    /// Waits until an object is there.
    pub async fn there(&mut self, kind: Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
        let what = format!("{} {name} is there", kind.1);
        self.until(&what, |stage| stage.uid(kind, namespace, name).is_some()).await
    }

    /// Waits until an object is gone.
    pub async fn gone(&mut self, kind: Kind, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
        let what = format!("{} {name} is gone", kind.1);
        let namespace = namespace.unwrap_or_default().to_owned();
        self.until(&what, |stage| stage.sandbox.get(kind.0, kind.1, &namespace, name).is_none()).await
    }

    /// An object's UID; none while it is not there.
    pub fn uid(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.get(kind, namespace, name)?.pointer("/metadata/uid").cloned()
    }

    /// An object as it is now.
    pub fn get(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.sandbox.get(kind.0, kind.1, namespace.unwrap_or_default(), name)
    }

    /// Waits until an object is as wanted.
    pub async fn object(
        &mut self,
        what: &str,
        (kind, namespace, name): (Kind, Option<&str>, &str),
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let look = |stage: &Self| stage.get(kind, namespace, name);
        let reached = self.until(what, |stage| look(stage).is_some_and(|object| holds(&object))).await;
        reached.with_context(|| {
            let actual = look(self).map_or_else(|| "missing".to_owned(), |found| found["status"].to_string());
            format!("{} {name} is {actual}", kind.1)
        })?;
        look(self).with_context(|| format!("{} {name} is gone again", kind.1))
    }

    /// Waits until an Event with this reason is there.
    pub async fn event(&mut self, what: &str, namespace: &str, reason: &str) -> anyhow::Result<()> {
        let is = |object: &Value| {
            object["kind"] == "Event"
                && object["reason"] == reason
                && object.pointer("/metadata/namespace").and_then(Value::as_str) == Some(namespace)
        };
        self.until(what, |stage| stage.sandbox.dump().iter().any(is)).await
    }

    /// Waits until something outside Kubernetes is so.
    pub async fn until_asked(
        &mut self,
        what: &str,
        holds: impl AsyncFn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + self.timeout;
        while !holds().await.with_context(|| what.to_owned())? {
            if tokio::time::Instant::now() >= end {
                bail!("{what}: not after {} s", self.timeout.as_secs());
            }
            tokio::time::sleep(LOOK_OUTSIDE).await;
        }
        self.told(what)
    }

    fn told(&mut self, what: &str) -> anyhow::Result<()> {
        self.reached += 1;
        Ok(say!("  {} {what}", output::paint("reached:", Paint::Good, output::colour_stdout()))?)
    }

    /// Waits until something is so.
    pub async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + self.timeout;
        while !holds(self) {
            if tokio::time::Instant::now() >= end {
                bail!("{what}: not after {} s", self.timeout.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        self.told(what)
    }
}
