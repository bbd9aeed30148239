//! What is counted of each look at an object: told by the engine when a look has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::contract::{Action, FailureKind};
use evenkeel_core::guest::CallError;
use evenkeel_core::record::{CallReply, DeedOutcome, DeedRecord, PassRecord};
use evenkeel_engine::observe::{LookOutcome, LookReport};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::catalogue::{self as names, Metric};
use super::labels::{
    ActionLabels, CallLabels, ControllerLabel, ElidedLabels, PluginLabel, PluginLabels, QueueLabels,
    ResultLabels,
};
use super::{buckets, register};

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Every family that is counted a controller, and the handles of the controllers that there are.
pub(super) struct PassMetrics {
    families: Families,
    controllers: Mutex<BTreeMap<String, BTreeMap<String, Arc<Handles>>>>,
}

struct Families {
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabel, Counter>,
    terminal: Family<ControllerLabel, Counter>,
    panics: Family<ControllerLabel, Counter>,
    timeouts: Family<ControllerLabel, Counter>,
    seconds: Histograms<ControllerLabel>,
    queued: Histograms<QueueLabels>,
    worked: Histograms<QueueLabels>,
    retries: Family<QueueLabels, Counter>,
    fine: Histograms<PluginLabels>,
    call_seconds: Histograms<PluginLabels>,
    calls: Family<CallLabels, Counter>,
    elided: Family<ElidedLabels, Counter>,
    actions: Family<ActionLabels, Counter>,
    memory: Family<PluginLabel, Gauge>,
    compiled: Histograms<PluginLabel>,
}

/// The series of one controller, found once.
struct Handles {
    labels: PluginLabels,
    reconciles: [Counter; RESULTS.len()],
    errors: Counter,
    terminal: Counter,
    panics: Counter,
    timeouts: Counter,
    seconds: Histogram,
    queued: Histogram,
    worked: Histogram,
    retries: Counter,
    fine: Histogram,
    call_seconds: Histogram,
    calls: [Counter; CALLS.len()],
    elided: [Counter; REASONS.len()],
    memory: Gauge,
}

const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];
const CALLS: [&str; 7] = ["ok", "trap", "timeout", "memory", "invalid", "denied", "host"];
const REASONS: [&str; 3] = ["unchanged", "rejected", "paused"];
const ACTIONS: [&str; 10] = [
    "create",
    "apply",
    "apply-status",
    "delete",
    "add-finalizer",
    "remove-finalizer",
    "patch",
    "publish",
    "enqueue",
    "external",
];
const OUTCOMES: [&str; 5] = ["sent", "noop", "conflict", "denied", "failed"];

impl PassMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Families {
            reconciles: register(registry, &names::RECONCILE, Family::default()),
            errors: register(registry, &names::RECONCILE_ERRORS, Family::default()),
            terminal: register(registry, &names::RECONCILE_TERMINAL, Family::default()),
            panics: register(registry, &names::RECONCILE_PANICS, Family::default()),
            timeouts: register(registry, &names::RECONCILE_TIMEOUTS, Family::default()),
            seconds: histograms(registry, &names::RECONCILE_SECONDS, buckets::reconcile),
            queued: histograms(registry, &names::QUEUE_SECONDS, buckets::workqueue),
            worked: histograms(registry, &names::WORK_SECONDS, buckets::workqueue),
            retries: register(registry, &names::QUEUE_RETRIES, Family::default()),
            fine: histograms(registry, &names::PASS_SECONDS, buckets::fine),
            call_seconds: histograms(registry, &names::CALL_SECONDS, buckets::fine),
            calls: register(registry, &names::CALLS, Family::default()),
            elided: register(registry, &names::ELIDED, Family::default()),
            actions: register(registry, &names::ACTIONS, Family::default()),
            memory: register(registry, &names::MEMORY_PEAK, Family::default()),
            compiled: histograms(registry, &names::COMPILE_SECONDS, buckets::compile),
        };
        Self { families, controllers: Mutex::default() }
    }

    /// Counts a look.
    pub(super) fn looked(&self, look: &LookReport<'_>) {
        let handles = self.handles(look.plugin, look.controller);
        handles.outcome(look);
        handles.times(look);
        let Some(record) = look.record else { return };
        let last = last_call(look);
        handles.calls(record, last, look.fault);
        for deed in &record.deeds {
            self.families.actions.get_or_create(&handles.action(deed)).inc();
        }
    }

    /// Counts a version of a plugin that was loaded.
    pub(super) fn compiled(&self, plugin: &str, took: Duration) {
        self.families.compiled.get_or_create(&PluginLabel::new(plugin)).observe(took.as_secs_f64());
    }

    /// Shows the series of these controllers, though nothing happened to them yet, and no others.
    pub(super) fn keep(&self, controllers: &BTreeSet<(&str, &str)>) {
        for (plugin, controller) in controllers {
            self.handles(plugin, controller);
        }
        let mut known = self.controllers();
        known.retain(|plugin, of_plugin| {
            of_plugin.retain(|controller, handles| {
                let stays = controllers.contains(&(plugin.as_str(), controller.as_str()));
                if !stays {
                    self.families.forget(&handles.labels);
                }
                stays
            });
            if of_plugin.is_empty() {
                self.families.forget_plugin(plugin);
            }
            !of_plugin.is_empty()
        });
    }

    fn handles(&self, plugin: &str, controller: &str) -> Arc<Handles> {
        let mut known = self.controllers();
        if let Some(handles) = known.get(plugin).and_then(|of_plugin| of_plugin.get(controller)) {
            return Arc::clone(handles);
        }
        let handles = Arc::new(self.families.handles(plugin, controller));
        known.entry(plugin.to_owned()).or_default().insert(controller.to_owned(), Arc::clone(&handles));
        handles
    }

    fn controllers(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Arc<Handles>>>> {
        // Counters are sound between any two statements.
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn histograms<L>(registry: &mut Registry, metric: &Metric, make: fn() -> Histogram) -> Histograms<L>
where
    L: super::labels::Labels,
{
    register(registry, metric, Family::new_with_constructor(make))
}

impl Families {
    fn handles(&self, plugin: &str, controller: &str) -> Handles {
        let labels = PluginLabels::new(plugin, controller);
        let (one, queue) = (ControllerLabel::new(plugin, controller), QueueLabels::new(plugin, controller));
        Handles {
            reconciles: RESULTS
                .map(|result| self.reconciles.get_or_create_owned(&ResultLabels::of(&one, result))),
            errors: self.errors.get_or_create_owned(&one),
            terminal: self.terminal.get_or_create_owned(&one),
            panics: self.panics.get_or_create_owned(&one),
            timeouts: self.timeouts.get_or_create_owned(&one),
            seconds: self.seconds.get_or_create_owned(&one),
            queued: self.queued.get_or_create_owned(&queue),
            worked: self.worked.get_or_create_owned(&queue),
            retries: self.retries.get_or_create_owned(&queue),
            fine: self.fine.get_or_create_owned(&labels),
            call_seconds: self.call_seconds.get_or_create_owned(&labels),
            calls: CALLS.map(|result| self.calls.get_or_create_owned(&CallLabels::of(&labels, result))),
            elided: REASONS.map(|reason| self.elided.get_or_create_owned(&ElidedLabels::of(&labels, reason))),
            memory: self.memory.get_or_create_owned(&PluginLabel::new(plugin)),
            labels,
        }
    }

    /// The controller is there no more: its series would stand still for ever.
    fn forget(&self, labels: &PluginLabels) {
        let (plugin, controller) = (labels.plugin.as_str(), labels.controller.as_str());
        let one = ControllerLabel { controller: controller.to_owned() };
        let queue = QueueLabels { name: controller.to_owned(), controller: controller.to_owned() };
        for result in RESULTS {
            self.reconciles.remove(&ResultLabels::of(&one, result));
        }
        for family in [&self.errors, &self.terminal, &self.panics, &self.timeouts] {
            family.remove(&one);
        }
        self.seconds.remove(&one);
        self.queued.remove(&queue);
        self.worked.remove(&queue);
        self.retries.remove(&queue);
        self.fine.remove(labels);
        self.call_seconds.remove(labels);
        for result in CALLS {
            self.calls.remove(&CallLabels::of(labels, result));
        }
        for reason in REASONS {
            self.elided.remove(&ElidedLabels::of(labels, reason));
        }
        for (action, result) in ACTIONS.iter().flat_map(|action| OUTCOMES.map(|result| (*action, result))) {
            self.actions.remove(&ActionLabels {
                plugin: plugin.to_owned(),
                controller: controller.to_owned(),
                action,
                result,
            });
        }
    }

    fn forget_plugin(&self, plugin: &str) {
        self.memory.remove(&PluginLabel::new(plugin));
        self.compiled.remove(&PluginLabel::new(plugin));
    }
}

impl Handles {
    fn outcome(&self, look: &LookReport<'_>) {
        let [success, error, requeue, requeue_after] = &self.reconciles;
        let [unchanged, rejected, paused] = &self.elided;
        let counters: &[&Counter] = match look.outcome {
            LookOutcome::Concluded { requeue: false } | LookOutcome::NotOurs => &[success],
            LookOutcome::Concluded { requeue: true } | LookOutcome::Slowed => &[requeue_after],
            LookOutcome::Stands => &[success, unchanged],
            LookOutcome::Paused => &[success, paused],
            LookOutcome::Waiting | LookOutcome::Stale => &[requeue],
            LookOutcome::StillRejected => &[error, &self.errors, &self.terminal, rejected],
            LookOutcome::Failed { terminal: false, denied: _ } => &[error, &self.errors],
            LookOutcome::Failed { terminal: true, denied: _ } => &[error, &self.errors, &self.terminal],
        };
        counters.iter().for_each(|counter| {
            counter.inc();
        });
        if look.retries {
            self.retries.inc();
        }
    }

    fn times(&self, look: &LookReport<'_>) {
        let worked = look.worked.as_secs_f64();
        self.queued.observe(look.queued.as_secs_f64());
        self.worked.observe(worked);
        self.seconds.observe(worked);
        self.fine.observe(worked);
    }

    /// Counts the calls of a pass: all but the last one were answered, or there would be no later one.
    fn calls(&self, record: &PassRecord, last: &str, fault: Option<&CallError>) {
        for (position, call) in record.calls.iter().enumerate() {
            let result = if position + 1 == record.calls.len() { last } else { "ok" };
            if let Some(counter) =
                CALLS.iter().position(|word| *word == result).and_then(|at| self.calls.get(at))
            {
                counter.inc();
            }
            let survived = !matches!(call.reply, CallReply::Died { .. });
            if survived {
                self.call_seconds.observe(Duration::from_micros(call.micros).as_secs_f64());
                let memory = i64::try_from(call.memory).unwrap_or(i64::MAX);
                self.memory.inner().fetch_max(memory, std::sync::atomic::Ordering::Relaxed);
            }
        }
        match fault {
            Some(CallError::Deadline { limit }) => {
                self.timeouts.inc();
                self.call_seconds.observe(limit.as_secs_f64());
            }
            Some(CallError::Trap { .. } | CallError::Panic { .. } | CallError::Stack { .. }) => {
                self.panics.inc();
            }
            Some(
                CallError::Memory { .. }
                | CallError::ReplyTooLarge { .. }
                | CallError::InvalidReply { .. }
                | CallError::Host { .. },
            )
            | None => {}
        }
    }

    fn action(&self, deed: &DeedRecord) -> ActionLabels {
        let PluginLabels { plugin, controller } = self.labels.clone();
        ActionLabels {
            plugin,
            controller,
            action: action_word(&deed.action),
            result: deed_word(&deed.outcome),
        }
    }
}

/// What became of the last call of a look.
fn last_call(look: &LookReport<'_>) -> &'static str {
    let denied = matches!(look.outcome, LookOutcome::Failed { denied: true, .. });
    match look.fault {
        None if denied => "denied",
        None => "ok",
        Some(CallError::Trap { .. } | CallError::Panic { .. } | CallError::Stack { .. }) => "trap",
        Some(CallError::Deadline { .. }) => "timeout",
        Some(CallError::Memory { .. }) => "memory",
        Some(CallError::ReplyTooLarge { .. } | CallError::InvalidReply { .. }) => "invalid",
        Some(CallError::Host { .. }) => "host",
    }
}

fn action_word(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "create",
        Action::Apply(_) => "apply",
        Action::ApplyStatus(_) => "apply-status",
        Action::Delete(_) => "delete",
        Action::AddFinalizer(_) => "add-finalizer",
        Action::RemoveFinalizer(_) => "remove-finalizer",
        Action::Patch(_) => "patch",
        Action::Publish(_) => "publish",
        Action::Enqueue(_) => "enqueue",
        Action::External(_) => "external",
    }
}

fn deed_word(outcome: &DeedOutcome) -> &'static str {
    match outcome {
        DeedOutcome::Done => "sent",
        DeedOutcome::Skipped { .. } => "noop",
        DeedOutcome::Failed { failure } => match failure.kind {
            FailureKind::Conflict => "conflict",
            FailureKind::Denied => "denied",
            FailureKind::Transient | FailureKind::NotFound | FailureKind::Invalid => "failed",
        },
    }
}
