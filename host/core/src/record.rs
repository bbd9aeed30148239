//! What the journal keeps of a look at a key: enough to say why, and to ask another version the same again.

mod redact;
mod subject;

pub use self::redact::STRUCK;

use serde::{Deserialize, Serialize};

pub use self::subject::Subject;

use crate::admit::SkipReason;
use crate::contract::{Action, Failure, Gvk, Json, LogLine, ObjectRef, Observation, Query, Request};

/// What put a key into the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// An object changed that its last pass rested on.
    Changed {
        /// The object.
        object: ObjectRef,
    },
    /// The list of a kind came in whole.
    Synced {
        /// The kind.
        gvk: Gvk,
    },
    /// A kind is served now, or no longer.
    Serving {
        /// The kind.
        gvk: Gvk,
        /// Whether it is.
        served: bool,
    },
    /// A pass of another object asked for it.
    Enqueued {
        /// That object.
        by: ObjectRef,
    },
    /// A provider told that a question of its last pass may be answered otherwise now.
    Told {
        /// The provider.
        provider: String,
        /// The question.
        question: String,
    },
    /// Its last pass failed.
    Retry,
    /// Its last conclusion asked for it.
    Requeue,
    /// It is time to look again.
    Resync,
    /// The plugin was loaded or swapped.
    Loaded,
}

impl std::fmt::Display for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed { object } => write!(f, "{object} changed"),
            Self::Synced { gvk } => write!(f, "the list of {gvk} came in"),
            Self::Serving { gvk, served: true } => write!(f, "{gvk} is served now"),
            Self::Serving { gvk, served: false } => write!(f, "{gvk} is no longer served"),
            Self::Enqueued { by } => write!(f, "{by} asked for it"),
            Self::Told { provider, question } => write!(f, "{provider} told that its {question} changed"),
            Self::Retry => f.write_str("the last pass failed"),
            Self::Requeue => f.write_str("the last pass asked to be run again"),
            Self::Resync => f.write_str("it was time to look again"),
            Self::Loaded => f.write_str("the plugin was loaded"),
        }
    }
}

/// Whether what a plugin is given holds secrets, as far as the journal knows them.
pub fn shows_secrets(request: &Request) -> bool {
    redact::shows_secrets(request)
}

/// One look at a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PassRecord {
    /// When it began, RFC 3339, UTC.
    pub time: String,
    /// The plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Its digest.
    pub digest: String,
    /// The controller.
    pub controller: String,
    /// The primary.
    pub key: ObjectRef,
    /// What put it into the queue.
    pub trigger: Trigger,
    /// What the plugin was called with first; none where it was not called.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<Request>,
    /// Its replies, in order, with the answers that followed.
    pub calls: Vec<CallRecord>,
    /// What was done or left out, in order.
    pub deeds: Vec<DeedRecord>,
    /// How it ended.
    pub end: End,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// One call of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CallRecord {
    /// What came of it.
    pub reply: CallReply,
    /// What it wanted logged.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub log: Vec<LogLine>,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Linear memory at its end, in bytes.
    pub memory: u64,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallReply {
    /// It asked these; the answers are there once they were given.
    Asked {
        /// The questions.
        queries: Vec<Query>,
        /// The answers.
        answers: Vec<Observation>,
    },
    /// It wanted so many things done before it goes on.
    Performed {
        /// How many.
        actions: usize,
    },
    /// It concluded.
    Concluded {
        /// Actions of its conclusion.
        actions: usize,
        /// Kinds that it prunes.
        prune: Vec<Gvk>,
        /// Milliseconds after which it wants to be run again.
        requeue_after: Option<u64>,
    },
    /// It reported a failure.
    Failed {
        /// Which.
        failure: Failure,
    },
    /// It did not survive.
    Died {
        /// How, in words.
        error: String,
    },
}

/// Something that was to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeedRecord {
    /// The action.
    pub action: Action,
    /// The object that it is about; none for an operation outside Kubernetes.
    pub object: Option<ObjectRef>,
    /// What came of it.
    pub outcome: DeedOutcome,
    /// What the provider said; none for what is not an operation outside Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub said: Option<Json>,
    /// Whether it repaired drift, without a call of the plugin.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub repair: bool,
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeedOutcome {
    /// The API server, the queue or a provider took it.
    Done,
    /// It would have changed nothing.
    Skipped {
        /// Why not.
        reason: SkipReason,
    },
    /// It failed, and ended the pass.
    Failed {
        /// Why.
        failure: Failure,
    },
}

/// How a look at a key ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The plugin's conclusion was carried out.
    Concluded {
        /// Milliseconds after which it is run again, if nothing else runs it.
        requeue_after: Option<u64>,
    },
    /// Nothing that it rests on has changed: what was concluded before stands.
    Stands,
    /// It failed.
    Failed {
        /// Why.
        failure: Failure,
        /// Failures in a row.
        count: u32,
        /// When it is tried again, in words.
        retry: String,
    },
    /// Something that it rests on changed under it: it runs again at once.
    Stale,
    /// The watch of a kind is not in step yet.
    Waiting {
        /// The kind.
        gvk: Gvk,
    },
    /// The key woke too often and is held back.
    Slowed {
        /// So many milliseconds.
        millis: u64,
    },
    /// The object is paused by annotation.
    Paused,
}

impl PassRecord {
    /// Memory that it takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        let request = self.request.as_ref().map_or(0, |request| {
            let text = |json: &Option<crate::contract::Json>| json.as_ref().map_or(0, |text| text.len());
            let answers: usize = request.observations.iter().map(answer_bytes).sum();
            let failed = request.last_failure.as_ref();
            let failed = failed
                .map_or(0, |pass| pass.failure.message.len() + pass.action.as_ref().map_or(0, action_bytes));
            let performed =
                request.performed.iter().map(|done| 64 + action_bytes(&done.action)).sum::<usize>();
            text(&request.primary)
                + text(&request.last_seen)
                + answers
                + failed
                + performed
                + request.config.len()
                + 256
        });
        let calls: usize = self
            .calls
            .iter()
            .map(|call| {
                reply_bytes(&call.reply) + call.log.iter().map(|line| 32 + line.message.len()).sum::<usize>()
            })
            .sum();
        let deeds: usize = self.deeds.iter().map(deed_bytes).sum();
        let end = if let End::Failed { failure, .. } = &self.end { failure.message.len() } else { 0 };
        512 + request + calls + deeds + end
    }

    /// Strikes the data of Secrets out of everything in it. A record goes nowhere before this.
    pub fn redact(&mut self) {
        redact::record(self);
    }
}

fn reply_bytes(reply: &CallReply) -> usize {
    match reply {
        CallReply::Asked { queries, answers } => {
            queries.iter().map(query_bytes).sum::<usize>() + answers.iter().map(answer_bytes).sum::<usize>()
        }
        CallReply::Failed { failure } => 64 + failure.message.len(),
        CallReply::Died { error } => 64 + error.len(),
        CallReply::Performed { .. } | CallReply::Concluded { .. } => 64,
    }
}

fn query_bytes(query: &Query) -> usize {
    128 + match query {
        Query::External(external) => external.arguments.len(),
        Query::Get(_) | Query::List(_) | Query::Clock => 0,
    }
}

fn deed_bytes(deed: &DeedRecord) -> usize {
    let failed = if let DeedOutcome::Failed { failure } = &deed.outcome { failure.message.len() } else { 0 };
    160 + action_bytes(&deed.action) + deed.said.as_ref().map_or(0, |text| text.len()) + failed
}

fn answer_bytes(observation: &Observation) -> usize {
    use crate::contract::Answer;
    query_bytes(&observation.query)
        + match &observation.answer {
            Answer::Object(object) => object.as_ref().map_or(0, |text| text.len()),
            // The texts are shared with the cache; the list of them is not.
            Answer::Objects(objects) => objects.len() * 16,
            Answer::Unserved | Answer::Time(_) => 32,
            Answer::External(answer) => answer.as_ref().map_or(64, |text| text.len()),
        }
}

fn action_bytes(action: &Action) -> usize {
    match action {
        Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => apply.object.len(),
        Action::Patch(patch) => patch.merge.len(),
        Action::Publish(event) => event.message.len(),
        Action::External(operation) => operation.arguments.len(),
        Action::Delete(_) | Action::AddFinalizer(_) | Action::RemoveFinalizer(_) | Action::Enqueue(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ExternalQuery, FailureKind, LogLevel};
    use crate::testing::reference;

    fn record(calls: Vec<CallRecord>, end: End) -> PassRecord {
        PassRecord {
            time: String::new(),
            plugin: String::new(),
            version: String::new(),
            digest: String::new(),
            controller: String::new(),
            key: reference("ConfigMap a/x"),
            trigger: Trigger::Loaded,
            request: None,
            calls,
            deeds: vec![],
            end,
            micros: 0,
        }
    }

    /// The journal is bounded by what its records say of themselves.
    #[test]
    fn whatever_a_plugin_may_make_long_is_counted() {
        let long = "x".repeat(100_000);
        let failure = || Failure::new(FailureKind::Transient, long.clone());
        let call = |reply, log| record(vec![CallRecord { reply, log, micros: 0, memory: 0 }], End::Stands);
        let external = Query::External(ExternalQuery {
            provider: String::new(),
            question: String::new(),
            arguments: long.as_str().into(),
        });
        let line = LogLine { level: LogLevel::Info, message: long.clone() };
        for (what, record) in [
            ("a log line", call(CallReply::Performed { actions: 0 }, vec![line])),
            ("a failure", call(CallReply::Failed { failure: failure() }, vec![])),
            ("an end", record(vec![], End::Failed { failure: failure(), count: 1, retry: String::new() })),
            ("a crash", call(CallReply::Died { error: long.clone() }, vec![])),
            ("a question", call(CallReply::Asked { queries: vec![external], answers: vec![] }, vec![])),
        ] {
            assert!(record.bytes() >= long.len(), "{what}: {} bytes", record.bytes());
        }
    }
}
