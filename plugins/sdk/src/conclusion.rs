//! How a pass ends: what to do, in order, and when to look again.

use std::time::Duration;

use crate::{Action, Kind, bindings};

/// What shall be done, in order; the first action that fails ends the pass.
#[must_use = "a conclusion is what a pass returns"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conclusion {
    actions: Vec<Action>,
    prune: Vec<crate::Gvk>,
    requeue_after: Option<Duration>,
}

impl Conclusion {
    /// Nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more action.
    pub fn with(mut self, action: impl Into<Action>) -> Self {
        self.push(action);
        self
    }

    /// Adds an action.
    pub fn push(&mut self, action: impl Into<Action>) {
        self.actions.push(action.into());
    }

    /// Adds several actions.
    pub fn extend(&mut self, actions: impl IntoIterator<Item = Action>) {
        self.actions.extend(actions);
    }

    /// Objects of kind `K` that the primary controls are deleted unless this conclusion applies them.
    pub fn prune<K: Kind>(mut self) -> Self {
        self.prune.push(K::gvk());
        self
    }

    /// Runs the pass again after this long at the latest; the earliest of several counts.
    pub fn requeue_after(mut self, wait: Duration) -> Self {
        self.requeue_after = Some(self.requeue_after.map_or(wait, |earlier| earlier.min(wait)));
        self
    }

    /// The actions so far.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    pub(crate) fn into_wit(self) -> bindings::evenkeel::reconciler::types::Conclusion {
        let Self { actions, prune, requeue_after } = self;
        // Past half a billion years it is "never": the host clamps it anyway.
        let requeue_after = requeue_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        bindings::evenkeel::reconciler::types::Conclusion { actions, prune, requeue_after }
    }
}
