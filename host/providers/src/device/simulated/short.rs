//! Operations, and the short ones among them: they have taken effect when they return.

use evenkeel_core::contract::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::Effect;
use super::disk::Node;
use super::state::{Image, State, conflict, device, invalid};
use crate::device::seal;
use crate::device::words::{
    DaemonReload, Error, Expect, ImageSeen, NoArguments, Outcome, Prefetch, PullState, RemoveFile,
    RestoreFile, Rollback, SetMonitors, Source, Spec, WriteFile, WriteSpec,
};

fn read<T: DeserializeOwned>(operation: &str, arguments: &str) -> Result<T, Failure> {
    serde_json::from_str(arguments)
        .map_err(|error| Failure::new(FailureKind::Invalid, format!("{operation}: {error}")))
}

/// What a host without power hears.
fn cut() -> Failure {
    Failure::new(FailureKind::Transient, "the machine lost its power")
}

impl State {
    /// Carries an operation out, or begins it.
    pub(super) fn perform(
        &mut self,
        key: &str,
        operation: &str,
        arguments: &str,
    ) -> Result<Outcome, Failure> {
        let (before, after) = self.count_down();
        if before {
            self.boot();
            return Err(cut());
        }
        let fault = self.fault(operation, key);
        let effect = fault.as_ref().map(|fault| fault.effect);
        let error = fault.as_ref().map(|fault| Error { code: fault.code, message: fault.message.clone() });
        let is_long = Self::is_long(operation);
        self.may_be_done(key, operation, arguments);
        let outcome = match (effect, error) {
            (Some(Effect::Refused), Some(error)) => Outcome::Failed { error },
            (Some(Effect::Fails), Some(error)) if !is_long => Outcome::Failed { error },
            (Some(Effect::Ignored), _) if !is_long => Outcome::Done,
            (effect, error) if is_long => self.begin(key, operation, arguments, effect, error)?,
            _ => self.short(key, operation, arguments)?,
        };
        if after {
            self.boot();
            return Err(cut());
        }
        if effect == Some(Effect::Unanswered) {
            return Err(Failure::new(FailureKind::Transient, "no answer arrived"));
        }
        Ok(outcome)
    }

    fn short(&mut self, key: &str, operation: &str, arguments: &str) -> Result<Outcome, Failure> {
        self.note(operation, key);
        let done = match operation {
            "write-spec" => self.write_spec(read(operation, arguments)?),
            "prefetch" => {
                self.prefetch(read(operation, arguments)?);
                Ok(())
            }
            "write-file" => self.write_file(&read(operation, arguments)?),
            "remove-file" => {
                let RemoveFile { path, backup } = read(operation, arguments)?;
                if backup {
                    self.disk.back_up(&path);
                }
                self.disk.set(&path, None);
                Ok(())
            }
            "restore-file" => self.restore_file(&read(operation, arguments)?),
            "daemon-reload" => read::<DaemonReload>(operation, arguments).map(|_| Ok(()))?,
            "set-monitors" => {
                let SetMonitors { monitors } = read(operation, arguments)?;
                let monitors = monitors.unwrap_or_default();
                if monitors != self.monitors && self.alerts.ends_with_monitors {
                    self.alerts = super::config::Alerts::default();
                }
                self.monitors = monitors;
                Ok(())
            }
            "unstage-os" => {
                read::<NoArguments>(operation, arguments)?;
                self.os.staged = None;
                Ok(())
            }
            "report" => read::<NoArguments>(operation, arguments).map(|_| Ok(()))?,
            other => {
                return Err(Failure::new(
                    FailureKind::Invalid,
                    format!("the provider device has no operation {other:?}"),
                ));
            }
        };
        Ok(match done {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed { error },
        })
    }

    /// For those who look: the operation and the part of its key that tells it apart.
    pub(super) fn note(&mut self, operation: &str, key: &str) {
        let tail = key.split_once('/').map_or(key, |(_, tail)| tail);
        let mut parts = tail.splitn(3, '/');
        let numbers = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let name = match (parts.next(), parts.next(), parts.next()) {
            (Some(version), Some(attempt), Some(name)) if numbers(version) && numbers(attempt) => name,
            _ => tail,
        };
        let rest = match name.strip_prefix(operation) {
            Some("") => String::new(),
            Some(rest) if rest.starts_with('/') => format!(" {}", &rest[1..]),
            _ => format!(" {name}"),
        };
        self.log.push(format!("{operation}{rest}"));
    }

    fn write_spec(&mut self, files: WriteSpec) -> Result<(), Error> {
        let WriteSpec { state, rollback, desired, current, sensitive } = files;
        let before = (self.specs.get("desired").cloned(), self.specs.get("current").cloned());
        let mut content = |source: Source| -> Result<Vec<u8>, Error> {
            match source {
                Source::Rendered(version) => match &self.service.offer {
                    Some(offer) if offer.version == version => {
                        let spec = offer.spec.clone().unwrap_or(json!({}));
                        Ok(device(&offer.version, &offer.hash, &spec).to_string().into_bytes())
                    }
                    _ => Err(conflict(format!("the service does not offer version {version} any more"))),
                },
                Source::Desired => before.0.clone().ok_or_else(|| conflict("there is no desired.json")),
                Source::Current => before.1.clone().ok_or_else(|| conflict("there is no current.json")),
                Source::Empty(version) => Ok(device(&version, "", &json!({})).to_string().into_bytes()),
                Source::Given => match &sensitive.device {
                    Some(device) => Ok(device.to_string().into_bytes()),
                    None => Err(invalid("no Device was given")),
                },
            }
        };
        let desired = desired.map(&mut content).transpose()?;
        let current = current.map(&mut content).transpose()?;
        let rollback = rollback.map(|rollback| match rollback {
            Rollback::Clear => device("", "", &json!({})),
            Rollback::Set(back) => {
                let mut device = device(&back.version, "", &json!({"os": {"image": back.os_image}}));
                device["metadata"]["annotations"]["evenkeel.dev/desired-version"] =
                    json!(back.desired_version);
                device["metadata"]["annotations"]["evenkeel.dev/desired-spec-hash"] =
                    json!(back.desired_spec_hash);
                device
            }
        });
        let rollback = rollback.map(|device| device.to_string().into_bytes());
        let state_bytes = state.as_ref().map(|state| state.to_string().into_bytes());
        self.adopts_no_failed(state.as_ref());
        for (name, bytes) in
            [("state", state_bytes), ("rollback", rollback), ("desired", desired), ("current", current)]
        {
            let Some(bytes) = bytes else { continue };
            let damaged = |old: &Vec<u8>| serde_json::from_slice::<Value>(old).is_err();
            if self.specs.get(name).is_some_and(damaged) {
                self.aside.push(format!("{name}.corrupt-{}", self.aside.len() + 1));
            }
            self.specs.insert(name.to_owned(), bytes);
            // Each file is whole by itself; between two of them the power may fail.
            if self.power.is_some() {
                let (before, after) = self.count_down();
                if before || after {
                    self.boot();
                    return Err(Error {
                        code: crate::device::words::Code::Transient,
                        message: "the machine lost its power".to_owned(),
                    });
                }
            }
        }
        if self.update_state().get("update").is_some_and(Value::is_null) {
            self.compact();
        }
        Ok(())
    }

    /// Forgets what ended with its update.
    fn compact(&mut self) {
        let of_update = |key: &str| {
            key.split('/')
                .nth(1)
                .is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.operations.retain(|key, deed| {
            !of_update(key) || deed.state == crate::device::words::OperationState::Running
        });
        // A key belongs to its update: a version that is tried once more by an operator's word begins anew.
        let operations = &self.operations;
        self.hook_runs.retain(|key, _| operations.contains_key(key) || !of_update(key));
    }

    fn prefetch(&mut self, prefetch: Prefetch) {
        let names: Vec<&String> = prefetch.refs.iter().map(|wanted| &wanted.reference).collect();
        self.images.retain(|name, image| image.seen.state == PullState::Present || names.contains(&name));
        for wanted in &prefetch.refs {
            if self.images.contains_key(&wanted.reference) {
                continue;
            }
            let due = Instant::now() + self.pull_seconds(&wanted.reference);
            let seen = ImageSeen {
                reference: wanted.reference.clone(),
                state: PullState::Pulling,
                digest: String::new(),
                tries: 0,
                next_try: None,
                error: None,
            };
            self.images.insert(wanted.reference.clone(), Image { seen, due: Some(due) });
        }
        self.wanted = prefetch.refs;
    }

    fn write_file(&mut self, write: &WriteFile) -> Result<(), Error> {
        let WriteFile { spec, path, sha256, mode, user, group, expect, backup } = write;
        let file = match spec {
            Spec::Desired => "desired",
            Spec::Current => "current",
        };
        let device = self.device(file).ok_or_else(|| conflict(format!("there is no {file}.json")))?;
        let entry =
            seal::find_file(&device, path).ok_or_else(|| conflict(format!("{file}.json has no {path}")))?;
        let content = seal::content(entry).map_err(invalid)?;
        if seal::sha256(&content) != *sha256 {
            return Err(conflict(format!("{path} has another content in {file}.json")));
        }
        if ["/proc/", "/sys/"].iter().any(|folder| path.starts_with(folder)) {
            return Err(Error {
                code: crate::device::words::Code::Denied,
                message: "operation not permitted".to_owned(),
            });
        }
        let there = self.disk.get(path);
        if there.is_some_and(|node| node.dir) {
            return Err(invalid("a directory is in the way"));
        }
        let as_expected = match expect {
            None => true,
            Some(Expect::Absent) => there.is_none(),
            Some(Expect::Sha256(digest)) => there.is_some_and(|node| seal::sha256(&node.content) == *digest),
        };
        if !as_expected {
            return Err(conflict("it was changed meanwhile"));
        }
        let number =
            |name: &str| self.number(name).ok_or_else(|| invalid(format!("there is no user {name:?}")));
        let node = Node { content, mode: *mode, uid: number(user)?, gid: number(group)?, dir: false };
        if *backup {
            self.disk.back_up(path);
        }
        self.disk.set(path, Some(node));
        Ok(())
    }

    fn restore_file(&mut self, restore: &RestoreFile) -> Result<(), Error> {
        let RestoreFile { path, backup } = restore;
        let node = match backup {
            None => None,
            Some(digest) => {
                let there = self.disk.get(path);
                let kept = self.disk.backups.get(&(path.clone(), digest.clone())).cloned();
                match (kept, there) {
                    (Some(kept), _) => Some(kept),
                    // What was never replaced was never kept, and is still there.
                    (None, Some(there)) if seal::sha256(&there.content) == *digest => return Ok(()),
                    (None, _) => {
                        return Err(Error {
                            code: crate::device::words::Code::NotFound,
                            message: "there is no backup".to_owned(),
                        });
                    }
                }
            }
        };
        if self.disk.get(path) != node.as_ref() {
            self.disk.set(path, node);
        }
        Ok(())
    }
}
