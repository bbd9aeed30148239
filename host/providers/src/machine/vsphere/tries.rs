//! What the driver has to be told again: how often something was tried, and what is under way.

use serde::{Deserialize, Serialize};

use super::super::call::Call;
use super::super::code::Code;
use super::super::driver::DriverError;

/// It travels as `lastKnownState` in the Machine's status. Where it is lost, a VM is found all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tries {
    /// Operations that failed. Under its key a failed one stays failed: the next one needs another.
    #[serde(skip_serializing_if = "is_zero")]
    failed: u32,
    /// The task that was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Tries {
    /// As the call tells them; what is not understood counts as nothing.
    pub(super) fn of(call: &Call) -> Self {
        let told = call.last_known_state.as_deref();
        told.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The key of an operation on something, for this try.
    pub(super) fn key(&self, uid: &str, operation: &str, subject: &str) -> String {
        format!("{uid}/{operation}/{subject}/{}", self.failed)
    }

    /// A task was started.
    pub(super) fn started(&mut self, task: &str) {
        self.task = Some(task.to_owned());
    }

    /// The task that was started last.
    pub(super) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Something failed. The next time is another try, unless nobody knows what came of this one.
    pub(super) fn another(&mut self, error: DriverError) -> DriverError {
        if !matches!(error.code, Code::DeadlineExceeded | Code::Unavailable) {
            self.failed = self.failed.saturating_add(1);
            self.task = None;
        }
        self.keep(error)
    }

    /// Something could not be looked at: all stays as it is.
    pub(super) fn keep(&self, error: DriverError) -> DriverError {
        DriverError { last_known_state: Some(self.to_text()), ..error }
    }

    /// What remains to be known where nothing is under way.
    pub(super) fn settled(&self) -> String {
        Self { failed: self.failed, task: None }.to_text()
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_makes_another_try_and_one_in_doubt_does_not() {
        let mut tries = Tries::default();
        tries.started("task-1");
        let doubt = tries.another(DriverError::new(Code::Unavailable, "no answer"));
        assert_eq!(doubt.last_known_state.as_deref(), Some(r#"{"task":"task-1"}"#));
        let failed = tries.another(DriverError::new(Code::ResourceExhausted, "no room"));
        assert_eq!(failed.last_known_state.as_deref(), Some(r#"{"failed":1}"#));
        assert_eq!(tries.key("u", "clone", "vm"), "u/clone/vm/1");
    }
}
