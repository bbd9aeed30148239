//! Kinds that come and go while the host runs.
//!
//! That a kind goes ends its watches, and the collection is gone when they ask again. That one comes is told by
//! CustomResourceDefinitions: they are watched, metadata alone, from the first time that a kind was wanted which is not served. Where
//! that watch is not allowed, and for kinds of aggregated API servers, what is missing is looked for every
//! [`limits::UNSERVED_POLL`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_core::contract::Gvk;
use evenkeel_core::deps::Change;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::limits;
use crate::rest::lock;
use crate::scope::{Depth, Scope};
use crate::shared::Shared;

/// A definition is served a moment after it says so: looked for again after each of these.
const AGAIN: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

/// What CustomResourceDefinitions told and nobody looked at yet.
#[derive(Default)]
pub(crate) struct Arrivals {
    looking: AtomicBool,
    /// Groups of definitions that came, changed or went.
    groups: Mutex<Groups>,
    woken: Notify,
}

#[derive(Clone, Default)]
struct Groups {
    /// Something may be served now that was not.
    came: BTreeSet<String>,
    /// Something may be served no longer, or otherwise.
    changed: BTreeSet<String>,
}

impl Arrivals {
    /// Notes a change of a CustomResourceDefinition; any other is passed over.
    pub(crate) fn note(&self, change: &Change) {
        if !is_crd(&change.gvk) {
            return;
        }
        let Some((_, group)) = change.object.name.split_once('.') else { return };
        let mut groups = lock(&self.groups);
        match (&change.old, &change.new) {
            // What it defines is as it was, but it may be established by now.
            (Some(old), Some(new)) if old.head().generation == new.head().generation => {
                groups.came.insert(group.to_owned());
            }
            (None, Some(_)) => {
                groups.came.insert(group.to_owned());
            }
            (Some(_), Some(_) | None) | (None, None) => {
                groups.changed.insert(group.to_owned());
            }
        }
        drop(groups);
        self.woken.notify_one();
    }
}

/// Whether a CustomResourceDefinition may bring kinds of the group: none defines one that Kubernetes itself has.
pub(crate) fn may_be_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// Whether it is the kind of CustomResourceDefinitions.
pub(crate) fn is_crd(gvk: &Gvk) -> bool {
    &*gvk.kind == "CustomResourceDefinition" && &*gvk.group == "apiextensions.k8s.io"
}

fn crd() -> Gvk {
    Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

impl Shared {
    /// Begins to look for kinds, once.
    pub(crate) fn look_for_kinds(self: &Arc<Self>) {
        if self.arrivals.looking.swap(true, Ordering::Relaxed) {
            self.arrivals.woken.notify_one();
            return;
        }
        self.want(&crd(), Scope::All, Depth::Metadata, true);
        self.spawn(looking(Arc::clone(self)));
    }
}

async fn looking(shared: Arc<Shared>) {
    // Groups of which a definition came, and how often what is missing of them was looked for since. What is first asked for
    // after its definition came may be missing, too: that a definition is established is told before its kind is served.
    let mut expected: BTreeSet<String> = BTreeSet::new();
    let mut tries = 0;
    // When what is missing is looked for next.
    let mut due: Option<Instant> = None;
    loop {
        let in_expected = |gvk: &Gvk| expected.contains(&*gvk.group);
        let soon = AGAIN.get(tries).filter(|_| shared.discovery.misses_any(in_expected));
        let pause = soon.copied().or_else(|| {
            let misses_any = shared.discovery.misses_any(|_| true);
            misses_any.then_some(limits::UNSERVED_POLL)
        });
        // Whoever asks for a kind that is missing wakes us: that may not put off what is due, however often it happens.
        due = pause.map(|pause| {
            let latest = Instant::now() + pause;
            due.map_or(latest, |due| due.min(latest))
        });
        let groups = tokio::select! {
            biased; // The same order in each run.
            () = shared.arrivals.woken.notified() => Some(std::mem::take(&mut *lock(&shared.arrivals.groups))),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
        };
        let told = groups.is_some();
        let groups = groups.unwrap_or_default();
        if told && groups.came.is_empty() && groups.changed.is_empty() {
            continue; // One more kind is missing: the pause is chosen anew.
        }
        due = None;
        if told {
            tries = 0;
            expected.extend(groups.came.union(&groups.changed).cloned());
        } else if soon.is_some() {
            tries += 1;
            if tries == AGAIN.len() {
                expected.clear();
            }
        }
        let result = shared
            .recheck(|gvk, served| {
                groups.changed.contains(&*gvk.group)
                    || (!served.is_yes() && (!told || groups.came.contains(&*gvk.group)))
            })
            .await;
        if let Err(error) = result {
            tracing::warn!(error = %crate::failure::chain(&error), "cannot find out which kinds are served");
        }
    }
}
