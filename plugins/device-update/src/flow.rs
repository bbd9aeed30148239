//! A pass under way: what was observed, what is done, and what is left to say at its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_sdk::{Action, Asked, LogLevel, ObjectRef, Pass, Stop, act};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;
use crate::device::Device;
use crate::primary::Primary;
use crate::state::{Phase, State, Trouble, Update};
use crate::words::{self, Boot, Code, Error, Identity, Known, OperationSeen, OperationState, Os, Outcome};

/// Rounds in which a pass has something done, of the sixteen that the host allows for those and for questions: past this the
/// next pass goes on.
const ROUNDS_OF_DEEDS_MAX: u32 = 7;

/// How often a long operation is asked for again under another key.
const REPEATS_MAX: u32 = 3;

/// Why a pass does not go on.
pub enum Halt {
    /// For the host: an answer or an outcome is missing, or the pass failed.
    Stop(Stop),
    /// The update, or what is done for it, failed.
    Failed(Trouble),
    /// The world does not let us write down or look; tried again after a while.
    Blocked(String),
    /// Rounds are used up: the next pass goes on.
    Later,
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// What a phase came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The state changed: decide anew.
    Go,
    /// Nothing more to do until something happens.
    Wait,
}

/// How a long operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It took effect.
    Done,
    /// It is under way.
    Running,
    /// It did not take effect.
    Failed(Error),
}

/// A pass under way.
pub struct Flow<'p> {
    /// The host's side of it.
    pub pass: &'p Pass,
    /// The operator's settings.
    pub config: Config,
    /// The object.
    pub primary: Primary,
    /// `update-state.json`, with what this pass has written.
    pub state: State,
    /// `desired.json`.
    pub desired: Device,
    /// `current.json`.
    pub current: Device,
    /// What `rollback.json` says.
    pub way_back: Option<words::WayBack>,
    /// The newest spec that is offered, if it can be read.
    pub offered: Option<Offered>,
    /// What is odd about it, or about anything else: for `updated.info`.
    pub remarks: Vec<String>,
    /// The boot.
    pub boot: Boot,
    /// The operating system; none while nobody can tell.
    pub os: Known<Os>,
    /// Who the device is.
    pub identity: Identity,
    /// Alerts.
    pub resources: words::ResourcesSeen,
    /// Applications on the device.
    pub applications: BTreeMap<String, words::AppSeen>,
    /// Events of this pass.
    pub events: Vec<Action>,
    /// What the update waits for.
    pub note: String,
    /// When to look again.
    pub again: Option<Duration>,
    /// What it has had done.
    pub done: Done,
}

/// A spec that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// The Device, sealed.
    pub device: Device,
    /// How `write-spec` names it.
    pub source: words::Source,
    /// The whole Device, where the provider does not have it by itself.
    pub given: Option<Value>,
}

/// What this pass has had done.
#[derive(Debug, Default)]
pub struct Done {
    /// Rounds in which something was done.
    rounds: Cell<u32>,
    /// Whether files were changed: what this pass knows of the disk is of before that.
    touched: Cell<bool>,
}

impl<'p> Flow<'p> {
    // ---- asking ------------------------------------------------------------------------------------------------------

    /// Puts a question; read it where it is needed.
    pub fn ask<T: DeserializeOwned>(
        &self,
        question: &str,
        arguments: &impl Serialize,
    ) -> Asked<'p, Result<T, evenkeel_sdk::Failure>> {
        self.pass.external(words::NAME, question, arguments).ask()
    }

    /// Reads an answer.
    pub fn read<T>(&self, asked: Asked<'p, Result<T, evenkeel_sdk::Failure>>) -> Result<T, Halt> {
        Ok(asked.read()?.map_err(Stop::Fail)?)
    }

    /// Puts a question that is read later, so that it travels with others.
    pub fn put(&self, question: &str, arguments: &impl Serialize) {
        let _ = self.ask::<Value>(question, arguments);
    }

    /// Puts the question how an operation of this update stands, which is read later.
    pub fn put_long(&self, name: &str) {
        (1..=REPEATS_MAX).for_each(|repeat| self.put_key(&self.key(&repeated(name, repeat))));
    }

    /// Puts the question how an operation stands, which is read later.
    pub fn put_key(&self, key: &str) {
        self.put("operation", &words::AskOperation { key: key.to_owned() });
    }

    /// Puts a question and reads its answer.
    pub fn look<T: DeserializeOwned>(&self, question: &str, arguments: &impl Serialize) -> Result<T, Halt> {
        let asked = self.ask(question, arguments);
        self.read(asked)
    }

    /// The operating system; without it nothing about images can be decided.
    pub fn os(&self) -> Result<Os, Halt> {
        match &self.os {
            Known::Answer(os) => Ok(os.clone()),
            Known::Unknown { unknown } => {
                Err(Halt::Blocked(format!("the OS cannot be asked: {}", unknown.message)))
            }
        }
    }

    /// The time.
    pub fn now(&self) -> Result<Timestamp, Halt> {
        Ok(self.pass.now()?)
    }

    /// The time as text.
    pub fn now_text(&self) -> Result<String, Halt> {
        Ok(evenkeel_sdk::rfc3339(self.now()?))
    }

    /// How long something has been so; nothing where the clock went back.
    pub fn elapsed(&self, since: &str) -> Result<Duration, Halt> {
        let now = self.now()?;
        let Ok(since) = since.parse::<Timestamp>() else { return Ok(Duration::MAX) };
        Ok(Duration::try_from(now.duration_since(since)).unwrap_or_default())
    }

    /// How long until a time; nothing where it is past.
    pub fn until(&self, time: &str) -> Result<Duration, Halt> {
        let now = self.now()?;
        let Ok(time) = time.parse::<Timestamp>() else { return Ok(Duration::ZERO) };
        Ok(Duration::try_from(time.duration_since(now)).unwrap_or_default())
    }

    /// A time from now, as text.
    pub fn after(&self, wait: Duration) -> Result<String, Halt> {
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        Ok(evenkeel_sdk::rfc3339(self.now()?.saturating_add(wait).unwrap_or(Timestamp::MAX)))
    }

    /// Whether what is known of the disk is of now; otherwise the next pass, which a change of it wakes, has to look.
    pub fn knows_the_disk(&self) -> Result<(), Halt> {
        if self.done.touched.get() { Err(Halt::Later) } else { Ok(()) }
    }

    /// Has the pass run again after this long at the latest.
    pub fn look_again(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |earlier| earlier.min(wait)));
    }

    fn count(&self) -> Result<(), Halt> {
        self.done.rounds.set(self.done.rounds.get() + 1);
        if self.done.rounds.get() > ROUNDS_OF_DEEDS_MAX { Err(Halt::Later) } else { Ok(()) }
    }

    // ---- acting ------------------------------------------------------------------------------------------------------

    /// Has short operations done, in order, and gives what came of each.
    pub fn act(&self, operations: &[Short]) -> Result<Vec<Result<(), Error>>, Halt> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        self.count()?;
        let actions =
            operations.iter().map(|short| self.external(short.operation, &short.key, &short.arguments));
        let outcomes = self.pass.perform(actions.collect())?;
        if operations.iter().any(|short| matches!(short.operation, "write-file" | "restore-file")) {
            self.done.touched.set(true);
        }
        outcomes.into_iter().map(|outcome| Ok(came_of(outcome)?.map(|_| ()))).collect()
    }

    /// An operation of the provider.
    pub fn external(&self, operation: &str, key: &str, arguments: &Value) -> Action {
        act::external(words::NAME, operation, key, arguments)
    }

    /// How a long operation of this update stands; it is begun where nobody asked for it yet, and asked for under another
    /// key where it was cut short.
    pub fn long(&self, operation: &str, name: &str, arguments: &impl Serialize) -> Result<Progress, Halt> {
        self.long_until(operation, name, arguments, true)
    }

    /// The same, for one whose effect can be seen: where it ended well and nothing is to be seen, it is done again.
    pub fn long_until(
        &self,
        operation: &str,
        name: &str,
        arguments: &impl Serialize,
        seen: bool,
    ) -> Result<Progress, Halt> {
        let arguments = serde_json::to_value(arguments).unwrap_or_default();
        self.put_long(name);
        for repeat in 1..=REPEATS_MAX {
            let key = self.key(&repeated(name, repeat));
            match self.keyed(operation, &key, &arguments)? {
                Known::Answer(OperationState::Succeeded) if seen => return Ok(Progress::Done),
                Known::Answer(OperationState::Succeeded | OperationState::Lost) => {}
                Known::Answer(OperationState::Running | OperationState::Unknown | OperationState::Failed) => {
                    return Ok(Progress::Running);
                }
                Known::Unknown { unknown } => return Ok(Progress::Failed(unknown)),
            }
        }
        let message = "it was cut short or without effect, again and again".to_owned();
        Ok(Progress::Failed(Error { code: Code::Transient, message }))
    }

    /// How an operation stands under a whole key; it is begun where nobody asked for it yet. A failure is an error.
    pub fn keyed(
        &self,
        operation: &str,
        key: &str,
        arguments: &Value,
    ) -> Result<Known<OperationState>, Halt> {
        let seen = self.operation(key)?;
        Ok(match seen.state {
            OperationState::Unknown => {
                self.count()?;
                let action = self.external(operation, key, arguments);
                let outcome = self.pass.perform(vec![action])?.pop();
                match outcome.map(came_of).transpose()? {
                    Some(Err(unknown)) => Known::Unknown { unknown },
                    // Its end changes the answer to the question above, and so wakes the pass.
                    Some(Ok(_)) | None => Known::Answer(OperationState::Running),
                }
            }
            OperationState::Failed => {
                let unexplained = || Error { code: Code::Transient, message: "it failed".to_owned() };
                Known::Unknown { unknown: seen.error.unwrap_or_else(unexplained) }
            }
            state => Known::Answer(state),
        })
    }

    /// What is on record of an operation.
    pub fn operation(&self, key: &str) -> Result<OperationSeen, Halt> {
        self.look("operation", &words::AskOperation { key: key.to_owned() })
    }

    /// A key of this update: `<uid>/<target version>/<attempt>/<name>`.
    pub fn key(&self, name: &str) -> String {
        let (version, attempt) = match &self.state.update {
            Some(update) => (update.target.version.as_str(), update.attempt),
            None => (self.current.version.as_str(), 0),
        };
        format!("{}/{version}/{attempt}/{name}", self.primary.uid)
    }

    // ---- writing down ------------------------------------------------------------------------------------------------

    /// Writes spec files, the state as it is now among them. It is on disk when this returns.
    pub fn write(&self, label: &str, mut files: words::WriteSpec) -> Result<(), Halt> {
        files.state = Some(self.state.json());
        let arguments = serde_json::to_value(&files).unwrap_or_default();
        let short =
            Short { operation: "write-spec", key: self.key(&format!("write-spec/{label}")), arguments };
        for outcome in self.act(&[short])? {
            outcome
                .map_err(|error| Halt::Blocked(format!("spec files cannot be written: {}", error.message)))?;
        }
        Ok(())
    }

    /// Writes the state alone.
    pub fn write_state(&self, label: &str) -> Result<(), Halt> {
        self.write(label, words::WriteSpec::default())
    }

    /// The update under way.
    pub fn update(&self) -> Result<Update, Halt> {
        self.state.update.clone().ok_or_else(|| Halt::Blocked("no update is under way".to_owned()))
    }

    /// Changes the update and writes it down.
    pub fn change(&mut self, label: &str, change: impl FnOnce(&mut Update)) -> Result<(), Halt> {
        if let Some(update) = &mut self.state.update {
            change(update);
        }
        self.write_state(label)
    }

    /// The next phase, written down.
    pub fn enter(&mut self, phase: Phase) -> Result<Next, Halt> {
        self.change(phase.name(), |update| update.phase = phase)?;
        Ok(Next::Go)
    }

    // ---- telling -----------------------------------------------------------------------------------------------------

    /// An event that something happened.
    pub fn tell(&mut self, reason: &str, message: impl Into<String>) {
        self.events.push(act::normal(self.about(), reason, message));
    }

    /// An event that something is wrong.
    pub fn warn(&mut self, reason: &str, message: impl Into<String>) {
        self.events.push(act::warning(self.about(), reason, message));
    }

    /// A line in the log.
    pub fn log(&self, message: impl Into<String>) {
        self.pass.log(LogLevel::Warn, message);
    }

    fn about(&self) -> ObjectRef {
        self.pass.key().clone()
    }

    /// A failure of this update in its present phase.
    pub fn trouble(&self, component: &str, element: &str, error: &Error) -> Trouble {
        let phase = self.state.update.as_ref().map_or("Steady", |update| update.phase.name());
        Trouble {
            phase: phase.to_owned(),
            component: component.to_owned(),
            element: element.to_owned(),
            message: error.message.clone(),
            code: error.code,
            retryable: error.code == Code::Transient,
        }
    }

    /// The same, for content that is at fault.
    pub fn invalid(&self, component: &str, element: &str, message: impl Into<String>) -> Halt {
        Halt::Failed(self.trouble(
            component,
            element,
            &Error { code: Code::Invalid, message: message.into() },
        ))
    }
}

/// The name under which an operation is asked for again.
fn repeated(name: &str, repeat: u32) -> String {
    if repeat == 1 { name.to_owned() } else { format!("{name}/{repeat}") }
}

/// A short operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Short {
    /// Its name.
    pub operation: &'static str,
    /// Its key: for the record only, since it is done each time that it is asked for.
    pub key: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What the provider says came of an operation.
fn came_of(outcome: Result<Option<String>, evenkeel_sdk::Failure>) -> Result<Result<Outcome, Error>, Halt> {
    let text = outcome.map_err(Stop::Fail)?.unwrap_or_default();
    match serde_json::from_str::<Outcome>(&text) {
        Ok(Outcome::Failed { error }) => Ok(Err(error)),
        Ok(outcome) => Ok(Ok(outcome)),
        Err(error) => {
            Err(Halt::Stop(Stop::invalid(format!("the provider device answers strangely: {error}"))))
        }
    }
}
