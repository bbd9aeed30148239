//! All that a simulated device is.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::{Alerts, Config, Fault, FileConfig, HookResult, Offer, Registry, Starts};
use super::deployments::Deployments;
use super::disk::{Disk, Node};
use super::power::PowerCut;
use crate::device::words::{
    AppSeen, AppState, Code, Error, Hook, ImageRef, ImageSeen, OperationState, PullState,
};
use crate::twins::TwinError;

/// Names of the spec files.
pub(super) const FILES: [&str; 4] = ["desired", "current", "rollback", "state"];

/// The annotation of a version.
pub(super) const VERSION: &str = "device-controller/renderedVersion";
/// The annotation of a fingerprint.
pub(super) const HASH: &str = "device-controller/renderedSpecHash";

pub(super) struct State {
    pub base: Timestamp,
    pub began: Instant,
    /// As the disk has them.
    pub specs: BTreeMap<String, Vec<u8>>,
    /// Invalid files that were kept aside.
    pub aside: Vec<String>,
    pub service: Service,
    pub disk: Disk,
    pub os: Deployments,
    pub boot: u32,
    pub booted_at: String,
    pub users: BTreeMap<String, u32>,
    pub missing: Vec<String>,
    pub registry: BTreeMap<String, Registry>,
    pub wanted: Vec<ImageRef>,
    pub images: BTreeMap<String, Image>,
    pub apps: BTreeMap<String, App>,
    pub starts: Vec<Starts>,
    pub hook_results: Vec<HookResult>,
    pub operations: BTreeMap<String, Deed>,
    pub seconds: BTreeMap<String, u64>,
    pub alerts: Alerts,
    pub monitors: Value,
    pub faults: Vec<Fault>,
    pub power: Option<PowerCut>,
    /// Operations that took effect or were begun, since somebody looked.
    pub log: Vec<String>,
    /// How often each hook was run, by key.
    pub hook_runs: BTreeMap<String, u32>,
    /// Words of hooks that were run, since somebody looked.
    pub argv: Vec<Vec<String>>,
    pub pruned: Vec<String>,
    pub broken: Vec<String>,
    /// Whether the machine shall come up on its old OS, or another one, at its next boots.
    pub boots: Vec<BootFate>,
    pub enrolled: bool,
    pub skipped: Vec<String>,
    /// When the machine goes down.
    pub reboot_at: Option<Instant>,
    /// When the check of this boot ends.
    pub check_due: Option<Instant>,
}

/// How a boot goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BootFate {
    /// The check of the boot fails again and again, and the old OS comes up.
    FallsBack,
    /// Another image is booted.
    Image(String),
}

#[derive(Default)]
pub(super) struct Service {
    pub offer: Option<Offer>,
    pub received_at: String,
    pub reachable: bool,
    pub gone: bool,
    pub enrolment: String,
}

/// An image on its way.
pub(super) struct Image {
    pub seen: ImageSeen,
    /// When the pull that is under way ends, or the next begins.
    pub due: Option<Instant>,
}

/// An application.
pub(super) struct App {
    pub seen: AppSeen,
    /// When it runs, or is in error.
    pub due: Option<(Instant, AppState)>,
    pub running_since: Option<Instant>,
}

/// A long operation on record.
pub(super) struct Deed {
    pub operation: String,
    pub arguments: Value,
    pub state: OperationState,
    pub began: String,
    pub exit_code: Option<i32>,
    pub error: Option<Error>,
    /// When it ends.
    pub due: Option<Instant>,
    /// What it will have failed with.
    pub fate: Option<Error>,
    pub ignored: bool,
}

impl State {
    pub(super) fn new(config: Config, began: Instant) -> Result<Self, TwinError> {
        let base: Timestamp = config.clock.parse().map_err(|cause: jiff::Error| {
            TwinError::NotUnderstood { what: "device: clock".to_owned(), cause: cause.to_string() }
        })?;
        let mut disk = Disk::default();
        for (path, file) in &config.disk {
            disk.set(path, Some(node(file)));
        }
        disk.seqs.clear();
        let specs =
            config.files.iter().map(|(name, value)| (name.clone(), spec_bytes(name, value))).collect();
        let received_at = config.rendered.as_ref().map(|_| base.to_string()).unwrap_or_default();
        let mut state = Self {
            base,
            began,
            specs,
            aside: Vec::new(),
            service: Service {
                offer: config.rendered,
                received_at,
                reachable: true,
                gone: false,
                enrolment: config.enrolment,
            },
            disk,
            os: Deployments::new(config.os),
            boot: 1,
            booted_at: base.to_string(),
            users: config.users,
            missing: config.missing,
            registry: config.registry,
            wanted: Vec::new(),
            images: BTreeMap::new(),
            apps: BTreeMap::new(),
            starts: Vec::new(),
            hook_results: Vec::new(),
            operations: BTreeMap::new(),
            seconds: config.seconds,
            alerts: config.alerts,
            monitors: Value::Null,
            faults: Vec::new(),
            power: None,
            log: Vec::new(),
            hook_runs: BTreeMap::new(),
            argv: Vec::new(),
            pruned: Vec::new(),
            broken: Vec::new(),
            boots: Vec::new(),
            enrolled: true,
            skipped: Vec::new(),
            reboot_at: None,
            check_due: None,
        };
        for reference in config.images {
            state.images.insert(reference.clone(), Image { seen: present(&reference), due: None });
        }
        for app in &config.apps {
            state.install_running(app);
        }
        Ok(state)
    }

    /// An application of the current spec that runs, as after an earlier update.
    fn install_running(&mut self, app: &Value) {
        let text = |key: &str| app.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, name) = (text("id"), text("name"));
        let digest = app.get("digest").and_then(Value::as_str).map(str::to_owned);
        let mut seen = new_app(&id, &name, &text("appType"), digest.unwrap_or_default());
        seen.observed = AppState::Running;
        (seen.ready, seen.total) = (1, 1);
        seen.running_since = Some(self.base.to_string());
        self.apps.insert(id, App { seen, due: None, running_since: Some(self.began) });
    }

    /// The device's clock.
    pub(super) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        self.base.saturating_add(passed).unwrap_or(self.base)
    }

    pub(super) fn boot_id(&self) -> String {
        format!("b{}", self.boot)
    }

    /// A Device of a spec file.
    pub(super) fn device(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(self.specs.get(name)?).ok()
    }

    /// The version of a spec file; "" where there is none.
    pub(super) fn version(&self, name: &str) -> String {
        self.device(name).map(|device| version_of(&device)).unwrap_or_default()
    }

    /// `update-state.json`.
    pub(super) fn update_state(&self) -> Value {
        self.device("state").unwrap_or_default()
    }

    /// The version of the update under way.
    pub(super) fn target(&self) -> Option<String> {
        let state = self.update_state();
        Some(state.pointer("/update/target/version")?.as_str()?.to_owned())
    }

    /// A fault for this operation, used up.
    pub(super) fn fault(&mut self, operation: &str, key: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|fault| {
            fault.operation.as_deref().is_some_and(|name| name == operation || name == "*")
                && key.contains(&fault.key)
        })?;
        Some(self.use_up(at))
    }

    pub(super) fn use_up(&mut self, at: usize) -> Fault {
        let fault = self.faults[at].clone();
        if fault.times <= 1 {
            self.faults.remove(at);
        } else {
            self.faults[at].times -= 1;
        }
        fault
    }

    /// What is wrong with the device's history.
    pub(super) fn broken_invariants(&self) -> Vec<String> {
        let mut broken = self.broken.clone();
        for (key, runs) in self.hook_runs.iter().filter(|(_, runs)| **runs > 1) {
            broken.push(format!("2: the hook {key} ran {runs} times"));
        }
        let number = |name: &str| self.version(name).parse::<i64>().ok();
        if let (Some(desired), Some(current)) = (number("desired"), number("current"))
            && desired < current
        {
            broken.push(format!("1: desired is {desired}, older than current, {current}"));
        }
        broken
    }
}

pub(super) fn version_of(device: &Value) -> String {
    let annotations = device.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(VERSION)?.as_str()).unwrap_or_default().to_owned()
}

pub(super) fn node(file: &FileConfig) -> Node {
    let FileConfig { content, mode, uid, gid, dir } = file;
    Node { content: content.clone().into_bytes(), mode: *mode, uid: *uid, gid: *gid, dir: *dir }
}

pub(super) fn present(reference: &str) -> ImageSeen {
    ImageSeen {
        reference: reference.to_owned(),
        state: PullState::Present,
        digest: crate::device::seal::sha256(reference.as_bytes()),
        tries: 0,
        next_try: None,
        error: None,
    }
}

pub(super) fn new_app(id: &str, name: &str, app_type: &str, digest: String) -> AppSeen {
    AppSeen {
        seq: 0,
        id: id.to_owned(),
        name: name.to_owned(),
        app_type: app_type.to_owned(),
        user: None,
        embedded: false,
        installed_digest: Some(digest),
        observed: AppState::Preparing,
        ready: 0,
        total: 1,
        restarts: 0,
        running_since: None,
        ended_at: None,
        deaths: 0,
        error: None,
    }
}

/// A Device of a version.
pub(super) fn device(version: &str, hash: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flightctl.io/v1beta1",
        "kind": "Device",
        "metadata": {"name": "device", "annotations": {VERSION: version, HASH: hash}},
        "spec": spec,
    })
}

/// A spec file from the short form of scenarios; a text is taken as it is.
pub(super) fn spec_bytes(name: &str, value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value if name != "state" && value.get("version").is_some() => {
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let mut device = device(text("version"), text("hash"), value.get("spec").unwrap_or(&json!({})));
            for (key, value) in value.get("annotations").and_then(Value::as_object).into_iter().flatten() {
                device["metadata"]["annotations"][key] = value.clone();
            }
            device.to_string().into_bytes()
        }
        value => value.to_string().into_bytes(),
    }
}

/// The folder of a hook, by its word without the dash.
pub(super) fn hook_folder(hook: Hook) -> &'static str {
    match hook {
        Hook::BeforeUpdating => "beforeupdating",
        Hook::AfterUpdating => "afterupdating",
        Hook::BeforeRebooting => "beforerebooting",
        Hook::AfterRebooting => "afterrebooting",
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error { code: Code::Invalid, message: message.into() }
}

pub(super) fn conflict(message: impl Into<String>) -> Error {
    Error { code: Code::Conflict, message: message.into() }
}
