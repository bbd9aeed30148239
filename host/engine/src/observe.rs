//! What is told of each look at a key that ended: for metrics, which count everything and keep nothing.

use std::time::Duration;

use evenkeel_core::guest::CallError;
use evenkeel_core::record::PassRecord;

use crate::worker::{Ended, Failed};

/// Told of every look at a key, when it has ended. It is called by the worker, so it must not wait.
pub trait Observer: Send + Sync {
    /// A look ended.
    fn looked(&self, look: &LookReport<'_>);
}

/// A look at a key that ended.
#[derive(Clone, Copy, Debug)]
pub struct LookReport<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// Its controller.
    pub controller: &'a str,
    /// How it ended.
    pub outcome: LookOutcome,
    /// Set where the plugin did not survive the call.
    pub fault: Option<&'a CallError>,
    /// The key is to be run again because it failed.
    pub retries: bool,
    /// From being put in line, or becoming due, to being taken.
    pub queued: Duration,
    /// From being taken to now.
    pub worked: Duration,
    /// The calls and deeds, where there is anything to tell of them.
    pub record: Option<&'a PassRecord>,
}

/// How a look ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookOutcome {
    /// A conclusion was carried out.
    Concluded {
        /// It asked for the key to be run again after a time.
        requeue: bool,
    },
    /// What was concluded before stands: nothing that it rests on has changed.
    Stands,
    /// What was rejected before would be again: nothing has changed.
    StillRejected,
    /// Nobody looks after the object.
    NotOurs,
    /// Somebody paused the object.
    Paused,
    /// A watch has yet to be in step.
    Waiting,
    /// It is held back, as it woke too often.
    Slowed,
    /// What it rested on changed under it.
    Stale,
    /// It failed.
    Failed {
        /// It is not tried again before something changes.
        terminal: bool,
        /// The grant was in the way.
        denied: bool,
    },
}

impl LookOutcome {
    /// `retries` tells whether a failed look is tried again.
    pub(crate) fn of(ended: &Ended, retries: bool) -> Self {
        match ended {
            Ended::NotOurs => Self::NotOurs,
            Ended::Paused => Self::Paused,
            Ended::Waiting(_) => Self::Waiting,
            Ended::Slowed => Self::Slowed,
            Ended::Stale { queries: _ } => Self::Stale,
            Ended::Stands => Self::Stands,
            Ended::StillRejected => Self::StillRejected,
            Ended::Concluded(concluded) => Self::Concluded { requeue: concluded.requeue_after.is_some() },
            Ended::Failed(failed) => Self::Failed { terminal: !retries, denied: failed.denied },
        }
    }
}

/// What of an end the report needs after the end itself was noted.
pub(crate) struct Gist {
    pub(crate) outcome: LookOutcome,
    pub(crate) fault: Option<CallError>,
    pub(crate) retries: bool,
}

impl Gist {
    /// Of how a look ended; `retries` says whether a failure is tried again.
    pub(crate) fn of(ended: &Ended, retries: impl FnOnce(&Failed) -> bool) -> Self {
        let (fault, retries) = match ended {
            Ended::Failed(failed) => (failed.fault.clone(), retries(failed)),
            Ended::NotOurs
            | Ended::Paused
            | Ended::Waiting(_)
            | Ended::Slowed
            | Ended::Stale { .. }
            | Ended::Stands
            | Ended::StillRejected
            | Ended::Concluded(_) => (None, false),
        };
        Self { outcome: LookOutcome::of(ended, retries), fault, retries }
    }
}
