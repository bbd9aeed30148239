//! One look at a key: from its primary and the answers known in advance to a conclusion that was carried out, or to
//! the reason why there is none.

mod act;
mod drift;
mod evidence;
mod look;
mod prune;
mod world;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use evenkeel_cluster::Need;
use evenkeel_core::contract::{Action, Failure, FailureKind, Gvk, ObjectRef};
use evenkeel_core::guest::CallError;
use evenkeel_core::query::Prepared;
use evenkeel_core::record::PassRecord;
use futures::FutureExt;

use self::look::Look;
use crate::keys::{Basis, Kept};
use crate::settle;
use crate::shared::Shared;
use crate::state::Taken;

/// How a look at a key ended.
pub(crate) enum Ended {
    /// Nobody looks after that object: it is gone and was never seen, or is not selected.
    NotOurs,
    /// Somebody paused it.
    Paused,
    /// A watch has yet to be in step.
    Waiting(Waiting),
    /// It woke too often.
    Slowed,
    /// What it rested on has changed: it runs again at once.
    Stale {
        /// The queries that it put.
        queries: Vec<Arc<Prepared>>,
    },
    /// Nothing that it rests on has changed, so the remembered conclusion stands.
    Stands,
    /// Nothing has changed since it was rejected, so it would be again.
    StillRejected,
    /// It concluded, and the conclusion was carried out.
    Concluded(Box<Concluded>),
    /// It failed.
    Failed(Box<Failed>),
}

/// What a pass waits for.
pub(crate) struct Waiting {
    /// The watch.
    pub(crate) need: Box<Need>,
    /// The queries that the pass put, the one that cannot be answered yet included; none where it was not begun.
    pub(crate) queries: Option<Vec<Arc<Prepared>>>,
}

/// A pass that came to its end.
pub(crate) struct Concluded {
    /// Of all that it rested on.
    pub(crate) basis: Basis,
    /// The queries that it was answered.
    pub(crate) queries: Vec<Arc<Prepared>>,
    /// Whether some of them may not have been asked this time.
    pub(crate) padded: bool,
    /// Questions that nobody put, but whose answers wake it: what it applied, what it prunes.
    pub(crate) extras: Vec<Arc<Prepared>>,
    /// What it leaves to be looked after.
    pub(crate) kept: Vec<Kept>,
    /// The kinds that it prunes.
    pub(crate) prune: Vec<Gvk>,
    /// What it made, where it prunes.
    pub(crate) made: BTreeSet<ObjectRef>,
    /// How long after it the key runs again, in milliseconds, as the plugin said.
    pub(crate) requeue_after: Option<u64>,
    /// Whether it asked for the time.
    pub(crate) timely: bool,
    /// Whether it was told of a failure.
    pub(crate) told: bool,
    /// Whether what had failed before was done this time.
    pub(crate) cured: bool,
}

/// A pass that failed.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// The action that failed; none where the plugin itself did.
    pub(crate) action: Option<Action>,
    /// The queries that it put.
    pub(crate) queries: Vec<Arc<Prepared>>,
    /// Of all that it rested on; none where it did not get that far.
    pub(crate) basis: Option<Basis>,
    /// Set where the plugin did not survive the call.
    pub(crate) fault: Option<CallError>,
    /// Set where the grant was in the way.
    pub(crate) denied: bool,
}

/// Looks at a key, and has what came of it noted. Tells whether the worker is noted as at rest, too.
pub(crate) async fn run(shared: &Arc<Shared>, taken: Taken) -> bool {
    let mut look = Look::new(shared, &taken);
    let ended = match AssertUnwindSafe(look.run()).catch_unwind().await {
        Ok(ended) => ended,
        Err(panic) => panicked(&*panic, &taken),
    };
    let close = look.close(&ended);
    settle::settle(shared, &taken, ended, close)
}

/// A panic is a bug of ours; it costs this pass only.
fn panicked(panic: &(dyn std::any::Any + Send), taken: &Taken) -> Ended {
    let said =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("the host failed in this pass: {}", said.unwrap_or("it panicked"));
    tracing::error!(object = %taken.object, message, "pass panicked");
    Ended::Failed(Box::new(Failed {
        failure: Failure::new(FailureKind::Transient, message),
        action: None,
        queries: taken.learned.to_vec(),
        basis: None,
        fault: None,
        denied: false,
    }))
}

/// What is left of a look besides how it ended.
pub(crate) struct Close {
    /// For the journal, where there is something to tell.
    pub(crate) record: Option<PassRecord>,
    pub(crate) counted: Counted,
    /// Whether there was no primary.
    pub(crate) primary_gone: bool,
}

/// What a look did, for the counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) sent: u64,
    pub(crate) skipped: u64,
}
