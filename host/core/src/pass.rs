//! The course of one pass, call by call: what the plugin may ask and do next, and when it goes in circles.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::contract::{
    Action, Conclusion, Failure, FailureKind, Observation, Performed, Query, Reply, Request, Step,
};
use crate::limits::{Limits, PRUNE_KINDS_MAX};
use crate::query::{Prepared, QueryFault};

/// A pass under way.
#[derive(Clone, Debug)]
pub struct Pass {
    request: Request,
    known: BTreeSet<Query>,
    rounds: u32,
    queries: usize,
    actions: usize,
}

/// What the host has to do next.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Answer these, tell [`Pass::observed`], and call again.
    Observe(Vec<Arc<Prepared>>),
    /// Do these, tell [`Pass::performed`], and call again.
    Perform(Vec<Action>),
    /// Do what it says; the pass is over.
    Finish(Conclusion),
}

/// Why a pass cannot go on; the plugin is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// It calls for more and more.
    #[error("the pass did not end within {max} rounds")]
    TooManyRounds {
        /// The most that are allowed.
        max: u32,
    },
    /// It asks for what it was told, or for nothing.
    #[error("the plugin asked nothing that it was not told already, in round {round}")]
    AsksNothingNew {
        /// The round, from 1.
        round: u32,
    },
    /// It performs nothing.
    #[error("the plugin wanted an empty list of actions performed, in round {round}")]
    PerformsNothing {
        /// The round, from 1.
        round: u32,
    },
    /// Too many questions.
    #[error("the pass asked {asked} questions, at most {max} are allowed")]
    TooManyQueries {
        /// So many.
        asked: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Too many actions.
    #[error("the pass wanted {wanted} actions, at most {max} are allowed")]
    TooManyActions {
        /// So many.
        wanted: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Too many kinds to prune.
    #[error("the conclusion prunes {wanted} kinds, at most {PRUNE_KINDS_MAX} are allowed")]
    TooManyKinds {
        /// So many.
        wanted: usize,
    },
    /// A question that cannot be answered.
    #[error(transparent)]
    Query(#[from] QueryFault),
}

impl PassError {
    /// The failure of the pass. The same input gives the same answer again, so it waits for another.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Invalid, self.to_string())
    }
}

impl Pass {
    /// Begins with a request that may hold answers already.
    pub fn start(request: Request) -> Self {
        let known = request.observations.iter().map(|observation| observation.query.clone()).collect();
        Self { request, known, rounds: 0, queries: 0, actions: 0 }
    }

    /// What to call the plugin with.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Calls answered so far.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Takes a reply in and says what follows from it.
    pub fn step(&mut self, reply: Reply, limits: &Limits) -> Result<Effect, PassError> {
        self.rounds = self.rounds.saturating_add(1);
        let Reply { step, log: _ } = reply;
        let effect = match step {
            Step::Observe(queries) => Effect::Observe(self.observe(queries, limits)?),
            Step::Perform(actions) => {
                if actions.is_empty() {
                    return Err(PassError::PerformsNothing { round: self.rounds });
                }
                self.count_actions(actions.len(), limits)?;
                Effect::Perform(actions)
            }
            Step::Finish(conclusion) => {
                self.count_actions(conclusion.actions.len(), limits)?;
                if conclusion.prune.len() > PRUNE_KINDS_MAX {
                    return Err(PassError::TooManyKinds { wanted: conclusion.prune.len() });
                }
                return Ok(Effect::Finish(conclusion));
            }
        };
        // It wants to be called again.
        if self.rounds >= limits.rounds_max {
            return Err(PassError::TooManyRounds { max: limits.rounds_max });
        }
        Ok(effect)
    }

    /// Adds answers.
    pub fn observed(&mut self, observations: Vec<Observation>) {
        self.request.observations.extend(observations);
    }

    /// Adds outcomes.
    pub fn performed(&mut self, performed: Vec<Performed>) {
        self.request.performed.extend(performed);
    }

    /// The questions that are new, each once.
    fn observe(&mut self, queries: Vec<Query>, limits: &Limits) -> Result<Vec<Arc<Prepared>>, PassError> {
        let asked = self.queries.saturating_add(queries.len());
        if asked > limits.queries_max {
            return Err(PassError::TooManyQueries { asked, max: limits.queries_max });
        }
        self.queries = asked;
        let mut new = Vec::new();
        for query in queries {
            if self.known.insert(query.clone()) {
                new.push(Arc::new(Prepared::new(query)?));
            }
        }
        if new.is_empty() { Err(PassError::AsksNothingNew { round: self.rounds }) } else { Ok(new) }
    }

    fn count_actions(&mut self, more: usize, limits: &Limits) -> Result<(), PassError> {
        let wanted = self.actions.saturating_add(more);
        if wanted > limits.actions_max {
            return Err(PassError::TooManyActions { wanted, max: limits.actions_max });
        }
        self.actions = wanted;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::contract::{Answer, GetQuery, Gvk, ObjectRef};

    use super::*;

    fn request() -> Request {
        Request {
            controller: "demo".into(),
            key: ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), "b"),
            primary: None,
            last_seen: None,
            observations: vec![],
            performed: vec![],
            last_failure: None,
            config: "{}".into(),
        }
    }

    fn get(name: &str) -> Query {
        let object = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some("a"), name);
        Query::Get(GetQuery { object, view: vec![] })
    }

    fn reply(step: Step) -> Reply {
        Reply { step, log: vec![] }
    }

    fn check(pass: &mut Pass, step: Step, limits: &Limits) -> String {
        match pass.step(reply(step), limits) {
            Ok(Effect::Observe(queries)) => format!("observe {}", queries.len()),
            Ok(Effect::Perform(actions)) => format!("perform {}", actions.len()),
            Ok(Effect::Finish(conclusion)) => format!("finish with {} actions", conclusion.actions.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_question_that_is_answered_already_is_not_put_again() {
        let mut given = request();
        given.observations.push(Observation { query: get("known"), answer: Answer::Object(None) });
        let mut pass = Pass::start(given);
        let limits = Limits::default();
        assert_eq!(
            check(&mut pass, Step::Observe(vec![get("known"), get("new"), get("new")]), &limits),
            "observe 1"
        );
        assert_eq!(
            check(&mut pass, Step::Observe(vec![get("known")]), &limits),
            "the plugin asked nothing that it was not told already, in round 2"
        );
    }

    #[test]
    fn a_plugin_that_asks_for_ever_is_stopped() {
        let mut pass = Pass::start(request());
        let limits = Limits { rounds_max: 3, ..Limits::default() };
        for name in ["a", "b"] {
            assert_eq!(check(&mut pass, Step::Observe(vec![get(name)]), &limits), "observe 1");
        }
        assert_eq!(
            check(&mut pass, Step::Observe(vec![get("c")]), &limits),
            "the pass did not end within 3 rounds"
        );
    }

    #[test]
    fn the_last_round_may_still_conclude() {
        let mut pass = Pass::start(request());
        let limits = Limits { rounds_max: 1, ..Limits::default() };
        assert_eq!(check(&mut pass, Step::Finish(Conclusion::default()), &limits), "finish with 0 actions");
    }

    #[test]
    fn too_many_questions_and_actions_are_refused() {
        let limits = Limits { queries_max: 2, actions_max: 0, ..Limits::default() };
        let mut pass = Pass::start(request());
        assert_eq!(
            check(&mut pass, Step::Observe(vec![get("a"), get("b"), get("c")]), &limits),
            "the pass asked 3 questions, at most 2 are allowed"
        );
        assert_eq!(
            check(&mut pass, Step::Perform(vec![]), &limits),
            "the plugin wanted an empty list of actions performed, in round 2"
        );
    }

    #[test]
    fn a_name_that_no_object_can_have_is_refused_before_it_is_looked_up() {
        let mut pass = Pass::start(request());
        let shown = check(&mut pass, Step::Observe(vec![get("a/b")]), &Limits::default());
        assert!(shown.contains("a/b"), "{shown}");
    }
}
