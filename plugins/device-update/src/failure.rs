//! What follows from a failure: another try, the way back, or the end.

use std::time::Duration;

use crate::boot;
use crate::device::digest;
use crate::flow::{Flow, Halt, Next};
use crate::names::events;
use crate::state::{Ended, FailedVersion, LastOutcome, Phase, Stage, Target, Trouble, Way, WayBack};
use crate::words::{Rollback, Source, WriteSpec};

/// The first wait before another try.
const FIRST: f64 = 30.0;
/// Each wait is so much longer than the one before.
const FACTOR: f64 = 1.5;
/// The longest wait, in seconds.
const LONGEST: f64 = 300.0;
/// No wait is longer than this, jitter included: what says so was written under another clock.
const BELIEVED: Duration = Duration::from_secs(330);

/// The wait after a try: 30 s, half as long again each time, at most 5 m, and up to a tenth more by the device and the try.
pub fn back_off(uid: &str, attempt: u32) -> Duration {
    let steps = i32::try_from(attempt.saturating_sub(1).min(16)).unwrap_or(16);
    let seconds = (FIRST * FACTOR.powi(steps)).min(LONGEST);
    let digest = digest(format!("{uid}/{attempt}").as_bytes());
    let byte = digest.get(7..9).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or_default();
    let jitter = seconds * 0.1 * f64::from(byte) / 255.0;
    Duration::from_millis(Duration::from_secs_f64(seconds + jitter).as_millis().try_into().unwrap_or(330_000))
}

/// D6: whether the next try is still to come; the pass looks again then.
pub fn wait_for(flow: &mut Flow<'_>, next_try: &str) -> Result<Next, Halt> {
    let left = flow.until(next_try)?;
    if left.is_zero() {
        flow.change("next-try", |update| update.next_try = None)?;
        return Ok(Next::Go);
    }
    if left > BELIEVED {
        // The clock went back since this was written.
        let soon = flow.after(Duration::from_secs(300))?;
        flow.change("clock-went-back", |update| update.next_try = Some(soon))?;
        flow.look_again(Duration::from_secs(300));
        return Ok(Next::Wait);
    }
    flow.look_again(left);
    Ok(Next::Wait)
}

/// Decides what a failure means in the phase that it happened in.
pub fn failed(flow: &mut Flow<'_>, trouble: Trouble) -> Result<(), Halt> {
    let Some(update) = flow.state.update.clone() else {
        // Nothing fails a version in the steady state.
        return Err(Halt::Blocked(trouble.to_string()));
    };
    if update.phase.is_before_changes() {
        let limit = flow.config.retries.prepare;
        if trouble.retryable && (limit == 0 || update.attempt < limit) {
            return try_again(flow, Some(trouble));
        }
        // Nothing is changed, but for the OS, if an earlier try came so far.
        if boot::is_on_target(flow, &update)? {
            return begin_way_back(flow, trouble, Way::Os, true);
        }
        return give_up(flow, &trouble);
    }
    if update.phase == Phase::RollingBack {
        return crate::rollback::trouble(flow, vec![trouble.to_string()]);
    }
    let limit = flow.config.retries.apply;
    let last = !trouble.retryable || (limit > 0 && update.attempt >= limit);
    let way = if last && boot::is_on_target(flow, &update)? { Way::Os } else { Way::Files };
    begin_way_back(flow, trouble, way, last)
}

/// R1: the way back is on disk before it is taken.
pub fn begin_way_back(
    flow: &mut Flow<'_>,
    trouble: Trouble,
    kind: Way,
    mark_failed: bool,
) -> Result<(), Halt> {
    let stage = match kind {
        Way::Files => Stage::Restoring,
        Way::Os => Stage::Leaving,
    };
    let message = trouble.to_string();
    if mark_failed {
        // Before anything else: a crash on the way back must not forget it.
        self::mark_failed(flow, &message)?;
    }
    flow.change("roll-back", |update| {
        update.phase = Phase::RollingBack;
        update.error = Some(trouble);
        update.reboot = None;
        update.next_try = None;
        update.rollback = Some(WayBack { kind, mark_failed, stage, tries: 1, ..WayBack::default() });
    })?;
    flow.warn(events::ROLLBACK_STARTED, message);
    Ok(())
}

/// The version fails for good while it is on its way back for another try. What was put back before the machine came up
/// differently is looked at anew.
pub fn fail_on_the_way(flow: &mut Flow<'_>, trouble: Trouble) -> Result<(), Halt> {
    let message = trouble.to_string();
    mark_failed(flow, &message)?;
    flow.change("fail-on-the-way", |update| {
        update.error = Some(trouble);
        update.next_try = None;
        if let Some(back) = &mut update.rollback {
            back.mark_failed = true;
            back.tries += 1;
        }
    })?;
    flow.warn(events::ROLLBACK_STARTED, message);
    Ok(())
}

fn mark_failed(flow: &mut Flow<'_>, reason: &str) -> Result<(), Halt> {
    let Target { version, spec_hash } = flow.update()?.target;
    let at = flow.now_text()?;
    flow.state.mark_failed(FailedVersion { version, spec_hash, at, reason: reason.to_owned() });
    Ok(())
}

/// Another attempt after a while, from the beginning; but for the OS, where the machine has come up with the new one.
pub fn try_again(flow: &mut Flow<'_>, trouble: Option<Trouble>) -> Result<(), Halt> {
    let update = flow.update()?;
    let wait = back_off(&flow.primary.uid, update.attempt);
    let next_try = flow.after(wait)?;
    let stays = boot::is_on_target(flow, &update)?;
    if let Some(trouble) = trouble {
        flow.warn(events::UPDATE_FAILED, format!("attempt {}: {trouble}", update.attempt));
        if let Some(update) = &mut flow.state.update {
            update.error = Some(trouble);
        }
    }
    if let Some(update) = &mut flow.state.update {
        update.attempt += 1;
        update.next_try = Some(next_try);
        update.phase = Phase::Preparing;
        update.steps.clear();
        // Hooks ask for it, the check of the boot and the way back hang on it.
        update.rebooted = stays;
        update.reboot = None;
        update.verifying_since = None;
        update.rollback = None;
    }
    let rollback = if stays { None } else { flow.way_back.take().map(|_| Rollback::Clear) };
    flow.write("try-again", WriteSpec { rollback, ..WriteSpec::default() })
}

/// The version has failed for good; what is in effect stays the goal.
pub fn give_up(flow: &mut Flow<'_>, trouble: &Trouble) -> Result<(), Halt> {
    let update = flow.update()?;
    let at = flow.now_text()?;
    let reason = trouble.to_string();
    mark_failed(flow, &reason)?;
    flow.state.last_outcome = Some(LastOutcome {
        version: update.target.version.clone(),
        result: Ended::Error,
        message: reason.clone(),
        at,
    });
    flow.state.update = None;
    let rollback = flow.way_back.take().map(|_| Rollback::Clear);
    flow.write("give-up", WriteSpec { desired: Some(Source::Current), rollback, ..WriteSpec::default() })?;
    flow.desired = flow.current.clone();
    flow.warn(events::UPDATE_FAILED, format!("version {}: {reason}", update.target.version));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_by_half_up_to_five_minutes_with_at_most_a_tenth_more() {
        for (attempt, seconds) in [(1, 30.0), (2, 45.0), (3, 67.5), (7, 300.0), (u32::MAX, 300.0)] {
            let wait = back_off("uid", attempt).as_secs_f64();
            assert!((seconds..=seconds * 1.1 + 0.001).contains(&wait), "{attempt}: {wait}");
            assert_eq!(back_off("uid", attempt), back_off("uid", attempt));
        }
    }
}
