//! What goes over the border of the host, for whoever counts it. Names come from closed sets, and nothing of what was said
//! is in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Told of every question and operation that has ended. It is called by the worker, so it must not wait.
pub type CallObserver = Arc<dyn Fn(&CallReport<'_>) + Send + Sync>;

/// A question or an operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallReport<'a> {
    /// The provider.
    pub provider: &'a str,
    /// The question or the operation; `other` for one that the provider does not know.
    pub call: &'static str,
    /// What came of it.
    pub result: CallResult,
    /// How long it took.
    pub took: Duration,
}

/// What came of a question or an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallResult {
    /// It was answered, or done.
    Ok,
    /// The outside world could not be asked, or would not: the plugin was told so.
    Trouble,
    /// The plugin asked for what cannot be.
    Failed,
}

impl CallResult {
    /// As a label has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Trouble => "trouble",
            Self::Failed => "failed",
        }
    }
}

/// A system that a provider speaks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarEnd {
    /// By its name in the host's configuration.
    pub name: String,
    /// Requests to it so far, by method.
    pub requests: BTreeMap<&'static str, Count>,
    /// Objects there of which changes are told.
    pub watched: usize,
}

/// Requests of one method so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests made.
    pub calls: u64,
    /// Of these, requests that had no result.
    pub failures: u64,
}
