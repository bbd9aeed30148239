//! Questions that somebody waits for, so that they are told when their answers change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::contract::{ExternalQuery, Json};

use crate::changes::Changes;

/// Asked questions, each with the answer that was given last.
#[derive(Default)]
pub(super) struct Asked {
    queries: Mutex<BTreeMap<String, BTreeMap<ExternalQuery, Json>>>,
    changes: Arc<Changes>,
}

impl Asked {
    /// Where changes are told.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Notes that a question was asked, and what was answered.
    pub(super) fn note(&self, query: &ExternalQuery, answer: &Json) {
        let mut queries = self.lock();
        let of = queries.entry(query.question.clone()).or_default();
        of.insert(query.clone(), Arc::clone(answer));
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&self, query: &ExternalQuery) {
        let mut queries = self.lock();
        if let Some(of) = queries.get_mut(&query.question) {
            of.remove(query);
            if of.is_empty() {
                queries.remove(&query.question);
            }
        }
    }

    /// Questions of a name that somebody waits for, with the last answers.
    pub(super) fn of(&self, question: &str) -> Vec<(ExternalQuery, Json)> {
        let queries = self.lock();
        let of = queries.get(question).into_iter().flatten();
        of.map(|(query, answer)| (query.clone(), Arc::clone(answer))).collect()
    }

    /// Tells all questions of these names.
    pub(super) fn tell(&self, questions: &[&str]) {
        let queries = self.lock();
        let told: BTreeSet<&ExternalQuery> =
            questions.iter().filter_map(|question| queries.get(*question)).flat_map(BTreeMap::keys).collect();
        told.into_iter().for_each(|query| self.changes.tell(query.clone()));
    }

    /// Tells one question.
    pub(super) fn tell_one(&self, query: ExternalQuery) {
        self.changes.tell(query);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<ExternalQuery, Json>>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
