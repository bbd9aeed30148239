//! A device below a temporary folder, asked and told as a plugin does it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef, Operation};
use evenkeel_providers::device::linux::LinuxDevice;
use evenkeel_providers::device::linux::config::LinuxOptions;
use evenkeel_providers::device::linux::service::Service;
use evenkeel_providers::{Caller, Provider};
use serde_json::{Value, json};

/// Where a Device says which version it is.
const VERSION: &str = "device-controller/renderedVersion";

/// A folder that stands for `/`.
pub struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// Puts a file there.
    pub fn put(&self, path: &str, text: &str, mode: u32) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// A file's text; "" where it is not there.
    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Starts the provider on it.
    pub fn start(&self) -> Started {
        Started::on(self.root())
    }
}

/// The provider, as it runs.
pub struct Started {
    device: LinuxDevice,
    caller: Caller,
}

impl Started {
    pub fn on(root: &Path) -> Self {
        let mut options = LinuxOptions::new("device", Arc::new(jiff::Timestamp::now));
        options.root = root.to_owned();
        let device = LinuxDevice::open(options, Arc::new(Service::default())).expect("it starts");
        let object = ObjectRef::new(Gvk::new("flightctl.io", "v1beta1", "Device"), None, "device");
        let caller = Caller { plugin: "device-update".to_owned(), object, uid: Some("u".to_owned()) };
        Self { device, caller }
    }

    /// Asks.
    pub async fn ask(&self, question: &str, arguments: Value) -> Value {
        let query = ExternalQuery {
            provider: "device".into(),
            question: question.into(),
            arguments: arguments.to_string().into(),
        };
        let answer = self.device.answer(&self.caller, &query).await.expect("it is understood");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// Has something done.
    pub async fn act(&self, operation: &str, key: &str, arguments: Value) -> Value {
        let operation = Operation {
            key: key.into(),
            provider: "device".into(),
            operation: operation.into(),
            arguments: arguments.to_string().into(),
        };
        let outcome = self.device.perform(&self.caller, &operation).await.expect("it is understood");
        serde_json::from_str(&outcome.expect("an outcome")).expect("JSON")
    }

    /// Has something long done, and waits for its end.
    pub async fn long(&self, operation: &str, key: &str, arguments: Value) -> Value {
        let accepted = self.act(operation, key, arguments).await;
        assert_eq!(accepted, json!({"result": "accepted"}), "{operation}");
        self.ended(key).await
    }

    /// Waits until an operation has ended.
    pub async fn ended(&self, key: &str) -> Value {
        for _ in 0..3000 {
            let seen = self.ask("operation", json!({"key": key})).await;
            if seen["state"] != "running" {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} does not end");
    }

    /// Makes a spec the desired one.
    pub async fn desire(&self, spec: Value) {
        let device = json!({"kind": "Device", "metadata": {"annotations": {VERSION: "2"}}, "spec": spec});
        let outcome =
            self.act("write-spec", "k", json!({"desired": "given", "sensitive": {"device": device}})).await;
        assert_eq!(outcome, json!({"result": "done"}));
    }

    /// Hands out what was told before.
    pub fn drain(&self) {
        self.device.changes().expect("it tells").hand_out(|_| {});
    }

    /// Waits until a question is told.
    pub async fn told(&self) {
        let changes = self.device.changes().expect("it tells");
        tokio::time::timeout(Duration::from_secs(20), changes.some()).await.expect("something is told");
        changes.hand_out(|_| {});
    }
}

/// The digest of a text, as questions tell it.
pub fn digest(text: &str) -> String {
    evenkeel_providers::device::seal::sha256(text.as_bytes())
}
