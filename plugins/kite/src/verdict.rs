//! R3's opinion of a machine: whether its parts are as they should be, and if not, why.
//!
//! R3 writes it as the condition `ResourcesApplied`; R4 and R6 read it there instead of repeating R3's checks.

use evenkeel_sdk::{Action, Condition, ConditionStatus, FailedPass, FailureKind, action_text, clean_message};

use crate::names;

/// The condition that carries it.
pub const CONDITION: &str = "ResourcesApplied";

/// Failures in a row after which waiting for better times is no answer any more.
const FAILURES_MAX: u32 = 3;

/// How the message of a failure begins that is still being retried. It is all that R4 and R6 see of it.
const RETRIED: &str = "will be retried: ";

/// R3's opinion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All parts are applied; with a note for the user, or "".
    Applied(String),
    /// Not yet: it needs time or somebody else.
    Pending(Reason, String),
    /// Not unless something changes.
    Refused(Reason, String),
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The name or the specification cannot be used.
    InvalidSpec,
    /// The image is not among the allowed ones.
    ImageNotAllowed,
    /// The namespace belongs to the platform.
    NamespaceNotAllowed,
    /// KubeVirt or CDI is not installed.
    DependencyMissing,
    /// An object of somebody else has the name of a part.
    ResourceConflict,
    /// There is no way to log in.
    MissingCredentials,
    /// The Secret with the login cannot be used.
    InvalidCredentials,
    /// The disk was there and is gone.
    DiskLost,
    /// The API server did not take a part.
    ApplyFailed,
    /// The golden image is not there.
    GoldenImageMissing,
    /// Parts of an earlier machine of the name are still going.
    PreviousInstanceTerminating,
}

impl Reason {
    const ALL: [Self; 11] = [
        Self::InvalidSpec,
        Self::ImageNotAllowed,
        Self::NamespaceNotAllowed,
        Self::DependencyMissing,
        Self::ResourceConflict,
        Self::MissingCredentials,
        Self::InvalidCredentials,
        Self::DiskLost,
        Self::ApplyFailed,
        Self::GoldenImageMissing,
        Self::PreviousInstanceTerminating,
    ];

    /// As a condition says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::ImageNotAllowed => "ImageNotAllowed",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::DependencyMissing => "DependencyMissing",
            Self::ResourceConflict => "ResourceConflict",
            Self::MissingCredentials => "MissingCredentials",
            Self::InvalidCredentials => "InvalidCredentials",
            Self::DiskLost => "DiskLost",
            Self::ApplyFailed => "ApplyFailed",
            Self::GoldenImageMissing => "GoldenImageMissing",
            Self::PreviousInstanceTerminating => "PreviousInstanceTerminating",
        }
    }
}

impl Verdict {
    /// A verdict that only a change lifts.
    pub fn refused(reason: Reason, message: &str) -> Self {
        Self::Refused(reason, clean_message(message))
    }

    /// A verdict that time lifts.
    pub fn pending(reason: Reason, message: &str) -> Self {
        Self::Pending(reason, clean_message(message))
    }

    /// What a failed pass says, if it failed over a part and not over the machine's own object.
    pub fn of_failure(failed: &FailedPass) -> Option<Self> {
        let action = failed.action.as_ref().filter(|action| is_about_a_part(action))?;
        let said = &failed.failure.message;
        // What a server says of a Secret may quote it.
        let said = if touches_secret(action) { said.split(':').next().unwrap_or_default() } else { said };
        let message = format!("{}: {said}", action_text(action));
        let is_retried = match failed.failure.kind {
            FailureKind::Transient | FailureKind::Conflict | FailureKind::NotFound => {
                failed.count < FAILURES_MAX
            }
            FailureKind::Invalid | FailureKind::Denied => false,
        };
        Some(if is_retried {
            Self::pending(Reason::ApplyFailed, &format!("{RETRIED}{message}"))
        } else {
            Self::refused(Reason::ApplyFailed, &message)
        })
    }

    /// Whether a failed pass was rejected over a part: the same action would be rejected again.
    pub fn is_rejection(failed: &FailedPass) -> bool {
        let is_rejected = match failed.failure.kind {
            FailureKind::Invalid | FailureKind::Denied => true,
            FailureKind::Transient | FailureKind::Conflict | FailureKind::NotFound => false,
        };
        is_rejected && Self::of_failure(failed).is_some()
    }

    /// What R3 last wrote, unless it was about an older generation.
    pub fn of_conditions(conditions: &[Condition], generation: Option<i64>) -> Option<Self> {
        let condition = conditions.iter().find(|condition| condition.type_ == CONDITION)?;
        if condition.observed_generation < generation {
            return None;
        }
        let message = condition.message.clone();
        if condition.status == ConditionStatus::True {
            return Some(Self::Applied(message));
        }
        let reason = Reason::ALL.into_iter().find(|reason| reason.as_str() == condition.reason)?;
        Some(match reason {
            Reason::GoldenImageMissing | Reason::PreviousInstanceTerminating => {
                Self::Pending(reason, message)
            }
            Reason::ApplyFailed if message.starts_with(RETRIED) => Self::Pending(reason, message),
            Reason::InvalidSpec
            | Reason::ImageNotAllowed
            | Reason::NamespaceNotAllowed
            | Reason::DependencyMissing
            | Reason::ResourceConflict
            | Reason::MissingCredentials
            | Reason::InvalidCredentials
            | Reason::DiskLost
            | Reason::ApplyFailed => Self::Refused(reason, message),
        })
    }

    /// The condition's status.
    pub fn status(&self) -> ConditionStatus {
        match self {
            Self::Applied(_) => ConditionStatus::True,
            Self::Pending(..) | Self::Refused(..) => ConditionStatus::False,
        }
    }

    /// The condition's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Applied(_) => "Applied",
            Self::Pending(reason, _) | Self::Refused(reason, _) => reason.as_str(),
        }
    }

    /// The condition's message.
    pub fn message(&self) -> &str {
        match self {
            Self::Applied(message) | Self::Pending(_, message) | Self::Refused(_, message) => message,
        }
    }
}

/// Whether an action was about one of the machine's parts. A conflict over the machine's own object is no news for its
/// user: the pass runs again at once.
fn is_about_a_part(action: &Action) -> bool {
    match action {
        Action::Create(_) | Action::Apply(_) => true,
        Action::Patch(patch) => patch.object.gvk.group != names::GROUP,
        Action::Delete(deletion) => deletion.object.gvk.group != names::GROUP,
        Action::ApplyStatus(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Publish(_)
        | Action::Enqueue(_)
        | Action::External(_) => false,
    }
}

fn touches_secret(action: &Action) -> bool {
    action_text(action).split_once(' ').is_some_and(|(_, object)| object.starts_with("Secret/"))
}

#[cfg(test)]
mod tests {
    use evenkeel_sdk::{Failure, act};
    use expect_test::{Expect, expect};

    use super::*;

    fn check(object: &str, kind: FailureKind, count: u32, expected: Expect) {
        let object: serde_json::Value = serde_saphyr::from_str(object).unwrap();
        let failure = Failure { kind, message: "500 InternalError: boom\nboom".into(), retry_after: None };
        let failed = FailedPass { failure, action: Some(act::apply(&object).into()), count };
        let verdict = Verdict::of_failure(&failed).unwrap();
        expected.assert_eq(&format!("{verdict:?}"));

        let stored = Condition {
            type_: CONDITION.into(),
            status: verdict.status(),
            reason: verdict.reason().into(),
            message: verdict.message().into(),
            observed_generation: Some(1),
            last_transition_time: None,
        };
        assert_eq!(Verdict::of_conditions(std::slice::from_ref(&stored), Some(1)), Some(verdict));
        assert_eq!(
            Verdict::of_conditions(&[stored], Some(2)),
            None,
            "an older generation counts for nothing"
        );
    }

    const VM: &str = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: vm-a}}";

    #[test]
    fn an_early_failure_is_retried() {
        check(
            VM,
            FailureKind::Transient,
            2,
            expect![[
                r#"Pending(ApplyFailed, "will be retried: apply VirtualMachine/vm-a: 500 InternalError: boom boom")"#
            ]],
        );
        check(
            VM,
            FailureKind::Conflict,
            1,
            expect![[
                r#"Pending(ApplyFailed, "will be retried: apply VirtualMachine/vm-a: 500 InternalError: boom boom")"#
            ]],
        );
    }

    #[test]
    fn a_third_failure_and_a_rejection_are_final() {
        for (kind, count) in
            [(FailureKind::Transient, 3), (FailureKind::Invalid, 1), (FailureKind::Denied, 1)]
        {
            check(
                VM,
                kind,
                count,
                expect![[
                    r#"Refused(ApplyFailed, "apply VirtualMachine/vm-a: 500 InternalError: boom boom")"#
                ]],
            );
        }
    }

    #[test]
    fn what_the_server_says_of_a_secret_is_cut() {
        check(
            "{apiVersion: v1, kind: Secret, metadata: {name: vm-a-cloud-init-userdata}}",
            FailureKind::Invalid,
            1,
            expect![[r#"Refused(ApplyFailed, "apply Secret/vm-a-cloud-init-userdata: 500 InternalError")"#]],
        );
    }

    #[test]
    fn trouble_with_the_machine_s_own_object_is_no_verdict() {
        let machine = crate::identity::Identity { namespace: "a".into(), name: "b".into(), uid: "c".into() };
        let failure = Failure { kind: FailureKind::Conflict, message: "409".into(), retry_after: None };
        for action in [
            act::add_finalizer(machine.reference(), "x"),
            act::delete(machine.reference()).into(),
            act::apply_status::<crate::api::KiteVirtualMachine>(("a", "b"), &()).into(),
        ] {
            let failed = FailedPass { failure: failure.clone(), action: Some(action), count: 1 };
            assert_eq!(Verdict::of_failure(&failed), None);
        }
        assert_eq!(Verdict::of_failure(&FailedPass { failure, action: None, count: 9 }), None);
    }

    #[test]
    fn an_unknown_reason_is_no_verdict() {
        let stored =
            r#"[{"type": "ResourcesApplied", "status": "False", "reason": "Whim", "observedGeneration": 1}]"#;
        assert_eq!(Verdict::of_conditions(&serde_json::from_str::<Vec<_>>(stored).unwrap(), Some(1)), None);
    }
}
