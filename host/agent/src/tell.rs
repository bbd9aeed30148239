//! What becomes of the device, told to whoever started the agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::PassRecord;
use evenkeel_providers::device::linux::LinuxDevice;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// Between two looks at the status while no pass tells of one: others than the host may write it.
const LOOK: Duration = Duration::from_secs(2);

/// How an update ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is in effect.
    Updated {
        /// The version.
        version: String,
    },
    /// It has failed, and what was before is in effect again.
    Failed {
        /// Why, in a sentence.
        message: String,
    },
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Updated { version } => write!(f, "version {version} is in effect"),
            Self::Failed { message } => write!(f, "failed and rolled back: {message}"),
        }
    }
}

/// Hands each status on, and prints each change of the update's condition; with a version that is waited for, returns once it is in effect or failed.
pub(super) async fn follow(
    devices: &Api<DynamicObject>,
    name: &str,
    device: &Arc<LinuxDevice>,
    published: &watch::Sender<Value>,
    mut passes: Receiver<Arc<PassRecord>>,
    wanted: Option<String>,
) -> anyhow::Result<Settled> {
    let mut before = String::new();
    loop {
        if let Some(object) = devices.get_opt(name).await? {
            let status = object.data.get("status").cloned().unwrap_or_default();
            let condition = updating(&status);
            published.send_if_modified(|before| {
                let changed = *before != status;
                if changed {
                    before.clone_from(&status);
                }
                changed
            });
            let line = line(&status, &condition);
            if line != before && !condition.is_null() {
                crate::console::note(format_args!("{line}"));
                before = line;
            }
            if let Some(wanted) = &wanted
                && let Some(settled) = settled(&status, &condition, device, wanted)
            {
                return Ok(settled);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = next(&mut passes) => {}
        }
    }
}

/// Returns after a pass; its writes are done then. Several in a row are one.
async fn next(passes: &mut Receiver<Arc<PassRecord>>) {
    match passes.recv().await {
        Ok(_) | Err(RecvError::Lagged(_)) => while passes.try_recv().is_ok() {},
        // The host stops: there are no more.
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

fn updating(status: &Value) -> Value {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|one| one["type"] == "Updating");
    found.cloned().unwrap_or_default()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn line(status: &Value, condition: &Value) -> String {
    let (version, reason) = (text(status, "/config/renderedVersion"), text(condition, "/reason"));
    let message = text(condition, "/message");
    let tail = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("version {version} {reason}{tail}")
}

fn settled(status: &Value, condition: &Value, device: &LinuxDevice, wanted: &str) -> Option<Settled> {
    if text(condition, "/status") != "False" {
        return None;
    }
    let versions = device.versions();
    let failed = versions.failed.iter().any(|(version, _)| version == wanted);
    match text(condition, "/reason") {
        "Updated" if versions.current.0 == wanted && text(status, "/config/renderedVersion") == wanted => {
            Some(Settled::Updated { version: wanted.to_owned() })
        }
        // Back at what is in effect: the condition is that of the version which failed in between.
        "Error" if versions.current.0 == wanted && !device.updates() => {
            Some(Settled::Updated { version: wanted.to_owned() })
        }
        "Error" if failed && !device.updates() => {
            // The condition may still be that of an earlier failure.
            let message = device.failure_of(wanted).unwrap_or_else(|| text(condition, "/message").to_owned());
            Some(Settled::Failed { message })
        }
        _ => None,
    }
}
