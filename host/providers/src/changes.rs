//! Questions whose answers may have changed, from a provider to the host: each is told once, however often it changed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use evenkeel_core::contract::ExternalQuery;
use tokio::sync::Notify;

/// Says whether a question is its own; the host is not told of one that is.
pub type Listener = Box<dyn Fn(&ExternalQuery) -> bool + Send + Sync>;

/// Bounded by the questions that are waited for: the same one twice is one.
#[derive(Default)]
pub struct Changes {
    told: Mutex<BTreeSet<ExternalQuery>>,
    some: Notify,
    listeners: RwLock<Vec<Listener>>,
}

impl Changes {
    /// From now on this listener hears of changes before the host does: another provider puts questions of its own. It is
    /// called in the midst of the provider's work, and may not call the provider.
    pub fn listen(&self, listener: Listener) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Tells that a question may be answered otherwise now.
    pub fn tell(&self, query: ExternalQuery) {
        if self
            .listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|listener| listener(&query))
        {
            return;
        }
        self.lock().insert(query);
        self.some.notify_one();
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns once there is something to take.
    pub async fn some(&self) {
        while self.is_empty() {
            // A permit stays behind when nobody waits: what is told between the look and the wait is not missed.
            self.some.notified().await;
        }
    }

    /// Hands all of it out. Until that is over there still is something.
    pub fn hand_out(&self, take: impl FnOnce(&BTreeSet<ExternalQuery>)) {
        let mut told = self.lock();
        take(&told);
        told.clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ExternalQuery>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_told_twice_before_it_is_taken_is_taken_once() {
        let (changes, query) = (Changes::default(), |question: &str| ExternalQuery {
            provider: "p".into(),
            question: question.into(),
            arguments: "{}".into(),
        });
        changes.tell(query("b"));
        changes.tell(query("a"));
        changes.tell(query("b"));
        changes.some().await;
        changes.hand_out(|told| assert_eq!(*told, BTreeSet::from([query("a"), query("b")])));
        assert!(changes.is_empty());
    }

    #[test]
    fn a_question_of_another_provider_is_told_to_that_one_alone() {
        let query = |provider: &str| ExternalQuery {
            provider: provider.into(),
            question: "task".into(),
            arguments: "{}".into(),
        };
        let changes = Changes::default();
        changes.listen(Box::new(|query| query.provider == "machine"));
        changes.tell(query("machine"));
        assert!(changes.is_empty());
        changes.tell(query("vsphere"));
        changes.hand_out(|told| assert_eq!(*told, BTreeSet::from([query("vsphere")])));
    }
}
