//! The test helper: one pass of a plugin against objects given as YAML, its conclusion as compact text.
//!
//! It answers as the host would, so a test runs the code that a component runs. Each call is made twice with equal
//! input and has to give equal replies.
//!
//! ```
//! # use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop, manifest};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # struct Idle;
//! # impl Plugin for Idle {
//! #     fn describe() -> Manifest {
//! #         manifest("idle", "0.1.0", "").controller(evenkeel_sdk::controller::<ConfigMap>("idle")).build()
//! #     }
//! #     fn reconcile(_: &Pass) -> Result<Conclusion, Stop> { Ok(Conclusion::new()) }
//! # }
//! use evenkeel_sdk::check::Check;
//!
//! let objects = "
//! - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n}}
//! - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: n}}
//! ";
//! assert_eq!(Check::of::<Idle>("idle").key("n/a").given(objects).run().to_string(), "nothing to do\n");
//! ```

use std::fmt;

use serde_json::Value;

use crate::bindings::evenkeel::reconciler::types::Conclusion;
use crate::{
    Action, Answer, FailedPass, Failure, FailureKind, Gvk, Kind, LogLine, Manifest, ObjectRef, Observation,
    Performed, Plugin, Query, Reply, Request, Step,
};

mod answer;
mod print;
mod provider;
#[cfg(test)]
mod tests;

/// Rounds after which a pass is surely asking in a circle; the host has the same limit.
const ROUNDS_MAX: usize = 16;

/// A pass to be run.
#[must_use = "a check does nothing until it is run"]
pub struct Check {
    call: fn(Request) -> Result<Reply, Failure>,
    manifest: Manifest,
    controller: String,
    key: String,
    now: String,
    config: String,
    objects: Vec<Value>,
    unserved: Vec<Gvk>,
    providers: provider::Script,
    last_failure: Option<FailedPass>,
}

impl Check {
    /// A pass of a plugin's controller.
    pub fn of<P: Plugin>(controller: &str) -> Self {
        Self {
            call: crate::run::<P>,
            manifest: P::describe(),
            controller: controller.to_owned(),
            key: String::new(),
            now: "2026-01-01T00:00:00Z".to_owned(),
            config: "{}".to_owned(),
            objects: Vec::new(),
            unserved: Vec::new(),
            providers: provider::Script::default(),
            last_failure: None,
        }
    }

    /// The primary, as `name` or `namespace/name`. It need not be among the objects: then it is gone.
    pub fn key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }

    /// The pass's clock, RFC 3339; the start of 2026 unless said otherwise.
    pub fn at(mut self, now: &str) -> Self {
        self.now = now.to_owned();
        self
    }

    /// The operator's settings, as YAML.
    pub fn config(mut self, yaml: &str) -> Self {
        let value: Value = serde_saphyr::from_str(yaml).expect("the config of the check is YAML");
        self.config = value.to_string();
        self
    }

    /// Adds objects: YAML documents, each an object or a list of objects. A later one replaces an earlier of the same
    /// kind and name, so that a test can begin with common objects.
    pub fn given(mut self, yaml: &str) -> Self {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(yaml).expect("the objects of the check are YAML");
        for document in documents {
            match document {
                Value::Array(objects) => objects.into_iter().for_each(|object| self.put(object)),
                Value::Null => {}
                object => self.put(object),
            }
        }
        self
    }

    /// Adds one object that is no text yet.
    pub fn object(mut self, object: Value) -> Self {
        self.put(object);
        self
    }

    /// The API server does not serve this kind.
    pub fn unserved<K: Kind>(mut self) -> Self {
        self.unserved.push(K::gvk());
        self
    }

    /// A provider's answer, as YAML, to a question of this name whose arguments hold at least these. A later one counts
    /// before an earlier one; a question that nothing matches is one to a provider that the host lacks.
    pub fn answers(mut self, provider: &str, question: &str, arguments: &str, answer: &str) -> Self {
        self.providers.answer(provider, question, arguments, answer);
        self
    }

    /// What comes of a provider's operation of this name, as YAML. One that was not told of ends the check.
    pub fn performs(mut self, provider: &str, operation: &str, outcome: &str) -> Self {
        self.providers.perform(provider, operation, outcome);
        self
    }

    /// What comes of such an operation where [`Check::performs`] says nothing of it.
    pub fn performs_by_default(mut self, provider: &str, operation: &str, outcome: &str) -> Self {
        self.providers.perform_by_default(provider, operation, outcome);
        self
    }

    /// The previous pass failed so many times in a row, with this action if there was one.
    pub fn failed(mut self, kind: FailureKind, message: &str, action: Option<Action>, count: u32) -> Self {
        let failure = Failure { kind, message: message.to_owned(), retry_after: None };
        self.last_failure = Some(FailedPass { failure, action, count });
        self
    }

    /// Runs the pass to its end.
    pub fn run(self) -> Checked {
        let mut request = self.request();
        let mut performed = Vec::new();
        for round in 1..=ROUNDS_MAX {
            let reply = (self.call)(request.clone());
            assert_eq!(reply, (self.call)(request.clone()), "equal requests must get equal replies");
            let reply = match reply {
                Ok(reply) => reply,
                Err(failure) => {
                    return Checked { rounds: round, performed, end: Err(failure), log: Vec::new() };
                }
            };
            match reply.step {
                Step::Observe(queries) => {
                    assert!(!queries.is_empty(), "a pass that observes must ask something");
                    for query in queries {
                        let known = request.observations.iter().any(|seen| seen.query == query);
                        assert!(!known, "the pass asked again what it was told: {query:?}");
                        let answer = self.answer(&query);
                        request.observations.push(Observation { query, answer });
                    }
                }
                Step::Perform(actions) => {
                    performed.extend(actions.iter().cloned());
                    let done = actions.into_iter().map(|action| {
                        let outcome = self.providers.outcome(&action);
                        Performed { action, outcome }
                    });
                    request.performed.extend(done);
                }
                Step::Finish(end) => {
                    return Checked { rounds: round, performed, end: Ok(end), log: reply.log };
                }
            }
        }
        panic!("the pass did not end within {ROUNDS_MAX} rounds");
    }

    fn request(&self) -> Request {
        let controller = self.manifest.controllers.iter().find(|known| known.name == self.controller);
        let gvk = controller.expect("the manifest has the controller of the check").primary.clone();
        let (namespace, name) = match self.key.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
            None => (None, self.key.clone()),
        };
        let key = ObjectRef { gvk, namespace, name };
        Request {
            controller: self.controller.clone(),
            primary: self.find(&key).map(Value::to_string),
            key,
            last_seen: None,
            observations: Vec::new(),
            performed: Vec::new(),
            last_failure: self.last_failure.clone(),
            config: self.config.clone(),
        }
    }

    fn answer(&self, query: &Query) -> Answer {
        let unserved = |gvk: &Gvk| self.unserved.contains(gvk);
        match query {
            Query::Get(get) if unserved(&get.object.gvk) => Answer::Unserved,
            Query::List(list) if unserved(&list.gvk) => Answer::Unserved,
            Query::Get(get) => Answer::Object(self.find(&get.object).map(Value::to_string)),
            Query::List(list) => {
                let mut found: Vec<_> =
                    self.objects.iter().filter(|object| answer::matches(list, object)).collect();
                found.sort_by_key(|object| answer::sort_key(object));
                Answer::Objects(found.into_iter().map(Value::to_string).collect())
            }
            Query::Clock => Answer::Time(self.now.clone()),
            Query::External(query) => Answer::External(self.providers.answer_to(query)),
        }
    }

    fn find(&self, wanted: &ObjectRef) -> Option<&Value> {
        self.objects.iter().find(|object| answer::reference(object) == *wanted)
    }

    fn put(&mut self, object: Value) {
        let key = answer::reference(&object);
        self.objects.retain(|old| answer::reference(old) != key);
        self.objects.push(object);
    }
}

/// A pass that ran. It prints as a line an action, each followed by what is written.
pub struct Checked {
    /// Calls that the pass took.
    pub rounds: usize,
    /// What it had done in its middle.
    pub performed: Vec<Action>,
    /// Its conclusion, or how it failed.
    pub end: Result<Conclusion, Failure>,
    /// What it left for the log.
    pub log: Vec<LogLine>,
}

impl Checked {
    /// A line an action, without what is written.
    pub fn brief(&self) -> String {
        self.print(false)
    }

    fn print(&self, bodies: bool) -> String {
        let mut text = String::new();
        for action in &self.performed {
            text += &format!("first {}", print::action(action, bodies));
        }
        let end = match &self.end {
            Ok(end) => end,
            Err(failure) => return text + &print::failure(failure),
        };
        for action in &end.actions {
            text += &print::action(action, bodies);
        }
        for gvk in &end.prune {
            text += &format!("prune {}\n", gvk.kind);
        }
        if let Some(wait) = end.requeue_after {
            text += &format!("requeue after {}\n", print::wait(wait));
        }
        if text.is_empty() { "nothing to do\n".to_owned() } else { text }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(true))
    }
}
