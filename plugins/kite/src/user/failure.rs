//! What the previous pass failed of, and whether the user should hear of it.

use evenkeel_sdk::{Action, FailureKind, Pass, action_text};

/// Failures in a row after which the user is told: before, it is a hiccup.
const HICCUPS: u32 = 2;

/// The last pass's failure.
pub(super) enum Last {
    /// None, or none that concerns the user yet.
    Nothing,
    /// It will be tried again, and has failed too often to keep silent about it.
    Again(String),
    /// The API server will not have it.
    Rejected(String),
    /// The namespace's labels belong to somebody else.
    LabelConflict(String),
}

/// Reads the last pass's failure.
pub(super) fn of_last_pass(pass: &Pass) -> Last {
    let Some(failed) = pass.last_failure() else { return Last::Nothing };
    // A failure without an action is the plugin's own: this pass says it again if it still holds.
    let Some(action) = &failed.action else { return Last::Nothing };
    // The host's words name the action, the object and what the API server said.
    let message = failed.failure.message.clone();
    match failed.failure.kind {
        FailureKind::Invalid | FailureKind::Denied => Last::Rejected(message),
        FailureKind::Conflict if is_apply_of_namespace(action) => Last::LabelConflict(message),
        FailureKind::Transient | FailureKind::NotFound | FailureKind::Conflict if failed.count > HICCUPS => {
            Last::Again(message)
        }
        FailureKind::Transient | FailureKind::NotFound | FailureKind::Conflict => Last::Nothing,
    }
}

impl Last {
    /// Whether the namespace's labels were refused.
    pub fn is_label_conflict(&self) -> bool {
        matches!(self, Self::LabelConflict(_))
    }

    /// The failure in words; "" for none.
    pub fn message(&self) -> String {
        match self {
            Self::Again(message) | Self::Rejected(message) | Self::LabelConflict(message) => message.clone(),
            Self::Nothing => String::new(),
        }
    }
}

fn is_apply_of_namespace(action: &Action) -> bool {
    matches!(action, Action::Apply(_)) && action_text(action).starts_with("apply Namespace/")
}
