//! The status of a user: one condition, `NamespaceReady`, and the same in a word.

use evenkeel_sdk::jiff::Timestamp;
use evenkeel_sdk::{Action, ConditionStatus, Conditions, Pass, act, clean_message};

use super::view::User;
use crate::api::KiteUser;
use crate::api::user::KiteUserStatus;

/// The only condition.
const CONDITION: &str = "NamespaceReady";

/// How far a user's namespace is: a reason and a message for all but success.
pub(super) enum Verdict<'n> {
    /// All is in place.
    Ready { namespace: &'n str, quota: bool },
    /// It will come without anybody's doing.
    Pending(&'static str, String),
    /// Somebody has to do something.
    Failed(&'static str, String),
    /// The user is going away.
    Deleting(String),
}

/// The whole status, as R1 owns it.
pub(super) fn action(pass: &Pass, user: &User, now: Timestamp, verdict: Verdict<'_>) -> Action {
    let mut observed_namespace = user.status.observed_namespace.clone();
    let (phase, status, reason, message) = match verdict {
        Verdict::Ready { namespace, quota } => {
            observed_namespace = Some(namespace.to_owned());
            let message = if quota {
                format!("the namespace {namespace}, its network policies and its quota are in place")
            } else {
                format!("the namespace {namespace} and its network policies are in place")
            };
            ("Ready", ConditionStatus::True, "Reconciled", message)
        }
        Verdict::Pending(reason, message) => ("Pending", ConditionStatus::False, reason, message),
        Verdict::Failed(reason, message) => ("Failed", ConditionStatus::False, reason, message),
        Verdict::Deleting(message) => ("Deleting", ConditionStatus::False, "Deleting", message),
    };
    let message = clean_message(&message);
    let mut conditions = Conditions::over(&user.status.conditions, now, user.metadata.generation);
    conditions.set(CONDITION, status, reason, &message);
    let status = KiteUserStatus {
        phase: Some(phase.to_owned()),
        observed_generation: user.metadata.generation,
        // Only a namespace that was accepted as ours: a name that could not be had leaves no trace.
        observed_namespace,
        message: Some(message),
        conditions: conditions.finish(),
    };
    act::apply_status::<KiteUser>(pass.key(), &status).into()
}
