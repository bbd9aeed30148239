//! VMs that no machine owns, as far as plugins see: when each was first told of, so that none is deleted at first sight.
//!
//! It is kept in memory: a host that was restarted begins to wait anew, which is what it should do after an outage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between the first sight of an orphan and its end.
const WAIT_MIN: Duration = Duration::from_secs(60);

/// Suspects by their provider IDs.
type Suspects = BTreeMap<String, Suspect>;

/// The suspects by the UIDs of their classes.
pub(super) struct Orphans {
    classes: Mutex<BTreeMap<String, Suspects>>,
    /// However short a plugin wants it to be.
    pub(super) wait_min: Duration,
}

impl Default for Orphans {
    fn default() -> Self {
        Self { classes: Mutex::default(), wait_min: WAIT_MIN }
    }
}

/// A VM that seems to be nobody's.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    since: Instant,
    /// What the driver wants to be told again.
    pub(super) last_known_state: Option<String>,
}

impl Orphans {
    /// These are the orphans of a class now. Whatever else was suspected has been found to belong to somebody, and is no
    /// suspect any more. Gives for each how long it is to be waited for still; nothing where it may go.
    pub(super) fn seen(
        &self,
        class: &str,
        ids: &BTreeSet<&String>,
        wait: Duration,
    ) -> BTreeMap<String, (Duration, Suspect)> {
        let mut all = self.lock();
        let suspects = all.entry(class.to_owned()).or_default();
        suspects.retain(|id, _| ids.contains(id));
        let now = Instant::now();
        let mut seen = BTreeMap::new();
        for id in ids {
            let new = || Suspect { since: now, last_known_state: None };
            let suspect = suspects.entry((*id).clone()).or_insert_with(new);
            let waited = now.duration_since(suspect.since);
            seen.insert((*id).clone(), (wait.max(self.wait_min).saturating_sub(waited), suspect.clone()));
        }
        if suspects.is_empty() {
            all.remove(class);
        }
        seen
    }

    /// What the driver wants to be told again of a suspect.
    pub(super) fn note(&self, class: &str, id: &str, state: Option<String>) {
        if let Some(suspect) = self.lock().get_mut(class).and_then(|suspects| suspects.get_mut(id)) {
            suspect.last_known_state = state;
        }
    }

    /// One is gone.
    pub(super) fn gone(&self, class: &str, id: &str) {
        let mut all = self.lock();
        if let Some(suspects) = all.get_mut(class) {
            suspects.remove(id);
            if suspects.is_empty() {
                all.remove(class);
            }
        }
    }

    /// The suspects of a class.
    pub(super) fn of(&self, class: &str) -> Vec<String> {
        self.lock().get(class).map(|suspects| suspects.keys().cloned().collect()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Suspects>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(900);

    fn left(orphans: &Orphans, ids: &[&str]) -> Vec<(String, u64)> {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let seen = orphans.seen("c", &ids.iter().collect(), WAIT);
        seen.into_iter().map(|(id, (left, _))| (id, left.as_secs())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_orphan_is_waited_for_and_one_that_was_claimed_meanwhile_begins_anew() {
        let orphans = Orphans::default();
        assert_eq!(left(&orphans, &["a", "b"]), [("a".into(), 900), ("b".into(), 900)]);
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(left(&orphans, &["a"]), [("a".into(), 600)]);
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(left(&orphans, &["a", "b"]), [("a".into(), 0), ("b".into(), 900)]);
        orphans.gone("c", "a");
        assert_eq!(orphans.of("c"), ["b"]);
        assert!(left(&orphans, &[]).is_empty() && orphans.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_can_have_an_orphan_deleted_at_first_sight() {
        let (orphans, id) = (Orphans::default(), "a".to_owned());
        let seen = orphans.seen("c", &BTreeSet::from([&id]), Duration::ZERO);
        assert_eq!(seen["a"].0, WAIT_MIN);
    }
}
