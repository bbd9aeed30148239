//! One call of a pass: what the host observed so far, and what the pass still wants to know.

use std::cell::RefCell;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ask::mismatch;
use crate::{
    Action, Answer, Asked, External, FailedPass, Failure, Get, Kind, List, LogLevel, LogLine, ObjectRef,
    Place, Query, Request, Stop,
};

/// What a pass knows and asks. Nothing else reaches a plugin: no clock, no environment, no state of an earlier pass.
pub struct Pass {
    request: Request,
    questions: RefCell<Vec<Query>>,
    log: RefCell<Vec<LogLine>>,
}

impl Pass {
    /// From the host's request.
    pub fn new(request: Request) -> Self {
        Self { request, questions: RefCell::default(), log: RefCell::default() }
    }

    /// The controller asked, by its name in the manifest.
    pub fn controller(&self) -> &str {
        &self.request.controller
    }

    /// Where the primary object lives.
    pub fn key(&self) -> &ObjectRef {
        &self.request.key
    }

    /// The primary's name.
    pub fn name(&self) -> &str {
        &self.request.key.name
    }

    /// The primary's namespace; "" for a cluster-scoped kind.
    pub fn namespace(&self) -> &str {
        self.request.key.namespace.as_deref().unwrap_or_default()
    }

    /// The primary object; none once it is gone.
    pub fn primary<K: DeserializeOwned>(&self) -> Result<Option<K>, Stop> {
        self.object(self.request.primary.as_deref())
    }

    /// What was last seen of a primary that is gone. Lost with a restart of the host.
    pub fn last_seen<K: DeserializeOwned>(&self) -> Result<Option<K>, Stop> {
        self.object(self.request.last_seen.as_deref())
    }

    /// How the previous pass of this object failed, if it did: for its status.
    pub fn last_failure(&self) -> Option<&FailedPass> {
        self.request.last_failure.as_ref()
    }

    /// The operator's settings for this plugin.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C, Stop> {
        serde_json::from_str(&self.request.config)
            .map_err(|cause| Stop::invalid(format!("the plugin's config cannot be read: {cause}")))
    }

    /// A question for one object: `pass.get::<Namespace>("a")`, `pass.get::<Service>(("namespace", "name"))`.
    pub fn get<K: Kind + DeserializeOwned>(&self, place: impl Into<Place>) -> Get<'_, K> {
        Get::new(self, place.into())
    }

    /// A question for every object of a kind; narrow it before it is put.
    pub fn list<K: Kind + DeserializeOwned>(&self) -> List<'_, K> {
        List::new(self)
    }

    /// The current time, asked together with other questions. Time alone never runs a pass again: use
    /// [`crate::Conclusion::requeue_after`].
    pub fn clock(&self) -> Asked<'_, Timestamp> {
        Asked::put(self, Query::Clock, |query, answer| match answer {
            Answer::Time(text) => {
                text.parse().map_err(|_| Stop::transient(format!("the host's time {text:?} is not RFC 3339")))
            }
            Answer::Object(_) | Answer::Objects(_) | Answer::Unserved | Answer::External(_) => {
                Err(mismatch(query))
            }
        })
    }

    /// The current time.
    pub fn now(&self) -> Result<Timestamp, Stop> {
        self.clock().read()
    }

    /// A question to a provider of the host.
    pub fn external<T: DeserializeOwned>(
        &self,
        provider: &str,
        question: &str,
        arguments: &impl Serialize,
    ) -> External<'_, T> {
        External::new(self, provider, question, arguments)
    }

    /// Has actions done in the middle of a pass, and gives their outcomes in order. They may only be computed from
    /// what does not change by doing them: the next round must ask for the same ones to get at the outcomes.
    pub fn perform(&self, actions: Vec<Action>) -> Result<Vec<Result<Option<String>, Failure>>, Stop> {
        let outcomes: Vec<_> = actions
            .iter()
            .map_while(|action| self.request.performed.iter().find(|done| done.action == *action))
            .map(|done| done.outcome.clone())
            .collect();
        if outcomes.len() == actions.len() { Ok(outcomes) } else { Err(Stop::Perform(actions)) }
    }

    /// Leaves a line in the host's log. Not for values of Secrets.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.log.borrow_mut().push(LogLine { level, message: message.into() });
    }

    pub(crate) fn answer(&self, query: &Query) -> Option<&Answer> {
        self.request.observations.iter().find(|seen| is_same(&seen.query, query)).map(|seen| &seen.answer)
    }

    pub(crate) fn note_question(&self, query: &Query) {
        let mut questions = self.questions.borrow_mut();
        if !questions.iter().any(|noted| is_same(noted, query)) {
            questions.push(query.clone());
        }
    }

    pub(crate) fn into_questions_and_log(self) -> (Vec<Query>, Vec<LogLine>) {
        (self.questions.into_inner(), self.log.into_inner())
    }

    fn object<K: DeserializeOwned>(&self, text: Option<&str>) -> Result<Option<K>, Stop> {
        let Some(text) = text else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|cause| {
            let object = crate::failure::object_text(self.key());
            let (line, column) = (cause.line(), cause.column());
            Stop::invalid(format!("{object} has an unexpected shape (line {line}, column {column})"))
        })
    }
}

/// Whether two questions are one. Each is held against all others, so what tells most apart, the name, comes first.
fn is_same(one: &Query, other: &Query) -> bool {
    match (one, other) {
        (Query::Get(one), Query::Get(other)) => one.object.name == other.object.name && one == other,
        _ => one == other,
    }
}
