//! Updates in place: a Node that is given new software without a new VM. How far one is stands in the Node's condition
//! `InPlaceUpdate`. Functions of values alone.
//!
//! Whoever rolls an update out sets the labels `candidate-for-update` and `selected-for-update`; what comes of it the agent on
//! the Node tells by the label `update-result`. In between the Node is emptied here, and the agent waits for
//! `ReadyForUpdate`. Labels, and whether Pods come back, are those others' business.

use crate::kinds::{Named, Node};
use crate::names;

/// The type of the Node's condition.
pub const CONDITION: &str = "InPlaceUpdate";

/// How far an update is; each is a reason of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The Node is to be updated some time.
    CandidateForUpdate,
    /// It is its turn: its Pods leave.
    SelectedForUpdate,
    /// They have left.
    DrainSuccessful,
    /// The agent on the Node may begin.
    ReadyForUpdate,
    /// It is done.
    UpdateSuccessful,
    /// It failed.
    UpdateFailed,
}

impl Stage {
    /// From the condition's reason.
    pub fn named(reason: &str) -> Option<Self> {
        [
            Self::CandidateForUpdate,
            Self::SelectedForUpdate,
            Self::DrainSuccessful,
            Self::ReadyForUpdate,
            Self::UpdateSuccessful,
            Self::UpdateFailed,
        ]
        .into_iter()
        .find(|stage| stage.reason() == reason)
    }

    /// The condition's reason.
    pub fn reason(self) -> String {
        format!("{self:?}")
    }

    /// The condition's message; `why` is what the agent says of a failure.
    pub fn message(self, why: &str) -> String {
        match self {
            Self::CandidateForUpdate => "The Node is to be updated in place".to_owned(),
            Self::SelectedForUpdate => "The Node is emptied for an update in place".to_owned(),
            Self::DrainSuccessful => "The Node was emptied for an update in place".to_owned(),
            Self::ReadyForUpdate => "The update in place may begin".to_owned(),
            Self::UpdateSuccessful => "The Node was updated in place".to_owned(),
            Self::UpdateFailed => format!("The update in place failed: {why}"),
        }
    }
}

/// What came of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked.
    Successful,
    /// It did not.
    Failed,
}

/// All that the stage depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The label that says that an update is wanted.
    pub candidate: bool,
    /// The label that says that it is its turn.
    pub selected: bool,
    /// The label that says what came of it.
    pub outcome: Option<Outcome>,
    /// The stage so far.
    pub stage: Option<Stage>,
}

impl Seen {
    /// On a Node.
    pub fn on(node: &Node) -> Self {
        let outcome = match node.label(names::UPDATE_RESULT) {
            Some("successful") => Some(Outcome::Successful),
            Some("failed") => Some(Outcome::Failed),
            Some(_) | None => None,
        };
        let reason = node.condition(CONDITION).and_then(|condition| condition.reason.as_deref());
        Self {
            candidate: node.label(names::UPDATE_CANDIDATE).is_some(),
            selected: node.label(names::UPDATE_SELECTED).is_some(),
            outcome,
            stage: reason.and_then(Stage::named),
        }
    }

    /// The stage that the labels make of it.
    pub fn by_labels(self) -> Option<Stage> {
        let Self { candidate, selected, outcome, stage } = self;
        if !candidate {
            return stage;
        }
        match (stage, outcome) {
            // A candidate again after an update that was done.
            (None, _) | (Some(Stage::UpdateSuccessful), None) => Some(Stage::CandidateForUpdate),
            (Some(Stage::CandidateForUpdate), _) if selected => Some(Stage::SelectedForUpdate),
            // Until it is empty nobody can have updated it.
            (Some(Stage::SelectedForUpdate), _) => stage,
            (Some(_), Some(Outcome::Successful)) => Some(Stage::UpdateSuccessful),
            (Some(_), Some(Outcome::Failed)) => Some(Stage::UpdateFailed),
            (Some(_), None) => stage,
        }
    }
}

/// Whether a machine in this phase may be emptied for an update: one that has not joined yet has nothing to be updated, and
/// one that has failed is replaced, or kept as it is.
pub fn is_possible_in(phase: &str) -> bool {
    matches!(
        phase,
        "Running" | "Unknown" | "InPlaceUpdating" | "InPlaceUpdateSuccessful" | "InPlaceUpdateFailed"
    )
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// `STAGE LABEL …`, where the stage may be `-` and labels are `candidate`, `selected`, `successful` and `failed`.
    fn check(text: &str, expected: Expect) {
        let has = |word: &str| text.split_whitespace().any(|other| other == word);
        let outcome = match (has("successful"), has("failed")) {
            (true, _) => Some(Outcome::Successful),
            (false, true) => Some(Outcome::Failed),
            (false, false) => None,
        };
        let stage = text.split_whitespace().next().and_then(Stage::named);
        let seen = Seen { candidate: has("candidate"), selected: has("selected"), outcome, stage };
        expected.assert_eq(&seen.by_labels().map_or("-".to_owned(), Stage::reason));
    }

    #[test]
    fn without_the_label_of_a_candidate_nothing_happens() {
        check("-", expect!["-"]);
        check("- selected successful", expect!["-"]);
        check("UpdateSuccessful", expect!["UpdateSuccessful"]);
    }

    #[test]
    fn a_candidate_is_selected_only_after_it_was_one() {
        check("- candidate", expect!["CandidateForUpdate"]);
        check("- candidate selected", expect!["CandidateForUpdate"]);
        check("CandidateForUpdate candidate", expect!["CandidateForUpdate"]);
        check("CandidateForUpdate candidate selected", expect!["SelectedForUpdate"]);
    }

    #[test]
    fn what_is_not_empty_yet_cannot_have_been_updated() {
        check("SelectedForUpdate candidate selected", expect!["SelectedForUpdate"]);
        check("SelectedForUpdate candidate selected successful", expect!["SelectedForUpdate"]);
        check("DrainSuccessful candidate selected", expect!["DrainSuccessful"]);
        check("ReadyForUpdate candidate selected", expect!["ReadyForUpdate"]);
    }

    #[test]
    fn the_agent_on_the_node_says_what_came_of_it() {
        check("ReadyForUpdate candidate selected successful", expect!["UpdateSuccessful"]);
        check("ReadyForUpdate candidate selected failed", expect!["UpdateFailed"]);
        check("UpdateFailed candidate selected successful", expect!["UpdateSuccessful"]);
        check("UpdateFailed candidate selected", expect!["UpdateFailed"]);
    }

    #[test]
    fn after_a_successful_update_a_node_may_be_a_candidate_again() {
        check("UpdateSuccessful candidate successful", expect!["UpdateSuccessful"]);
        check("UpdateSuccessful candidate", expect!["CandidateForUpdate"]);
    }
}
