//! The four state files: what is wanted, what is so, the way back, and how far an update is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::contract::{Failure, FailureKind};
use rustix::fs::{self, AtFlags};
use serde_json::{Value, json};

use super::atomic::{self, Content};
use super::folder;
use super::steps::Steps;
use super::trouble::{invalid, not_found, with_state};
use crate::device::seal;
use crate::device::words::{Rollback, Source, Spec, SpecFile, SpecFiles, WayBack, WriteSpec};

const DESIRED: &str = "desired.json";
const CURRENT: &str = "current.json";
const ROLLBACK: &str = "rollback.json";
const STATE: &str = "update-state.json";

/// Where a Device says which version of its spec it holds.
pub const VERSION: &str = "device-controller/renderedVersion";
/// Where it has a fingerprint of its spec.
pub const HASH: &str = "device-controller/renderedSpecHash";

/// Bytes of a state file; more is none of ours.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The schema of the update state that we know.
const SCHEMA: u64 = 1;

/// The files, in a folder of ours.
pub(super) struct Specs {
    folder: OwnedFd,
    read: [Option<Read>; 4],
    steps: Steps,
}

/// What was read, for as long as the file is the same.
struct Read {
    stamp: Stamp,
    content: Result<Arc<Value>, String>,
    shown: SpecFile,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: i64,
    changed: (i64, u64),
}

impl Specs {
    /// On a folder of ours.
    pub(super) fn new(folder: OwnedFd, steps: Steps) -> Self {
        Self { folder, read: [None, None, None, None], steps }
    }

    /// What is in the files, sealed.
    pub(super) fn see(&mut self) -> Result<SpecFiles, Failure> {
        let mut shown =
            |name| self.read(name).map(|read| read.map(|read| read.shown.clone()).unwrap_or_default());
        Ok(SpecFiles {
            desired: shown(DESIRED)?,
            current: shown(CURRENT)?,
            rollback: shown(ROLLBACK)?,
            state: shown(STATE)?,
        })
    }

    /// The Device in a file, with everything that is secret in it.
    pub(super) fn device(&mut self, spec: Spec) -> Result<Arc<Value>, Failure> {
        let name = match spec {
            Spec::Desired => DESIRED,
            Spec::Current => CURRENT,
        };
        match self.read(name)?.map(|read| read.content.clone()) {
            None => Err(not_found(format!("{name} is not there"))),
            Some(Err(error)) => Err(invalid(format!("{name}: {error}"))),
            Some(Ok(device)) => Ok(device),
        }
    }

    /// The update state; null where there is none that can be read.
    pub(super) fn state(&mut self) -> Arc<Value> {
        let read = self.read(STATE).ok().flatten();
        read.and_then(|read| read.content.clone().ok()).unwrap_or_default()
    }

    /// Writes the files that are given, each as a whole: the state first, so that what is begun is known.
    ///
    /// `rendered` is what the service sent last.
    pub(super) fn write(&mut self, wanted: &WriteSpec, rendered: Option<&Value>) -> Result<(), Failure> {
        // Before anything is written: "desired" means what it was, also where both are exchanged.
        let mut device = |source: &Option<Source>| -> Result<Option<Arc<Value>>, Failure> {
            source.as_ref().map(|source| self.source(source, wanted, rendered)).transpose()
        };
        let (desired, current) = (device(&wanted.desired)?, device(&wanted.current)?);
        let rollback = wanted.rollback.as_ref().map(|rollback| match rollback {
            Rollback::Clear => empty(""),
            Rollback::Set(way) => way_back(way),
        });
        if let Some(state) = &wanted.state {
            self.put(STATE, state)?;
        }
        if let Some(rollback) = rollback {
            self.put(ROLLBACK, &rollback)?;
        }
        if let Some(desired) = desired {
            self.put(DESIRED, &desired)?;
        }
        if let Some(current) = current {
            self.put(CURRENT, &current)?;
        }
        Ok(())
    }

    fn source(
        &mut self,
        source: &Source,
        wanted: &WriteSpec,
        rendered: Option<&Value>,
    ) -> Result<Arc<Value>, Failure> {
        match source {
            Source::Rendered(version) => {
                match rendered.filter(|device| annotation(device, VERSION) == version) {
                    Some(device) => Ok(Arc::new(device.clone())),
                    None => {
                        let message = format!("the service's newest spec is not version {version} any more");
                        Err(Failure::new(FailureKind::Conflict, message))
                    }
                }
            }
            Source::Desired => self.device(Spec::Desired),
            Source::Current => self.device(Spec::Current),
            Source::Empty(version) => Ok(Arc::new(empty(version))),
            Source::Given => match &wanted.sensitive.device {
                Some(device) => Ok(Arc::new(device.clone())),
                None => Err(invalid("write-spec is given no device")),
            },
        }
    }

    fn put(&mut self, name: &str, value: &Value) -> Result<(), Failure> {
        let trouble = |error: io::Error| with_state("write", name, &error);
        if self.read(name)?.is_some_and(|read| read.content.is_err()) {
            let aside = folder::keep_aside(&self.folder, name).map_err(trouble)?;
            tracing::warn!(file = name, kept = %aside, "a state file could not be read, and is replaced");
        }
        let text = serde_json::to_vec_pretty(value).map_err(|error| trouble(error.into()))?;
        let content = Content::File { bytes: &text, mode: 0o600 };
        atomic::put(self.folder.as_fd(), name, &content, None, &self.steps).map_err(trouble)?;
        self.steps.made(name);
        Ok(())
    }

    fn read(&mut self, name: &str) -> Result<Option<&Read>, Failure> {
        let trouble = |error: io::Error| with_state("read", name, &error);
        let slot =
            [DESIRED, CURRENT, ROLLBACK, STATE].iter().position(|one| *one == name).unwrap_or_default();
        let stat = match fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => {
                self.read[slot] = None;
                return Ok(None);
            }
            other => other.map_err(|error| trouble(error.into()))?,
        };
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        let stamp = Stamp { inode: stat.st_ino, bytes: stat.st_size, changed };
        if self.read[slot].as_ref().is_none_or(|read| read.stamp != stamp) {
            let content = if u64::try_from(stat.st_size).is_ok_and(|bytes| bytes > FILE_BYTES_MAX) {
                Err(format!("it has more than {} MiB", FILE_BYTES_MAX >> 20))
            } else {
                let bytes = folder::read(&self.folder, name).map_err(trouble)?.unwrap_or_default();
                parse(name, &bytes).map(Arc::new)
            };
            let shown = show(name, &content);
            self.read[slot] = Some(Read { stamp, content, shown });
        }
        Ok(self.read[slot].as_ref())
    }
}

fn show(name: &str, content: &Result<Arc<Value>, String>) -> SpecFile {
    match content {
        Ok(value) if name == STATE => {
            SpecFile { present: true, valid: true, error: None, content: Some((**value).clone()) }
        }
        Ok(value) => SpecFile { present: true, valid: true, error: None, content: Some(seal::seal(value)) },
        Err(error) => SpecFile { present: true, valid: false, error: Some(error.clone()), content: None },
    }
}

/// Reads a file; what is wrong with it is told without a word of what is in it.
fn parse(name: &str, bytes: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("it is no JSON (line {}, column {})", error.line(), error.column()))?;
    if !value.is_object() {
        return Err("it is no JSON object".to_owned());
    }
    let right = if name == STATE {
        value.get("schema").and_then(Value::as_u64) == Some(SCHEMA)
    } else {
        value.get("spec").is_none_or(Value::is_object) && value.get("metadata").is_none_or(Value::is_object)
    };
    if right { Ok(value) } else { Err("it is no such file".to_owned()) }
}

/// An annotation of a Device; "" where it is not there.
pub(super) fn annotation<'d>(device: &'d Value, name: &str) -> &'d str {
    let annotations = device.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
}

fn empty(version: &str) -> Value {
    json!({
        "apiVersion": "flightctl.io/v1beta1",
        "kind": "Device",
        "metadata": {"annotations": {VERSION: version}},
        "spec": {},
    })
}

fn way_back(way: &WayBack) -> Value {
    let mut device = empty(&way.version);
    device["metadata"]["annotations"]["evenkeel.dev/desired-version"] = json!(way.desired_version);
    device["metadata"]["annotations"]["evenkeel.dev/desired-spec-hash"] = json!(way.desired_spec_hash);
    device["spec"] = json!({"os": {"image": way.os_image}});
    device
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    fn specs(path: &Path) -> Specs {
        let folder = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        Specs::new(folder, Steps::default())
    }

    fn device(version: &str, content: &str) -> Value {
        let mut device = empty(version);
        device["spec"] =
            json!({"config": [{"name": "a", "inline": [{"path": "/etc/a", "content": content}]}]});
        device
    }

    fn version(specs: &mut Specs, spec: Spec) -> String {
        annotation(&specs.device(spec).expect("a device"), VERSION).to_owned()
    }

    #[test]
    fn desired_and_current_mean_what_they_were_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut specs = specs(folder.path());
        let rendered = device("6", "six");
        let first = WriteSpec {
            desired: Some(Source::Rendered("6".into())),
            current: Some(Source::Empty("5".into())),
            rollback: Some(Rollback::Clear),
            state: Some(json!({"schema": 1})),
            ..WriteSpec::default()
        };
        specs.write(&first, Some(&rendered)).expect("written");
        let exchange = WriteSpec {
            desired: Some(Source::Current),
            current: Some(Source::Desired),
            ..WriteSpec::default()
        };
        specs.write(&exchange, None).expect("written");
        assert_eq!(
            (version(&mut specs, Spec::Desired), version(&mut specs, Spec::Current)),
            ("5".into(), "6".into())
        );
        let gone = WriteSpec { desired: Some(Source::Rendered("6".into())), ..WriteSpec::default() };
        let failure = specs.write(&gone, Some(&device("7", ""))).expect_err("another version came");
        assert_eq!(failure.kind, FailureKind::Conflict);
    }

    #[test]
    fn what_is_shown_is_sealed_and_what_is_kept_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut specs = specs(folder.path());
        let given = WriteSpec {
            desired: Some(Source::Given),
            sensitive: crate::device::words::Sensitive { device: Some(device("6", "hunter2")) },
            ..WriteSpec::default()
        };
        specs.write(&given, None).expect("written");
        let shown = serde_json::to_string(&specs.see().expect("seen")).expect("JSON");
        assert!(!shown.contains("hunter2") && shown.contains("sha256:"), "{shown}");
        assert!(specs.device(Spec::Desired).expect("a device").to_string().contains("hunter2"));
    }

    #[test]
    fn half_a_file_is_told_and_kept_aside_when_it_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let half = "{\"metadata\": {\"annotations\"";
        std::fs::write(folder.path().join(DESIRED), half).expect("a file");
        let mut specs = specs(folder.path());
        let seen = specs.see().expect("seen");
        assert!(seen.desired.present && !seen.desired.valid);
        assert_eq!(seen.desired.error.as_deref(), Some("it is no JSON (line 1, column 27)"));
        let repair = WriteSpec { desired: Some(Source::Empty("5".into())), ..WriteSpec::default() };
        specs.write(&repair, None).expect("written");
        assert!(specs.see().expect("seen").desired.valid);
        let aside = std::fs::read_to_string(folder.path().join("desired.json.corrupt-1")).expect("kept");
        assert_eq!(aside, half);
    }
}
