//! Every metric of the catalogue is exported, none besides, and no object is named in any.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_admin::metrics::catalogue::{self, Kind};
use evenkeel_admin::metrics::{Leads, Metrics};
use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, ObjectRef, Operation};
use evenkeel_engine::clock::VirtualClock;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::provider::{Caller, Count, FarEnd, Provider, ProviderFuture, Providers};
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::Sandbox;

use crate::plugin::{Copier, config_map, config_maps, sandbox, settle};

/// Objects have this in their names, and nothing else has.
const MARK: &str = "zebra";

/// A cloud with one VM, and a question that cannot be.
struct Cloud;

impl Provider for Cloud {
    fn answer<'a>(&'a self, _: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(std::future::ready(match query.question.as_str() {
            "vm" => Ok("here".into()),
            "no-vm" => Ok("trouble".into()),
            _ => Err(Failure::new(FailureKind::Invalid, "no such question")),
        }))
    }

    fn perform<'a>(&'a self, _: &'a Caller, _: &'a Operation) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn calls(&self) -> &'static [&'static str] {
        &["vm", "no-vm"]
    }

    fn is_trouble(&self, answer: &str) -> bool {
        answer == "trouble"
    }

    fn far_ends(&self) -> Vec<FarEnd> {
        let requests = BTreeMap::from([("Login", Count { calls: 3, failures: 1 })]);
        vec![FarEnd { name: "vc.example.test".into(), requests, watched: 5 }]
    }
}

struct World {
    sandbox: Sandbox,
    host: Host,
    metrics: Arc<Metrics>,
}

impl World {
    async fn new() -> Self {
        let clock = VirtualClock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let sandbox = sandbox(move || evenkeel_engine::clock::Clock::now(&clock));
        let metrics = Metrics::new("api.example:6443");
        let client = kube::Client::new(sandbox.service(), "default");
        let options = HostOptions {
            clock: Arc::new(clock),
            workers: 4,
            observer: Some(metrics.clone()),
            on_request: Some(metrics.on_request()),
            providers: Providers::default()
                .with("cloud", Arc::new(Cloud))
                .observed_by(metrics.on_provider_call()),
            ..HostOptions::new(client)
        };
        let host = Host::start(options).expect("a host");
        host.load(Copier::new(), PluginSettings::default()).await.expect("a plugin that loads");
        metrics.compiled("demo", Duration::from_millis(300));
        Self { sandbox, host, metrics }
    }

    /// One object for each thing that can become of a pass.
    async fn worked() -> Self {
        let world = Self::new().await;
        for mode in ["plain", "later", "trap", "slow", "greedy", "garbled", "failing", "curious", "wrong"] {
            world.sandbox.put(config_map(&format!("{MARK}-{mode}"), mode)).expect("an object");
        }
        settle(&world.host).await;
        for question in ["vm", "no-vm", "wrong", MARK] {
            world.ask(question).await;
        }
        world
    }

    /// Asks the cloud, as a plugin would.
    async fn ask(&self, question: &str) {
        let object = ObjectRef::new(config_maps(), Some("a"), MARK);
        let caller = Caller { plugin: "demo".into(), object, uid: None };
        let query =
            ExternalQuery { provider: "cloud".into(), question: question.into(), arguments: "{}".into() };
        let _ = self.host.providers().answer(&caller, &query).await;
    }

    fn series(&self) -> Series {
        let leads = Leads { lease: "evenkeel".into(), leads: true };
        Series::parse(&self.metrics.text(&self.host, Some(&leads)))
    }
}

/// The text, read.
struct Series {
    kinds: BTreeMap<String, String>,
    values: BTreeMap<String, f64>,
}

impl Series {
    fn parse(text: &str) -> Self {
        let (mut kinds, mut values) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a name and a kind");
                assert_eq!(kinds.insert(name.to_owned(), kind.to_owned()), None, "{name} stands there twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a number");
                let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
                assert_eq!(values.insert(series.to_owned(), value), None, "{series} stands there twice");
            }
        }
        Self { kinds, values }
    }

    /// Of a series, as in `name{label="value"}`.
    fn value(&self, series: &str) -> f64 {
        *self.values.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.values))
    }

    /// The label names of each series of a name.
    fn labels(&self, name: &str) -> BTreeSet<Vec<String>> {
        let of_name = self.values.keys().filter(|series| series.split('{').next() == Some(name));
        of_name
            .map(|series| {
                let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
                let names =
                    labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name);
                names.filter(|name| *name != "le").map(str::to_owned).collect()
            })
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_the_catalogue_is_exported_with_its_labels() {
    let series = World::worked().await.series();
    for metric in catalogue::ALL {
        assert_eq!(
            series.kinds.get(metric.name).map(String::as_str),
            Some(metric.kind.word()),
            "{}",
            metric.name
        );
        let wanted: Vec<String> = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        for name in metric.series() {
            assert_eq!(series.labels(&name), BTreeSet::from([wanted.clone()]), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_providers_is_counted_by_names_that_they_know() {
    let series = World::worked().await.series();
    for (labels, count) in [
        ("{provider=\"cloud\",call=\"vm\",result=\"ok\"}", 1.0),
        ("{provider=\"cloud\",call=\"no-vm\",result=\"trouble\"}", 1.0),
        ("{provider=\"cloud\",call=\"other\",result=\"failed\"}", 2.0),
    ] {
        assert_eq!(series.value(&format!("evenkeel_provider_calls_total{labels}")), count, "{labels}");
    }
    let server = "provider=\"cloud\",server=\"vc.example.test\"";
    let requests = |result: &str| {
        format!("evenkeel_provider_requests_total{{{server},method=\"Login\",result=\"{result}\"}}")
    };
    assert_eq!((series.value(&requests("ok")), series.value(&requests("failed"))), (2.0, 1.0));
    assert_eq!(series.value(&format!("evenkeel_provider_watched{{{server}}}")), 5.0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_exported_that_the_catalogue_does_not_have() {
    let series = World::worked().await.series();
    let known: BTreeSet<String> = catalogue::ALL.iter().flat_map(catalogue::Metric::series).collect();
    let names: BTreeSet<&str> = series.values.keys().filter_map(|series| series.split('{').next()).collect();
    let strange: Vec<_> = names.into_iter().filter(|name| !known.contains(*name)).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[tokio::test(start_paused = true)]
async fn no_object_is_ever_named() {
    let world = World::worked().await;
    let text = world.metrics.text(&world.host, None);
    assert!(world.host.journal().records().iter().any(|record| record.key.name.contains(MARK)), "it worked");
    assert!(!text.contains(MARK), "{text}");
    let mut lines = Vec::new();
    for hundred in 0..3 {
        for number in 0..100 {
            let name = format!("{MARK}-{hundred}-{number}");
            world.sandbox.put(config_map(&name, "plain")).expect("an object");
        }
        settle(&world.host).await;
        lines.push(world.metrics.text(&world.host, None).lines().count());
    }
    assert_eq!(lines[1], lines[2], "series grow with the objects");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_passes_calls_and_actions_is_counted() {
    let series = World::worked().await.series();
    let controller = r#"controller="demo/copy""#;
    let both = r#"plugin="demo",controller="demo/copy""#;
    let at_least = |name: &str, labels: &str, count: f64| {
        let value = series.value(&format!("{name}{{{labels}}}"));
        assert!(value >= count, "{name}{{{labels}}} is {value}");
        value
    };
    at_least("controller_runtime_reconcile_total", &format!(r#"{controller},result="success""#), 1.0);
    at_least("controller_runtime_reconcile_total", &format!(r#"{controller},result="requeue_after""#), 1.0);
    let errors =
        at_least("controller_runtime_reconcile_total", &format!(r#"{controller},result="error""#), 7.0);
    assert_eq!(series.value(&format!("controller_runtime_reconcile_errors_total{{{controller}}}")), errors);
    at_least("controller_runtime_terminal_reconcile_errors_total", controller, 1.0);
    let retries = at_least("workqueue_retries_total", &format!(r#"name="demo/copy",{controller}"#), 5.0);
    assert!(retries <= errors);
    for (result, count) in
        [("ok", 3.0), ("trap", 1.0), ("timeout", 1.0), ("memory", 1.0), ("invalid", 1.0), ("denied", 1.0)]
    {
        at_least("evenkeel_plugin_calls_total", &format!(r#"{both},result="{result}""#), count);
    }
    for (result, count) in [("sent", 2.0), ("denied", 1.0), ("failed", 1.0)] {
        at_least("evenkeel_actions_total", &format!(r#"{both},action="apply",result="{result}""#), count);
    }
    assert_eq!(series.value("leader_election_master_status{name=\"evenkeel\"}"), 1.0);
    assert_eq!(series.value("evenkeel_cache_objects{kind=\"ConfigMap\"}"), 11.0);
    assert_eq!(series.value(&format!("evenkeel_keys{{{both}}}")), 9.0);
    assert_eq!(series.value("evenkeel_plugin_memory_peak_bytes{plugin=\"demo\"}"), 1_048_576.0);
    let patches: f64 = series
        .values
        .iter()
        .filter(|(series, _)| {
            series.starts_with("rest_client_requests_total") && series.contains(r#"method="PATCH""#)
        })
        .map(|(_, count)| count)
        .sum();
    assert!(patches >= 3.0, "two copies, and one that was refused: {patches}");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_line_and_at_work_is_measured_when_somebody_asks() {
    let world = World::new().await;
    let copier = Copier::new();
    let gate = copier.gate.clone();
    gate.forget_permits(1);
    world.host.unload("demo");
    world.host.load(copier, PluginSettings::default()).await.expect("a plugin that loads");
    for number in 0..10 {
        world.sandbox.put(config_map(&format!("{MARK}-{number}"), "plain")).expect("an object");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let queue = r#"{name="demo/copy",controller="demo/copy"}"#;
    let series = world.series();
    assert_eq!(series.value(r#"controller_runtime_active_workers{controller="demo/copy"}"#), 4.0);
    assert_eq!(series.value(r#"controller_runtime_max_concurrent_reconciles{controller="demo/copy"}"#), 4.0);
    assert_eq!(series.value(&format!("workqueue_depth{queue}")), 6.0);
    assert_eq!(series.value(&format!("workqueue_adds_total{queue}")), 10.0);
    let longest = series.value(&format!("workqueue_longest_running_processor_seconds{queue}"));
    assert!((4.9..=5.0).contains(&longest), "{longest}");
    let unfinished = series.value(&format!("workqueue_unfinished_work_seconds{queue}"));
    assert!((19.0..=20.0).contains(&unfinished), "{unfinished}");
    gate.add_permits(1);
    settle(&world.host).await;
    let series = world.series();
    assert_eq!(series.value(&format!("workqueue_depth{queue}")), 0.0);
    // Each copy that appears has its original looked at once more.
    assert!(series.value(&format!("workqueue_work_duration_seconds_count{queue}")) >= 10.0);
    let waited = series.value(&format!("workqueue_queue_duration_seconds_sum{queue}"));
    assert!((29.0..=31.0).contains(&waited), "six waited for five seconds: {waited}");
}

#[tokio::test(start_paused = true)]
async fn the_series_of_a_plugin_that_was_taken_out_vanish() {
    let world = World::worked().await;
    world.host.unload("demo");
    let series = world.series();
    let left: Vec<_> = series.values.keys().filter(|series| series.contains("demo")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(series.kinds.values().any(|kind| kind == Kind::Histogram.word()));
}
