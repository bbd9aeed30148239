//! Which machine waits for which task, so that the end of one is told as news of the other.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_core::contract::ExternalQuery;

use super::super::driver::Teller;

/// The tasks that machines wait for. There are as many as there are machines that are made or deleted.
#[derive(Default)]
pub(super) struct Tasks {
    inner: Mutex<Inner>,
    teller: OnceLock<Teller>,
}

#[derive(Default)]
struct Inner {
    /// The task of a machine, and the question about it, by the machine's UID.
    of: BTreeMap<String, (String, ExternalQuery)>,
    /// Whose question it is.
    whose: BTreeMap<ExternalQuery, String>,
}

impl Tasks {
    /// Whom to tell; the first one counts.
    pub(super) fn tell_to(&self, teller: Teller) {
        let _ = self.teller.set(teller);
    }

    /// A machine waits for a task. Gives the question about an earlier one, which nobody asks any more.
    pub(super) fn wait_for(&self, uid: &str, task: &str, query: &ExternalQuery) -> Option<ExternalQuery> {
        let mut inner = self.lock();
        let earlier = inner.of.insert(uid.to_owned(), (task.to_owned(), query.clone()));
        let earlier = earlier.map(|(_, earlier)| earlier).filter(|earlier| earlier != query);
        if let Some(earlier) = &earlier {
            inner.whose.remove(earlier);
        }
        inner.whose.insert(query.clone(), uid.to_owned());
        earlier
    }

    /// The task that a machine waits for, or waited for last.
    pub(super) fn of(&self, uid: &str) -> Option<String> {
        self.lock().of.get(uid).map(|(task, _)| task.clone())
    }

    /// A machine waits for nothing any more. Gives the question that nobody asks then.
    pub(super) fn forget(&self, uid: &str) -> Option<ExternalQuery> {
        let mut inner = self.lock();
        let (_, query) = inner.of.remove(uid)?;
        inner.whose.remove(&query);
        Some(query)
    }

    /// The answer to a question has changed. Tells whether it was one of these.
    pub(super) fn is_told(&self, query: &ExternalQuery) -> bool {
        let whose = self.lock().whose.get(query).cloned();
        if let (Some(uid), Some(teller)) = (&whose, self.teller.get()) {
            teller(uid);
        }
        whose.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
