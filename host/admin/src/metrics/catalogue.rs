//! Every metric of the host: its name, its labels, what it means. Dashboards, alerts and the operators' guide rest on
//! this list, and tests hold them to it.

/// How a metric is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the process ends.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of observations, by size.
    Histogram,
}

impl Kind {
    /// As the text format calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its whole name.
    pub name: &'static str,
    /// How it is read.
    pub kind: Kind,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence without a full stop.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help] pub const $id: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// All of them, by origin.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

// The first three groups have the names and labels of controller-runtime and client-go, for which dashboards and
// alerts exist. A `controller` is `PLUGIN/CONTROLLER` everywhere: two plugins may call a controller the same.
catalogue! {
    RECONCILE = Counter "controller_runtime_reconcile_total" ["controller", "result"]
        "Looks at an object that ended: success, error, requeue or requeue_after";
    RECONCILE_ERRORS = Counter "controller_runtime_reconcile_errors_total" ["controller"]
        "Looks at an object that failed";
    RECONCILE_TERMINAL = Counter "controller_runtime_terminal_reconcile_errors_total" ["controller"]
        "Looks that failed and are not tried again before something changes";
    RECONCILE_PANICS = Counter "controller_runtime_reconcile_panics_total" ["controller"]
        "Calls in which the plugin trapped";
    RECONCILE_TIMEOUTS = Counter "controller_runtime_reconcile_timeouts_total" ["controller"]
        "Calls that were ended at their deadline";
    RECONCILE_SECONDS = Histogram "controller_runtime_reconcile_time_seconds" ["controller"]
        "How long a look at an object took";
    RECONCILE_MAX = Gauge "controller_runtime_max_concurrent_reconciles" ["controller"]
        "Passes that may run at once";
    RECONCILE_ACTIVE = Gauge "controller_runtime_active_workers" ["controller"]
        "Passes that run";

    QUEUE_DEPTH = Gauge "workqueue_depth" ["name", "controller"]
        "Objects that wait for a worker";
    QUEUE_ADDS = Counter "workqueue_adds_total" ["name", "controller"]
        "How often an object was put in line";
    QUEUE_SECONDS = Histogram "workqueue_queue_duration_seconds" ["name", "controller"]
        "How long objects waited for a worker";
    WORK_SECONDS = Histogram "workqueue_work_duration_seconds" ["name", "controller"]
        "How long a worker had an object";
    QUEUE_UNFINISHED = Gauge "workqueue_unfinished_work_seconds" ["name", "controller"]
        "How long the passes that run have been running, taken together";
    QUEUE_LONGEST = Gauge "workqueue_longest_running_processor_seconds" ["name", "controller"]
        "How long the oldest pass that runs has been running";
    QUEUE_RETRIES = Counter "workqueue_retries_total" ["name", "controller"]
        "How often an object was put in line again because its pass failed";

    REST_REQUESTS = Counter "rest_client_requests_total" ["code", "method", "host"]
        "Requests to the API server; the code is <error> where no answer came";
    REST_SECONDS = Histogram "rest_client_request_duration_seconds" ["verb", "host"]
        "Time until the head of the API server's answer came";
    LEADER = Gauge "leader_election_master_status" ["name"]
        "1 where this host holds the Lease of that name and acts, else 0";

    PASS_SECONDS = Histogram "evenkeel_pass_seconds" ["plugin", "controller"]
        "How long a look at an object took, from microseconds up";
    CALL_SECONDS = Histogram "evenkeel_plugin_call_seconds" ["plugin", "controller"]
        "How long a call of the plugin took, the wait for an instance included";
    CALLS = Counter "evenkeel_plugin_calls_total" ["plugin", "controller", "result"]
        "Calls of the plugin: ok, trap, timeout, memory, invalid, denied by its grant, or host where the host could not run it";
    MEMORY_PEAK = Gauge "evenkeel_plugin_memory_peak_bytes" ["plugin"]
        "The most linear memory that a call of the plugin ended with";
    COMPILE_SECONDS = Histogram "evenkeel_plugin_compile_seconds" ["plugin"]
        "How long it took to load a version of the plugin; little where it was compiled before";
    ELIDED = Counter "evenkeel_passes_elided_total" ["plugin", "controller", "reason"]
        "Looks that needed no call of the plugin: unchanged, rejected before, or paused";
    PLUGIN_INFO = Gauge "evenkeel_plugin_info" ["plugin", "version", "digest"]
        "1 for the version that runs";
    PLUGIN_HELD = Gauge "evenkeel_plugin_held" ["plugin"]
        "1 where no pass of the plugin runs until another version is loaded, else 0";
    PLUGIN_REFUSED = Gauge "evenkeel_plugin_refused" ["plugin"]
        "1 where a newer version was refused and the older one goes on, else 0";
    KEYS = Gauge "evenkeel_keys" ["plugin", "controller"]
        "Objects that the controller looks after";
    KEYS_TROUBLED = Gauge "evenkeel_keys_troubled" ["plugin", "controller", "trouble"]
        "Those of them whose last pass failed, which are paused, or which wait for a watch: failing, paused, waiting";
    BREAKER = Gauge "evenkeel_breaker_open" ["controller"]
        "Objects that are held back because they woke too often, 16 at most";
    ACTIONS = Counter "evenkeel_actions_total" ["plugin", "controller", "action", "result"]
        "Actions: sent, noop where it would have changed nothing, conflict, denied, or failed otherwise";
    CACHE_OBJECTS = Gauge "evenkeel_cache_objects" ["kind"]
        "Objects in the cache";
    CACHE_BYTES = Gauge "evenkeel_cache_bytes" ["kind"]
        "Bytes of their texts";
    WATCH_INTENDED = Gauge "evenkeel_watch_intended" ["kind"]
        "Watches that somebody needs";
    WATCH_ACTIVE = Gauge "evenkeel_watch_active" ["kind"]
        "Watches that are up and in step";
    WATCH_STALLED = Gauge "evenkeel_watch_stalled" ["kind"]
        "Watches that stand still: silent or failing for longer than a watch may be";
    WATCH_LAST_EVENT = Gauge "evenkeel_watch_last_event_seconds" ["kind"]
        "How long ago the most silent watch heard anything, bookmarks included";
    API_REQUESTS = Counter "evenkeel_api_requests_total" ["verb", "code"]
        "Requests to the API server by what they are for: get, list, watch, create, apply, patch, delete";
    PROVIDER_CALLS = Counter "evenkeel_provider_calls_total" ["provider", "call", "result"]
        "Questions and operations that plugins gave to a provider: ok, trouble where the outside world could not be asked or would not, failed where the plugin asked for what cannot be";
    PROVIDER_SECONDS = Histogram "evenkeel_provider_call_seconds" ["provider", "call"]
        "How long a question or an operation took";
    PROVIDER_REQUESTS = Counter "evenkeel_provider_requests_total" ["provider", "server", "method", "result"]
        "Requests of a provider to the systems of its configuration: ok, or failed where no result came";
    PROVIDER_WATCHED = Gauge "evenkeel_provider_watched" ["provider", "server"]
        "Objects out there whose changes wake the passes that rest on them";
    EVENTS_DROPPED = Counter "evenkeel_events_dropped_total" []
        "Kubernetes Events not sent, because there were too many about one object";
    JOURNAL_RECORDS = Gauge "evenkeel_journal_records" []
        "Passes that the journal holds in memory";
    JOURNAL_BYTES = Gauge "evenkeel_journal_bytes" []
        "Bytes that they take, about";
    JOURNAL_DROPPED = Counter "evenkeel_journal_dropped_total" []
        "Passes that the journal's file could not take in time";

    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "Processor time that the host used, user and system";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" []
        "Memory of the host that is resident";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Open file descriptors of the host";
}

impl Metric {
    /// The name without the ending that the text format gives to counters by itself.
    pub(crate) fn stem(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// The names of its series: a histogram has three.
    pub fn series(&self) -> Vec<String> {
        match self.kind {
            Kind::Counter | Kind::Gauge => vec![self.name.to_owned()],
            Kind::Histogram => {
                ["_bucket", "_sum", "_count"].iter().map(|end| format!("{}{end}", self.name)).collect()
            }
        }
    }
}

/// A table of all metrics, in Markdown: a part of the operators' guide.
pub fn table() -> String {
    let mut text = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in ALL {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let Metric { name, kind, help, labels: _ } = metric;
        text.push_str(&format!("| `{name}` | {} | {} | {help} |\n", kind.word(), labels.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_say_the_unit_and_counters_say_that_they_count() {
        let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "each name once");
        for metric in ALL {
            let total = metric.name.ends_with("_total");
            assert_eq!(total, metric.kind == Kind::Counter, "{}", metric.name);
            let timed = metric.kind != Kind::Histogram || metric.name.ends_with("_seconds");
            assert!(timed, "{} is a histogram of something other than seconds", metric.name);
            assert!(!metric.help.ends_with('.') && !metric.help.is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn no_label_could_hold_the_name_of_an_object() {
        let closed = [
            "controller",
            "result",
            "name",
            "code",
            "method",
            "host",
            "verb",
            "plugin",
            "reason",
            "version",
            "digest",
            "trouble",
            "action",
            "kind",
            "provider",
            "call",
            "server",
        ];
        let open: Vec<_> =
            ALL.iter().flat_map(|metric| metric.labels).filter(|label| !closed.contains(label)).collect();
        assert!(open.is_empty(), "not among the closed sets: {open:?}");
    }
}
