//! Who asked providers what, so that a change out there wakes those who rest on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Query};
use evenkeel_core::query::Prepared;
use evenkeel_core::queue::Priority;
use evenkeel_core::record::Trigger;

use crate::keys::Key;
use crate::shared::Shared;

/// Questions to providers, by the keys whose last pass put them.
#[derive(Default)]
pub(crate) struct ExternalIndex {
    by_query: BTreeMap<ExternalQuery, BTreeSet<Key>>,
    by_key: BTreeMap<Key, BTreeSet<ExternalQuery>>,
    /// Questions that nobody asks any more, for their providers to forget.
    unasked: BTreeSet<ExternalQuery>,
}

impl ExternalIndex {
    /// Notes what the last pass of a key asked; forgets what earlier ones did.
    pub(crate) fn record(&mut self, key: Key, queries: &[Arc<Prepared>]) {
        let asked = queries.iter().filter_map(|query| match query.query() {
            Query::External(external) => Some(external.clone()),
            Query::Get(_) | Query::List(_) | Query::Clock => None,
        });
        let now: BTreeSet<ExternalQuery> = asked.collect();
        let before = self.by_key.remove(&key).unwrap_or_default();
        for query in before.difference(&now) {
            self.leave(query, key);
        }
        for query in now.difference(&before) {
            self.unasked.remove(query);
            self.by_query.entry(query.clone()).or_default().insert(key);
        }
        if !now.is_empty() {
            self.by_key.insert(key, now);
        }
    }

    /// Forgets a key.
    pub(crate) fn forget(&mut self, key: Key) {
        for query in self.by_key.remove(&key).unwrap_or_default() {
            self.leave(&query, key);
        }
    }

    fn leave(&mut self, query: &ExternalQuery, key: Key) {
        let Some(keys) = self.by_query.get_mut(query) else { return };
        keys.remove(&key);
        if keys.is_empty() {
            self.by_query.remove(query);
            self.unasked.insert(query.clone());
        }
    }

    fn asking(&self, query: &ExternalQuery) -> Vec<Key> {
        self.by_query.get(query).map(|keys| keys.iter().copied().collect()).unwrap_or_default()
    }
}

impl Shared {
    /// Has providers let go of what nobody asks any more.
    pub(crate) fn forget_unasked(&self) {
        let unasked = std::mem::take(&mut self.state().externals.unasked);
        unasked.iter().for_each(|query| self.providers.forget(query));
    }

    /// Takes in what providers tell, for ever.
    pub(crate) async fn take_told(self: Arc<Self>) {
        loop {
            self.providers.told(|queries| self.wake_asking(queries)).await;
            self.forget_unasked();
        }
    }

    fn wake_asking(&self, queries: &BTreeSet<ExternalQuery>) {
        let mut state = self.state();
        for query in queries {
            let trigger =
                Trigger::Told { provider: query.provider.clone(), question: query.question.clone() };
            for key in state.externals.asking(query) {
                state.enqueue(key, trigger.clone(), Priority::Change);
            }
        }
        drop(state);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(question: &str) -> ExternalQuery {
        ExternalQuery { provider: "p".into(), question: question.into(), arguments: "{}".into() }
    }

    fn prepared(question: &str) -> Arc<Prepared> {
        Arc::new(Prepared::new(Query::External(query(question))).expect("a good query"))
    }

    #[test]
    fn a_question_that_the_last_one_who_asked_asks_no_more_is_to_be_forgotten() {
        let mut index = ExternalIndex::default();
        let (a, b) = (Key::for_test(1), Key::for_test(2));
        index.record(a, &[prepared("vm"), prepared("task")]);
        index.record(b, &[prepared("vm")]);
        assert_eq!(index.asking(&query("vm")), [a, b]);
        index.record(a, &[prepared("vm")]);
        index.forget(a);
        assert_eq!(index.asking(&query("vm")), [b]);
        assert_eq!(index.unasked, BTreeSet::from([query("task")]));
        index.record(b, &[prepared("task")]);
        assert_eq!(index.unasked, BTreeSet::from([query("vm")]));
    }
}
