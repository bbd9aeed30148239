//! Questions whose answers may have changed, from a provider to the host: each is told once, however often it changed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::contract::ExternalQuery;
use tokio::sync::Notify;

/// Bounded by the questions that are waited for: the same one twice is one.
#[derive(Debug, Default)]
pub struct Changes {
    told: Mutex<BTreeSet<ExternalQuery>>,
    some: Notify,
}

impl Changes {
    /// Tells that a question may be answered otherwise now.
    pub fn tell(&self, query: ExternalQuery) {
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
}
