//! What a look at a key notes down for the journal.

use evenkeel_core::admit::Verdict;
use evenkeel_core::contract::{
    Action, Conclusion, Failure, Json, LogLevel, LogLine, ObjectRef, Observation, Reply, Request, Step,
};
use evenkeel_core::guest::{CallError, CallStats};
use evenkeel_core::limits::{LOG_LINE_BYTES_MAX, LOG_LINES_MAX};
use evenkeel_core::record::{CallRecord, CallReply, DeedOutcome, DeedRecord, End, PassRecord};
use evenkeel_core::target::ActionTarget;
use jiff::Timestamp;

use crate::shared::Shared;
use crate::state::Taken;

/// The notes of one look.
pub(crate) struct Notes {
    time: Timestamp,
    request: Option<Request>,
    calls: Vec<CallRecord>,
    deeds: Vec<DeedRecord>,
    /// Whether what is done now repairs drift.
    repairing: bool,
}

impl Notes {
    pub(crate) fn begin(shared: &Shared) -> Self {
        Self { time: shared.clock.now(), request: None, calls: vec![], deeds: vec![], repairing: false }
    }

    /// The plugin is called for the first time in this pass.
    pub(crate) fn asked_first(&mut self, request: &Request) {
        self.request = Some(request.clone());
    }

    /// From here on what is done repairs drift.
    pub(crate) fn repair(&mut self) {
        self.repairing = true;
    }

    /// The plugin answered. What it wants logged is logged now, inside the span of its pass.
    pub(crate) fn replied(&mut self, taken: &Taken, reply: &Reply, stats: CallStats) {
        let Reply { step, log } = reply;
        let said = match step {
            Step::Observe(queries) => CallReply::Asked { queries: queries.clone(), answers: vec![] },
            Step::Perform(actions) => CallReply::Performed { actions: actions.len() },
            Step::Finish(Conclusion { actions, prune, requeue_after }) => CallReply::Concluded {
                actions: actions.len(),
                prune: prune.clone(),
                requeue_after: *requeue_after,
            },
        };
        let lines: Vec<LogLine> = log.iter().take(LOG_LINES_MAX).map(cut).collect();
        lines.iter().for_each(|line| write_log(taken, line));
        self.call(said, lines, stats);
    }

    pub(crate) fn gave_up(&mut self, failure: &Failure, stats: CallStats) {
        self.call(CallReply::Failed { failure: failure.clone() }, vec![], stats);
    }

    pub(crate) fn died(&mut self, error: &CallError) {
        self.call(CallReply::Died { error: error.to_string() }, vec![], CallStats::default());
    }

    fn call(&mut self, reply: CallReply, log: Vec<LogLine>, stats: CallStats) {
        let micros = u64::try_from(stats.elapsed.as_micros()).unwrap_or(u64::MAX);
        self.calls.push(CallRecord { reply, log, micros, memory: stats.memory });
    }

    /// The answers to the questions of the last call.
    pub(crate) fn observed(&mut self, observations: &[Observation]) {
        if let Some(CallRecord { reply: CallReply::Asked { answers, .. }, .. }) = self.calls.last_mut() {
            answers.extend_from_slice(observations);
        }
    }

    /// Something was done or left out; what it gave is what a provider said, if it was one that did it.
    pub(crate) fn did(
        &mut self,
        target: &ActionTarget<'_>,
        verdict: Option<&Verdict>,
        done: Result<Option<&Json>, &Failure>,
    ) {
        let said = done.ok().flatten().filter(|_| matches!(target.action(), Action::External(_))).cloned();
        let outcome = match (verdict, done) {
            (_, Err(failure)) => DeedOutcome::Failed { failure: failure.clone() },
            (Some(Verdict::Skip(reason)), Ok(_)) => DeedOutcome::Skipped { reason: *reason },
            (Some(Verdict::Send(_) | Verdict::Fail(_) | Verdict::Elsewhere) | None, Ok(_)) => {
                DeedOutcome::Done
            }
        };
        self.deed(target.action(), target.object().cloned(), outcome, said);
    }

    /// An action that could not even be judged.
    pub(crate) fn refused(&mut self, action: &Action, failure: &Failure) {
        self.deed(action, None, DeedOutcome::Failed { failure: failure.clone() }, None);
    }

    fn deed(&mut self, action: &Action, object: Option<ObjectRef>, outcome: DeedOutcome, said: Option<Json>) {
        self.deeds.push(DeedRecord { action: action.clone(), object, outcome, said, repair: self.repairing });
    }

    /// The record, if there is anything to tell. Most looks have nothing, so nothing is put together for them.
    pub(crate) fn close(self, taken: &Taken, end: End, micros: u64) -> Option<PassRecord> {
        let Self { time, request, calls, deeds, repairing: _ } = self;
        let told = match &end {
            End::Stands => deeds.iter().any(|deed| !matches!(deed.outcome, DeedOutcome::Skipped { .. })),
            End::Waiting { .. } | End::Slowed { .. } | End::Paused => true,
            End::Concluded { .. } | End::Failed { .. } | End::Stale => true,
        };
        if !told {
            return None;
        }
        let manifest = taken.loaded.guest.manifest();
        let mut record = PassRecord {
            time: time.to_string(),
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: taken.loaded.guest.digest().to_owned(),
            controller: taken.plan().spec.name.clone(),
            key: taken.object.clone(),
            trigger: taken.trigger.clone(),
            request,
            calls,
            deeds,
            end,
            micros,
        };
        record.redact();
        Some(record)
    }
}

/// A plugin's line, no longer than the host takes.
fn cut(line: &LogLine) -> LogLine {
    let end = line.message.floor_char_boundary(LOG_LINE_BYTES_MAX);
    LogLine { level: line.level, message: line.message.get(..end).unwrap_or_default().to_owned() }
}

fn write_log(taken: &Taken, line: &LogLine) {
    let (plugin, object, message) = (taken.loaded.name(), &taken.object, &line.message);
    match line.level {
        LogLevel::Debug => tracing::debug!(target: "plugin", plugin, %object, "{message}"),
        LogLevel::Info => tracing::info!(target: "plugin", plugin, %object, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "plugin", plugin, %object, "{message}"),
        LogLevel::Error => tracing::error!(target: "plugin", plugin, %object, "{message}"),
    }
}
