//! One call of a vCenter, whichever protocol carries it.

use std::future::Future;
use std::pin::Pin;

use super::data::{Data, MoRef, Object};

/// A method of a managed object with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The managed object.
    pub target: MoRef,
    /// The method, as in `CloneVM_Task`.
    pub method: &'static str,
    /// Its parameters, in the order of the schema.
    pub parameters: Object,
}

impl Call {
    /// Without parameters.
    pub fn new(target: &MoRef, method: &'static str) -> Self {
        Self { target: target.clone(), method, parameters: Object::default() }
    }

    /// With one parameter more.
    pub fn with(mut self, name: &str, value: impl Into<Data>) -> Self {
        self.parameters = self.parameters.with(name, value);
        self
    }

    /// With one parameter more, where there is a value.
    pub fn maybe<T: Into<Data>>(mut self, name: &str, value: Option<T>) -> Self {
        self.parameters = self.parameters.maybe(name, value);
        self
    }
}

/// A fault: vCenter's own word for what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Fault {
    /// Its type, as in `NoCompatibleHost`.
    pub kind: String,
    /// What it says; its type where it says nothing.
    pub message: String,
    /// Its members.
    pub detail: Object,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// vCenter refused it; nothing was started.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// No answer came: it was not reached, or it closed the connection. The call may have taken effect.
    #[error("{0}")]
    Unreachable(String),
    /// No answer came in time. The call may have taken effect.
    #[error("no answer in time")]
    Timeout,
    /// What came is no answer of a vCenter. The call may have taken effect.
    #[error("{0}")]
    BadAnswer(String),
    /// There are no credentials to log in with.
    #[error("{0}")]
    Credentials(String),
    /// vCenter does not take the credentials.
    #[error("the user name or the password is wrong")]
    InvalidLogin,
    /// vCenter ends every session that is begun.
    #[error("the session could not be renewed")]
    NotAuthenticated,
    /// More calls wait than the limits allow.
    #[error("too many calls are waiting")]
    Crowded,
}

impl CallError {
    /// Whether the fault has this type.
    pub fn is_fault(&self, kind: &str) -> bool {
        matches!(self, Self::Fault(fault) if fault.kind == kind)
    }
}

/// What a call resolves to; a method without a result gives an empty list.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Data, CallError>> + Send + 'a>>;

/// A far end that takes calls. It keeps the session that a `Login` begins, and knows nothing of renewing it.
pub trait Vcenter: Send + Sync {
    /// Makes one call. An absent result is an empty list.
    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a>;

    /// Whether it has told all that happened to it. Only a simulated one knows.
    fn idle(&self) -> bool {
        true
    }
}
