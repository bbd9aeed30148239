//! The operator's settings.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings; each has a default, and a name that is not here is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Where specs come from; `management`.
    pub source: Source,
    /// How often a failing update is tried.
    pub retries: Retries,
    /// What becomes of managed files that somebody changed; `repair`.
    pub drift: Drift,
    /// What becomes of another booted OS image than the spec's; `report`.
    pub os_drift: Drift,
    /// How long a started application may take until it runs, in seconds; 600.
    #[schemars(range(min = 1, max = 86400))]
    pub app_start_timeout_seconds: u32,
    /// How long the check of a boot may take, in seconds; 900.
    #[schemars(range(min = 1, max = 86400))]
    pub boot_check_timeout_seconds: u32,
    /// How long applications have to run before an update counts as done, in seconds; 0.
    #[schemars(range(max = 86400))]
    pub settle_seconds: u32,
    /// The summary while the last update has failed and everything else is well; `Error`.
    pub failed_update_summary: FailedSummary,
    /// Whether only reasons are used that services of flightctl know; `false`.
    pub strict_reasons: bool,
    /// What becomes of a hook of ours whose program is missing; `fail`. Those of vendors are skipped.
    pub missing_executable: MissingExecutable,
}

/// Where specs come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The management service sends them.
    #[default]
    Management,
    /// The Device object's own spec.
    Object,
}

/// How often a failing update is tried; 0 is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Retries {
    /// Tries of the preparations; 0.
    pub prepare: u32,
    /// Tries of all that follows; 5.
    pub apply: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Self { prepare: 0, apply: 5 }
    }
}

/// What becomes of what is otherwise than the spec says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Drift {
    /// It is put right.
    Repair,
    /// It is told.
    Report,
}

/// A summary for a failed update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailedSummary {
    /// As bad as it gets.
    #[default]
    Error,
    /// The device does its work, on an old version.
    Degraded,
}

/// What becomes of a hook whose program is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MissingExecutable {
    /// It fails.
    #[default]
    Fail,
    /// It is skipped.
    Skip,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Source::Management,
            retries: Retries::default(),
            drift: Drift::Repair,
            os_drift: Drift::Report,
            app_start_timeout_seconds: 600,
            boot_check_timeout_seconds: 900,
            settle_seconds: 0,
            failed_update_summary: FailedSummary::Error,
            strict_reasons: false,
            missing_executable: MissingExecutable::Fail,
        }
    }
}

impl Config {
    /// How long a started application may take until it runs.
    pub fn app_start_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.app_start_timeout_seconds))
    }

    /// How long the check of a boot may take.
    pub fn boot_check_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.boot_check_timeout_seconds))
    }

    /// How long applications have to run before an update counts as done.
    pub fn settle(&self) -> Duration {
        Duration::from_secs(u64::from(self.settle_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let config: Config = serde_json::from_str(r#"{"retries": {"apply": 3}}"#).expect("it reads");
        let retries = Retries { apply: 3, ..Retries::default() };
        assert_eq!(config, Config { retries, ..Config::default() });
    }

    #[test]
    fn a_setting_that_nobody_knows_is_refused_by_name() {
        let error = serde_json::from_str::<Config>(r#"{"osdrift": "repair"}"#).expect_err("it is refused");
        assert!(error.to_string().starts_with("unknown field `osdrift`"), "{error}");
    }
}
