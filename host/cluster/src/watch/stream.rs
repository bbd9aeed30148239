//! Everything at once as the beginning of a watch: the API server sends what there is object by object, and need not hold a
//! whole list in its memory.

use std::sync::Arc;

use evenkeel_core::object::CachedObject;

use super::follow::Connection;
use super::{State, Watch, WatchState};
use crate::cache::{Relist, revision};
use crate::rest::{Call, RestError, lock};
use crate::shared::{read, write};

/// What there is, as far as it is in.
///
/// It is kept apart until it is complete: only then it is known at which revision it was taken, and so whether it is of the
/// same history as the cache.
pub(super) struct Initial {
    relist: Relist,
    objects: Vec<Arc<CachedObject>>,
}

impl Initial {
    pub(super) fn take(&mut self, object: Option<Arc<CachedObject>>) {
        self.objects.extend(object);
    }

    /// A watch that begins with what there is now.
    pub(super) fn asked_for(call: Call) -> Call {
        call.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan")
    }

    /// Whether the API server refuses to begin so: it is of a version that does not know of it, or has it switched off.
    pub(super) fn is_refused(error: &RestError) -> bool {
        matches!(error, RestError::Status { code: 400 | 422, .. })
    }
}

impl Watch {
    /// Asks for what there is and for the changes after it, and follows these until the connection ends.
    pub(super) async fn stream(&mut self, path: String) -> State {
        self.enter(WatchState::Listing);
        let relist = read(&self.kind).relist(&self.scope, self.depth);
        let initial = Some(Initial { relist, objects: Vec::new() });
        self.followed(path, Connection { revision: String::new(), heard: false, initial }).await
    }

    /// Everything is in, as of this revision: tells what changed since, and that the watch is in step.
    pub(super) async fn all_in(&mut self, initial: Initial, at: &str) {
        let Initial { mut relist, objects } = initial;
        let at = revision(at);
        let changes = write(&self.kind).page(&mut relist, at, objects);
        self.shared.tell(changes).await;
        let changes = write(&self.kind).listed(relist, at);
        self.shared.tell(changes).await;
        self.failures = 0;
        lock(&self.report).lists += 1;
        self.shared.supersede(&self.gvk, &self.scope, self.depth);
        self.shared.synced(&self.gvk, &self.scope).await;
        self.enter(WatchState::Following);
    }
}
