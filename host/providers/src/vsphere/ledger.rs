//! What was started under which key, so that nothing is started twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::provider::Caller;

use super::data::MoRef;
use super::limits::OPERATIONS_REMEMBERED_MAX;

/// What is known of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nothing: it was never asked for, or vCenter refused it.
    #[default]
    Unstarted,
    /// A task was started.
    Started(MoRef),
    /// There was nothing to start.
    Done(Option<String>),
    /// A call was made, and no answer came.
    InDoubt,
}

type Key = (Caller, String);

/// The operations of a vCenter, by caller and key. It is bounded: the oldest go first.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Key, Arc<tokio::sync::Mutex<Entry>>>,
    order: VecDeque<Key>,
    /// Tasks that belong to an operation of ours.
    tasks: BTreeSet<MoRef>,
}

impl Ledger {
    /// The operation under a key; whoever holds its lock is alone with it.
    pub(crate) fn entry(&self, caller: &Caller, key: &str) -> Arc<tokio::sync::Mutex<Entry>> {
        let mut inner = self.lock();
        let key = (caller.clone(), key.to_owned());
        if let Some(entry) = inner.entries.get(&key) {
            return Arc::clone(entry);
        }
        let entry = Arc::<tokio::sync::Mutex<Entry>>::default();
        inner.entries.insert(key.clone(), Arc::clone(&entry));
        inner.order.push_back(key);
        while inner.order.len() > OPERATIONS_REMEMBERED_MAX {
            let oldest = inner.order.pop_front();
            let gone = oldest.and_then(|oldest| inner.entries.remove(&oldest));
            if let Some(Entry::Started(task)) =
                gone.and_then(|gone| gone.try_lock().ok().map(|one| one.clone()))
            {
                inner.tasks.remove(&task);
            }
        }
        entry
    }

    /// Whether this caller had something done since the host started.
    pub(crate) fn knows(&self, caller: &Caller, but: &str) -> bool {
        let first = (caller.clone(), String::new());
        let mut of_caller = self.lock_range(&first);
        of_caller.retain(|key| key != but);
        !of_caller.is_empty()
    }

    fn lock_range(&self, first: &Key) -> Vec<String> {
        let inner = self.lock();
        let from_there = inner.entries.range(first.clone()..);
        from_there
            .take_while(|((caller, _), _)| *caller == first.0)
            .map(|((_, key), _)| key.clone())
            .collect()
    }

    /// Notes that a task belongs to an operation.
    pub(crate) fn own(&self, task: &MoRef) {
        self.lock().tasks.insert(task.clone());
    }

    /// Whether a task belongs to an operation.
    pub(crate) fn owns(&self, task: &MoRef) -> bool {
        self.lock().tasks.contains(task)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
