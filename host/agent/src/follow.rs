//! A file that says what the device is to be, in the place of a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use evenkeel_engine::clock::Clock;
use evenkeel_providers::device::linux::service::Service;
use evenkeel_providers::device::linux::{HASH, LinuxDevice, VERSION, Versions};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Between two looks at the file.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes of the file: a service takes no more either.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The operating system says so.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
    /// It is too large.
    #[error("{} has more than {} MiB", path.display(), FILE_BYTES_MAX >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no Device. The parser's own words would quote the file, and secrets stand in it.
    #[error("{} is no Device: {reason}", path.display())]
    NoDevice {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The file.
pub(super) struct SpecFile {
    path: PathBuf,
    device: Arc<LinuxDevice>,
    service: Arc<Service>,
    clock: Arc<dyn Clock>,
    seen: Vec<u8>,
    version: Option<String>,
}

impl SpecFile {
    /// A file; it is read when [`SpecFile::read`] is called.
    pub(super) fn new(
        path: &Path,
        device: Arc<LinuxDevice>,
        service: Arc<Service>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { path: path.to_owned(), device, service, clock, seen: Vec::new(), version: None }
    }

    /// The version that the file's content has.
    pub(super) fn version(&self) -> Option<String> {
        self.version.clone()
    }

    /// Reads the file and makes it known; gives the annotations that are for the plugin.
    pub(super) fn read(&mut self) -> Result<Value, FollowError> {
        let (text, device) = read(&self.path)?;
        self.seen = text;
        Ok(self.publish(device))
    }

    fn publish(&mut self, mut device: Value) -> Value {
        let spec = device.get("spec").cloned().unwrap_or_default();
        let annotations = device.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({}));
        let said = |name: &str| annotations.get(name).and_then(Value::as_str).map(str::to_owned);
        let hash = said(HASH).unwrap_or_else(|| hash(&spec));
        let version = said(VERSION).unwrap_or_else(|| next_version(&hash, &self.device.versions()));
        if !device["metadata"].is_object() {
            device["metadata"] = json!({});
        }
        if !device["metadata"]["annotations"].is_object() {
            device["metadata"]["annotations"] = json!({});
        }
        device["metadata"]["annotations"][VERSION] = json!(version);
        device["metadata"]["annotations"][HASH] = json!(hash);
        self.version = Some(version);
        self.service.received(device, &self.clock.now().to_string());
        let ours = annotations
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.starts_with("evenkeel.dev/"));
        Value::Object(ours.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Takes up what changes in the file, for ever. A file that is wrong or gone is told, and what was in it last counts.
    pub(super) async fn follow(mut self, devices: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
        let mut told = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let before = told.take();
            match read(&self.path) {
                Ok((text, _)) if text == self.seen => {
                    if before.is_some() {
                        self.service.reached();
                    }
                }
                Ok((text, device)) => {
                    self.seen = text;
                    let annotations = self.publish(device);
                    let object = json!({
                        "apiVersion": "flightctl.io/v1beta1",
                        "kind": "Device",
                        "metadata": {"name": name, "annotations": annotations},
                    });
                    let params = PatchParams::apply(super::MANAGER);
                    devices
                        .patch(name, &params, &Patch::Apply(&object))
                        .await
                        .context("cannot write the Device")?;
                }
                Err(error) => {
                    let text = error.to_string();
                    if before.as_ref() != Some(&text) {
                        tracing::error!(%error, "the file is not taken up; what was in it last counts");
                        self.service.unreachable(&text);
                    }
                    told = Some(text);
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Value), FollowError> {
    let trouble = |cause| FollowError::Read { path: path.to_owned(), cause };
    let size = std::fs::metadata(path).map_err(trouble)?.len();
    if size > FILE_BYTES_MAX {
        return Err(FollowError::TooLarge { path: path.to_owned() });
    }
    let text = std::fs::read(path).map_err(trouble)?;
    let none = |reason: &str| FollowError::NoDevice { path: path.to_owned(), reason: reason.to_owned() };
    let utf8 = std::str::from_utf8(&text).map_err(|_| none("it is no UTF-8"))?;
    let device: Value = crate::yaml::one(utf8).map_err(|_| none("it is no YAML"))?;
    match device.get("kind").and_then(Value::as_str) {
        Some("Device") => {}
        Some(_) => return Err(none("its kind is another one")),
        None => return Err(none("it has no kind")),
    }
    if !device.get("spec").is_some_and(Value::is_object) {
        return Err(none("it has no spec"));
    }
    Ok((text, device))
}

/// A fingerprint of a spec that does not depend on the order of its members: they are kept sorted.
fn hash(spec: &Value) -> String {
    Sha256::digest(spec.to_string().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The version of what has this fingerprint: the one that it had already, else one that is newer than all.
fn next_version(hash: &str, known: &Versions) -> String {
    let had = known.failed.iter().chain([&known.desired, &known.current]).rev().find(|(_, of)| of == hash);
    if let Some((version, _)) = had {
        return version.clone();
    }
    let all = known.failed.iter().chain([&known.desired, &known.current]);
    let newest = all.filter_map(|(version, _)| version.parse::<u64>().ok()).max().unwrap_or_default();
    newest.saturating_add(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(current: (&str, &str), desired: (&str, &str), failed: &[(&str, &str)]) -> Versions {
        let own = |(version, hash): (&str, &str)| (version.to_owned(), hash.to_owned());
        Versions {
            current: own(current),
            desired: own(desired),
            failed: failed.iter().copied().map(own).collect(),
        }
    }

    #[test]
    fn the_same_content_has_the_same_version_over_a_restart_and_anything_else_a_newer_one() {
        let steady = known(("5", "a"), ("5", "a"), &[]);
        assert_eq!((next_version("a", &steady), next_version("b", &steady)), ("5".into(), "6".into()));
        let under_way = known(("5", "a"), ("6", "b"), &[]);
        assert_eq!((next_version("b", &under_way), next_version("c", &under_way)), ("6".into(), "7".into()));
        assert_eq!(next_version("a", &Versions::default()), "1");
    }

    #[test]
    fn what_has_failed_stays_failed_and_what_comes_after_it_does_not() {
        let failed = known(("5", "a"), ("5", "a"), &[("6", "b")]);
        assert_eq!((next_version("b", &failed), next_version("c", &failed)), ("6".into(), "7".into()));
        assert_eq!(next_version("a", &failed), "5");
    }

    #[test]
    fn a_mode_with_a_leading_zero_is_octal() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("device.yaml");
        std::fs::write(&path, "kind: Device\nspec: {a: 0644, b: '0644', c: 420}").expect("a file");
        let (_, device) = read(&path).expect("a Device");
        assert_eq!(device["spec"], json!({"a": 420, "b": "0644", "c": 420}));
    }

    #[test]
    fn a_file_that_is_no_device_is_told_without_a_word_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("device.yaml");
        for (text, words) in [
            ("kind: [hunter2", "it is no YAML"),
            ("kind: Pod\nspec: {}", "its kind is another one"),
            ("spec: {}", "it has no kind"),
            ("kind: Device\nspec: hunter2", "it has no spec"),
        ] {
            std::fs::write(&path, text).expect("a file");
            let error = read(&path).expect_err(words).to_string();
            assert!(error.ends_with(words) && !error.contains("hunter2"), "{error}");
        }
    }
}
