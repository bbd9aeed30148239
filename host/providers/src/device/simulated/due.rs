//! What happens by itself as time goes by: operations end, pulls come in, applications run, checks pass, the machine reboots.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use crate::device::words::{AppState, CheckState, Code, Error, OperationState, PullState};

/// The first wait after a failed pull; half as long again each time.
const PULL_AGAIN: f64 = 10.0;
/// The longest.
const PULL_AGAIN_MAX: f64 = 60.0;
/// An application that ran for so long has no deaths to its name.
const SETTLED: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Due {
    Deed(String),
    Pull(String),
    App(String),
    Check,
    Reboot,
}

impl State {
    /// When something happens next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.dues().map(|(at, _)| at).min()
    }

    fn dues(&self) -> impl Iterator<Item = (Instant, Due)> + '_ {
        let deeds =
            self.operations.iter().filter_map(|(key, deed)| Some((deed.due?, Due::Deed(key.clone()))));
        let pulls = self.images.iter().filter_map(|(key, image)| Some((image.due?, Due::Pull(key.clone()))));
        let apps = self.apps.iter().filter_map(|(id, app)| Some((app.due?.0, Due::App(id.clone()))));
        let check = self.check_due.map(|at| (at, Due::Check));
        let reboot = self.reboot_at.map(|at| (at, Due::Reboot));
        deeds.chain(pulls).chain(apps).chain(check).chain(reboot)
    }

    /// Has all happen that is due, in the order in which it is.
    pub(super) fn advance(&mut self, now: Instant) {
        loop {
            let next = self.dues().filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at);
            let Some((_, due)) = next else { return };
            match due {
                Due::Deed(key) => self.end_deed(&key),
                Due::Pull(reference) => self.pull(&reference),
                Due::App(id) => self.app_is_up(&id),
                Due::Check => {
                    self.check_due = None;
                    if self.os.check == CheckState::Pending {
                        self.os.check = CheckState::Passed;
                    }
                }
                Due::Reboot => self.boot(),
            }
        }
    }

    fn end_deed(&mut self, key: &str) {
        let (before, after) = self.count_down();
        if before {
            return self.boot();
        }
        let Some(deed) = self.operations.get_mut(key) else { return };
        deed.due = None;
        let (operation, arguments) = (deed.operation.clone(), deed.arguments.clone());
        let failed = deed.fate.take();
        let ignored = deed.ignored;
        let outcome = match failed {
            Some(error) => Err(error),
            None if ignored => Ok(()),
            None => self.take_effect(key, &operation, &arguments),
        };
        if let Some(deed) = self.operations.get_mut(key) {
            match outcome {
                Ok(()) => deed.state = OperationState::Succeeded,
                Err(error) => {
                    deed.state = OperationState::Failed;
                    deed.error = Some(error);
                }
            }
        }
        if after {
            self.boot();
        }
    }

    /// A pull ends, or begins anew after a failure.
    fn pull(&mut self, reference: &str) {
        let seconds = self.pull_seconds(reference);
        let now = self.now();
        let Some(image) = self.images.get_mut(reference) else { return };
        if image.seen.state == PullState::Failed {
            image.seen.state = PullState::Pulling;
            image.seen.next_try = None;
            image.due = Some(Instant::now() + seconds);
            return;
        }
        image.due = None;
        let refusal = self.registry.get_mut(reference).and_then(|registry| {
            let code = registry.code.filter(|_| registry.times != Some(0))?;
            registry.times = registry.times.map(|times| times - 1);
            Some(Error { code, message: registry.message.clone() })
        });
        let Some(error) = refusal else {
            image.seen = super::state::present(reference);
            return;
        };
        image.seen.state = PullState::Failed;
        image.seen.tries += 1;
        if error.code == Code::Transient {
            let tries = i32::try_from(image.seen.tries.min(16)).unwrap_or(16);
            let wait = Duration::from_secs_f64((PULL_AGAIN * 1.5_f64.powi(tries - 1)).min(PULL_AGAIN_MAX));
            image.due = Some(Instant::now() + wait);
            let wait = jiff::SignedDuration::try_from(wait).unwrap_or_default();
            image.seen.next_try = now.saturating_add(wait).ok().map(|at| at.to_string());
        }
        image.seen.error = Some(error);
    }

    /// How long a pull takes.
    pub(super) fn pull_seconds(&self, reference: &str) -> Duration {
        let own = self.registry.get(reference).and_then(|registry| registry.seconds);
        Duration::from_secs(own.or_else(|| self.seconds.get("pull").copied()).unwrap_or(5))
    }

    fn app_is_up(&mut self, id: &str) {
        let now = self.now().to_string();
        let Some(app) = self.apps.get_mut(id) else { return };
        let Some((_, state)) = app.due.take() else { return };
        app.seen.observed = state;
        match state {
            AppState::Running => {
                app.seen.ready = app.seen.total;
                app.seen.error = None;
                app.seen.running_since = Some(now);
                app.running_since = Some(Instant::now());
            }
            _ => {
                app.seen.ready = 0;
                app.seen.ended_at = Some(now);
                app.seen.seq += 1;
                app.seen.deaths += 1;
            }
        }
    }

    /// An application dies or is stopped.
    pub(super) fn app_ends(&mut self, id: &str, state: AppState, died: bool) {
        let now = self.now().to_string();
        let Some(app) = self.apps.get_mut(id) else { return };
        let settled = app.running_since.is_some_and(|since| since.elapsed() >= SETTLED);
        if settled {
            app.seen.deaths = 0;
        }
        if died {
            app.seen.deaths += 1;
            app.seen.restarts += 1;
        }
        app.seen.seq += 1;
        app.seen.observed = state;
        app.seen.ready = 0;
        app.seen.ended_at = Some(now);
        app.seen.running_since = None;
        app.running_since = None;
        app.due = None;
    }
}
