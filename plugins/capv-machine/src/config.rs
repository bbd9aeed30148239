//! The operator's settings of the plugin.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings; each has a default, and a name that is not here is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// vCenters that machines may name; empty for every one that the host knows.
    pub servers: Vec<String>,
    /// Longest wait between two looks at a task that the provider does not watch, in seconds.
    #[schemars(range(min = 2, max = 600))]
    pub task_poll_seconds_max: u32,
    /// Wait between two looks for the addresses of a VM that the provider does not watch, in seconds.
    #[schemars(range(min = 1, max = 600))]
    pub address_poll_seconds: u32,
    /// Wait before a failed task is tried again, in seconds; it doubles with each failure in a row.
    #[schemars(range(min = 1, max = 3600))]
    pub retry_seconds_min: u32,
    /// Longest such wait, in seconds.
    #[schemars(range(min = 1, max = 86400))]
    pub retry_seconds_max: u32,
    /// A task in flight for longer than this, in seconds, is told of by an event.
    #[schemars(range(min = 1, max = 604800))]
    pub long_task_seconds: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            task_poll_seconds_max: 20,
            address_poll_seconds: 10,
            retry_seconds_min: 60,
            retry_seconds_max: 600,
            long_task_seconds: 3600,
        }
    }
}

impl Config {
    /// Whether machines may name this vCenter.
    pub fn allows(&self, server: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|allowed| allowed == server)
    }

    /// How long to wait after so many failures in a row.
    pub fn back_off(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let seconds = u64::from(self.retry_seconds_min) << doublings;
        Duration::from_secs(seconds.min(u64::from(self.retry_seconds_max)).max(1))
    }

    /// When to look at a task again that has been in flight for so long: after as long again.
    pub fn task_poll(&self, in_flight: Duration) -> Duration {
        let max = Duration::from_secs(u64::from(self.task_poll_seconds_max.max(2)));
        in_flight.clamp(crate::timing::TASK_POLL_MIN, max)
    }

    /// When to look for addresses again.
    pub fn address_poll(&self) -> Duration {
        Duration::from_secs(u64::from(self.address_poll_seconds.max(1)))
    }

    /// After how long a task is told of.
    pub fn long_task(&self) -> Duration {
        Duration::from_secs(u64::from(self.long_task_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_config_is_the_default() {
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), Config::default());
    }

    #[test]
    fn a_setting_that_nobody_knows_is_refused_by_its_name() {
        let error = serde_json::from_str::<Config>(r#"{"taskPollSecondsMin": 1}"#).unwrap_err().to_string();
        assert!(error.starts_with("unknown field `taskPollSecondsMin`"), "{error}");
    }

    #[test]
    fn the_wait_after_failures_doubles_up_to_its_limit() {
        let config = Config::default();
        let waits: Vec<_> =
            [1, 2, 3, 4, 5, u32::MAX].map(|failures| config.back_off(failures).as_secs()).into();
        assert_eq!(waits, [60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn looks_at_a_task_become_rarer_up_to_their_limit() {
        let config = Config::default();
        let waits: Vec<_> = [0, 2, 4, 8, 16, 32, 4000]
            .map(|seconds| config.task_poll(Duration::from_secs(seconds)).as_secs())
            .into();
        assert_eq!(waits, [2, 2, 4, 8, 16, 20, 20]);
    }
}
