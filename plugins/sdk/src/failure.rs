//! Why a pass stops before its conclusion, and how failures read.

use crate::{Action, Failure, FailureKind, ObjectRef};

/// Why a pass ends here; `?` carries it out of the reconciler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An answer is not known yet: the host looks up all questions put so far and calls again.
    Ask,
    /// These have to be done first: the host does them and calls again.
    Perform(Vec<Action>),
    /// The pass failed; the host retries it by the failure's kind.
    Fail(Failure),
}

impl Stop {
    /// Worth another try, with back-off.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Transient, message)
    }

    /// The input is at fault: no retry until it changes.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Invalid, message)
    }

    /// Not allowed.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Denied, message)
    }

    /// Somebody else changed or owns it.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Conflict, message)
    }

    /// Not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::of(FailureKind::NotFound, message)
    }

    fn of(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::Fail(Failure { kind, message: message.into(), retry_after: None })
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

/// Names an action for a status message: `apply ResourceQuota/limits`. It never shows the object's content.
pub fn action_text(action: &Action) -> String {
    let object = |json: &str| {
        #[derive(serde::Deserialize)]
        struct Named {
            #[serde(default)]
            kind: String,
            metadata: Name,
        }
        #[derive(serde::Deserialize)]
        struct Name {
            #[serde(default)]
            name: String,
        }
        match serde_json::from_str::<Named>(json) {
            Ok(named) => format!("{}/{}", named.kind, named.metadata.name),
            Err(_) => "an object".to_owned(),
        }
    };
    let named = |object: &ObjectRef| format!("{}/{}", object.gvk.kind, object.name);
    match action {
        Action::Create(apply) => format!("create {}", object(&apply.object)),
        Action::Apply(apply) => format!("apply {}", object(&apply.object)),
        Action::ApplyStatus(apply) => format!("apply status of {}", object(&apply.object)),
        Action::Delete(deletion) => format!("delete {}", named(&deletion.object)),
        Action::AddFinalizer(finalizer) => format!("add finalizer to {}", named(&finalizer.object)),
        Action::RemoveFinalizer(finalizer) => format!("remove finalizer from {}", named(&finalizer.object)),
        Action::Patch(patch) => format!("patch {}", named(&patch.object)),
        Action::Publish(event) => format!("publish event {} about {}", event.reason, named(&event.about)),
        Action::Enqueue(enqueue) => format!("enqueue {}", named(&enqueue.object)),
        Action::External(operation) => format!("{} of {}", operation.operation, operation.provider),
    }
}

/// `Kind namespace/name`.
pub(crate) fn object_text(object: &ObjectRef) -> String {
    match &object.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.gvk.kind, object.name),
        None => format!("{} {}", object.gvk.kind, object.name),
    }
}
