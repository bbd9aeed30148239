//! The host's metrics, in the Prometheus text format.
//!
//! Names and labels are in the [`catalogue`]. Those of controller-runtime and client-go are theirs to the letter.

mod buckets;
pub mod catalogue;
mod labels;
mod passes;
mod process;
mod providers;
mod requests;
mod scrape;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{RequestObserver, RequestReport};
use evenkeel_engine::Host;
use evenkeel_engine::observe::{LookReport, Observer};
use evenkeel_engine::provider::{CallObserver, CallReport};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::registry::{Metric as RegistryMetric, Registry};

use self::catalogue::Metric;
use self::passes::PassMetrics;
use self::providers::ProviderMetrics;
use self::requests::RequestMetrics;

/// The media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Counters and histograms of one host; it is the host's [`Observer`].
pub struct Metrics {
    registry: Registry,
    passes: PassMetrics,
    requests: RequestMetrics,
    providers: ProviderMetrics,
}

/// Which Lease says who acts, and whether this host does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The Lease's name.
    pub lease: String,
    /// Whether this host acts.
    pub leads: bool,
}

impl Metrics {
    /// All metrics, at nothing. `api_server` is the value of the label `host` of the client's metrics.
    pub fn new(api_server: &str) -> Arc<Self> {
        let mut registry = Registry::default();
        let passes = PassMetrics::register(&mut registry);
        let requests = RequestMetrics::register(&mut registry, api_server);
        let providers = ProviderMetrics::register(&mut registry);
        Arc::new(Self { registry, passes, requests, providers })
    }

    /// Counts the requests of a client.
    pub fn on_request(self: &Arc<Self>) -> RequestObserver {
        let metrics = Arc::clone(self);
        Arc::new(move |report: &RequestReport| metrics.requests.ended(report))
    }

    /// Counts what goes to providers.
    pub fn on_provider_call(self: &Arc<Self>) -> CallObserver {
        let metrics = Arc::clone(self);
        Arc::new(move |report: &CallReport<'_>| metrics.providers.ended(report))
    }

    /// A version of a plugin was loaded.
    pub fn compiled(&self, plugin: &str, took: Duration) {
        self.passes.compiled(plugin, took);
    }

    /// Everything now, as text.
    pub fn text(&self, host: &Host, leads: Option<&Leads>) -> String {
        let measures = host.measures();
        let known: BTreeSet<(&str, &str)> =
            measures.controllers.iter().map(|one| (one.plugin.as_str(), one.controller.as_str())).collect();
        self.passes.keep(&known);
        let snapshot = scrape::Snapshot::of(host, &measures, leads);
        let mut now = Registry::default();
        now.register_collector(Box::new(snapshot));
        now.register_collector(Box::new(process::Process));
        let mut text = String::new();
        for registry in [&self.registry, &now] {
            // Writing to a string fails only where a metric cannot be written at all, which the tests would show.
            if let Err(error) = prometheus_text::encode(&mut text, registry) {
                tracing::error!(%error, "metrics cannot be written");
            }
        }
        text
    }
}

impl Observer for Metrics {
    fn looked(&self, look: &LookReport<'_>) {
        self.passes.looked(look);
    }
}

/// Registers a family under its name in the catalogue.
fn register<M: RegistryMetric + Clone>(registry: &mut Registry, metric: &Metric, family: M) -> M {
    registry.register(metric.stem(), metric.help, family.clone());
    family
}
