//! Power cuts and reboots: what a machine forgets, and what it comes up with.

use serde::Deserialize;
use tokio::time::Instant;

use super::state::{BootFate, State};
use crate::device::words::{AppState, CheckState, OperationState};

/// A power cut that is to come.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PowerCut {
    /// At the so manieth operation from now, counted from 1: each that is performed, and each end of a long one.
    pub at: u64,
    /// Whether that one still takes effect.
    #[serde(default)]
    pub after: bool,
}

impl State {
    /// Counts an operation; tells whether the power is cut before it, or has to be cut after it.
    pub(super) fn count_down(&mut self) -> (bool, bool) {
        let Some(cut) = &mut self.power else { return (false, false) };
        cut.at = cut.at.saturating_sub(1);
        if cut.at > 0 {
            return (false, false);
        }
        let after = cut.after;
        self.power = None;
        (!after, after)
    }

    /// The machine goes down and comes up again, with all that is staged.
    pub(super) fn boot(&mut self) {
        self.boot += 1;
        self.booted_at = self.now().to_string();
        self.reboot_at = None;
        let fate = if self.boots.is_empty() { None } else { Some(self.boots.remove(0)) };
        self.next_deployment(fate);
        let now = self.now().to_string();
        for app in self.apps.values_mut() {
            if matches!(app.seen.observed, AppState::Running | AppState::Starting | AppState::Error) {
                app.seen.observed = AppState::Stopped;
                app.seen.ready = 0;
                app.seen.seq += 1;
                app.seen.ended_at = Some(now.clone());
                app.seen.running_since = None;
                app.running_since = None;
            }
            app.due = None;
        }
        self.host_died();
        for deed in self.operations.values_mut() {
            if deed.state == OperationState::Running {
                deed.state = if matches!(&*deed.operation, "reboot" | "rollback-os") {
                    OperationState::Succeeded
                } else {
                    OperationState::Lost
                };
                deed.due = None;
            }
        }
    }

    fn next_deployment(&mut self, fate: Option<BootFate>) {
        let os = &mut self.os;
        match fate {
            Some(BootFate::FallsBack) => {
                os.staged = None;
                os.returns = false;
            }
            Some(BootFate::Image(image)) => {
                os.staged = None;
                os.booted = os.of(&image);
            }
            None if os.returns => {
                os.returns = false;
                os.staged = None;
                if let Some((image, etc)) = os.rollback.take() {
                    let left = self.disk.swap_etc(etc);
                    let old = std::mem::replace(&mut os.booted, image);
                    os.rollback = Some((old, left));
                }
            }
            None => {
                if let Some(staged) = os.staged.take() {
                    // The new deployment takes over `/etc` as it is when the machine goes down.
                    let etc = self.disk.etc.clone();
                    let old = std::mem::replace(&mut os.booted, staged);
                    os.rollback = Some((old, etc));
                }
            }
        }
        if os.check_seconds.is_some() {
            os.check = CheckState::Pending;
        }
        self.check_due =
            os.check_seconds.map(|seconds| Instant::now() + std::time::Duration::from_secs(seconds));
    }

    /// The host ends without a word: what it had begun itself is lost, what others do for it goes on.
    pub(super) fn host_died(&mut self) {
        for deed in self.operations.values_mut().filter(|deed| deed.state == OperationState::Running) {
            if !matches!(&*deed.operation, "reboot" | "rollback-os") {
                deed.state = OperationState::Lost;
                deed.due = None;
            }
        }
    }
}
