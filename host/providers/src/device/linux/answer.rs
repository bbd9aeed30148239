//! The questions, answered.

use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::trouble::{invalid, transient};
use super::{Inner, accounts, hooks, lock};
use crate::device::window;
use crate::device::words::{
    AskApplication, AskFiles, AskHooks, AskImages, AskOperation, AskSystemd, AskWindow, Boot, Code, Error,
    FilesSeen, Identity, Known, NoArguments, Window,
};

impl Inner {
    /// Answers, and remembers who has to be told.
    pub(super) async fn answer(self: Arc<Self>, query: &ExternalQuery) -> Result<Json, Failure> {
        // Before it is looked at: a change in between is told then.
        self.asked.note(query, &"".into());
        let answer = Arc::clone(&self).look(query).await?;
        self.asked.note(query, &answer);
        Ok(answer)
    }

    /// What the answer is now.
    pub(super) async fn look(self: Arc<Self>, query: &ExternalQuery) -> Result<Json, Failure> {
        let (question, text) = (query.question.as_str(), &*query.arguments);
        match question {
            "rendered" => none(question, text, || json(&self.service.rendered())),
            "spec-files" => {
                self.watches.folder(super::STATE_FOLDER);
                none(question, text, || known(lock(&self.specs).see()))
            }
            "boot" => none(question, text, || json(&self.boot())),
            "os" => {
                read::<NoArguments>(question, text)?;
                known(self.os.see().await)
            }
            "files" => {
                let ask = read::<AskFiles>(question, text)?;
                blocking(move || known(self.files_seen(&ask))).await
            }
            "hooks" => {
                let ask = read::<AskHooks>(question, text)?;
                hooks::folders(ask.hook).iter().for_each(|folder| self.watches.folder(folder));
                known(hooks::see(&self.root, ask.hook))
            }
            "images" => json(&self.images.see(&read::<AskImages>(question, text)?).await),
            "application" => {
                let ask = read::<AskApplication>(question, text)?;
                let device = lock(&self.specs).device(ask.spec);
                match device {
                    Ok(device) => known(self.apps.content(&device, &ask.name).await),
                    Err(failure) => known::<()>(Err(failure)),
                }
            }
            "applications" => none_async(question, text, known(self.apps.see().await)),
            "resources" => none(question, text, || json(&lock(&self.monitors).see())),
            "window" | "schedule" => self.window(question, &read::<AskWindow>(question, text)?),
            "systemd" => known(self.apps.units(&read::<AskSystemd>(question, text)?.patterns).await),
            "operation" => json(&lock(&self.ledger).see(&read::<AskOperation>(question, text)?.key)),
            "identity" => none(question, text, || json(&self.identity())),
            other => Err(invalid(format!("device has no question {other:?}"))),
        }
    }

    fn boot(&self) -> Boot {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        let booted_at = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        Boot { boot_id: self.boot_id.clone(), booted_at: booted_at.map(|at| at.to_string()) }
    }

    fn files_seen(&self, ask: &AskFiles) -> Result<FilesSeen, Failure> {
        ask.paths.iter().for_each(|path| self.watches.path(path));
        let files = lock(&self.files);
        let root = files.root();
        let mut seen = FilesSeen::default();
        for path in &ask.paths {
            seen.files.insert(path.clone(), files.see(path)?);
        }
        seen.users = ask.users.iter().map(|name| (name.clone(), accounts::user(root, name))).collect();
        seen.groups = ask.groups.iter().map(|name| (name.clone(), accounts::group(root, name))).collect();
        Ok(seen)
    }

    fn window(&self, question: &str, ask: &AskWindow) -> Result<Json, Failure> {
        let answer = match window::zone(ask.time_zone.as_deref()) {
            Ok(zone) => window::answer(&zone, ask, (self.clock)()),
            Err(error) => Window { error: Some(error), ..Window::default() },
        };
        match question {
            // Its answer may not change by itself.
            "schedule" => json(&Window { error: answer.error, ..Window::default() }),
            _ => json(&answer),
        }
    }

    fn identity(&self) -> Identity {
        let (enrolled, enrolment) = self.service.enrolment();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Identity {
            device_name: self.name.clone(),
            enrolled,
            enrolment,
            architecture: architecture.to_owned(),
            operating_system: "linux".to_owned(),
            agent_version: self.version.clone(),
            custom_info: self.custom_info.clone(),
            skipped: lock(&self.skipped).clone(),
        }
    }
}

/// Runs what waits for a disk where it holds nobody up.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(transient(format!("the work was cut off: {error}"))),
    }
}

fn none(question: &str, text: &str, answer: impl FnOnce() -> Result<Json, Failure>) -> Result<Json, Failure> {
    read::<NoArguments>(question, text)?;
    answer()
}

fn none_async(question: &str, text: &str, answer: Result<Json, Failure>) -> Result<Json, Failure> {
    read::<NoArguments>(question, text)?;
    answer
}

/// Reads arguments; what is wrong with them is the plugin's fault, and no word of them is told.
pub(super) fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        invalid(format!("the arguments of {what} are not as they should be, at column {}", error.column()))
    })
}

/// An answer, or why there is none just now.
pub(super) fn known<T: Serialize>(answer: Result<T, Failure>) -> Result<Json, Failure> {
    json(&match answer {
        Ok(answer) => Known::Answer(answer),
        Err(failure) => Known::Unknown { unknown: error(&failure) },
    })
}

/// A failure as the plugin is told of it.
pub(super) fn error(failure: &Failure) -> Error {
    let code = match failure.kind {
        FailureKind::Transient => Code::Transient,
        FailureKind::Invalid => Code::Invalid,
        FailureKind::Denied => Code::Denied,
        FailureKind::Conflict => Code::Conflict,
        FailureKind::NotFound => Code::NotFound,
    };
    Error { code, message: failure.message.to_string() }
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<Json, Failure> {
    serde_json::to_string(value).map(Into::into).map_err(|error| transient(error.to_string()))
}
