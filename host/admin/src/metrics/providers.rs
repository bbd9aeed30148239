//! What is counted of each question and operation that a plugin gave to a provider.

use evenkeel_engine::provider::CallReport;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::catalogue as names;
use super::labels::{ProviderCallLabels, ProviderResultLabels};
use super::{buckets, register};

/// The metrics of what goes to providers.
pub(super) struct ProviderMetrics {
    calls: Family<ProviderResultLabels, Counter>,
    seconds: Family<ProviderCallLabels, Histogram, fn() -> Histogram>,
}

impl ProviderMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let seconds = Family::new_with_constructor(buckets::requests as fn() -> Histogram);
        Self {
            calls: register(registry, &names::PROVIDER_CALLS, Family::default()),
            seconds: register(registry, &names::PROVIDER_SECONDS, seconds),
        }
    }

    /// Counts a call.
    pub(super) fn ended(&self, report: &CallReport<'_>) {
        let CallReport { provider, call, result, took } = *report;
        let provider = provider.to_owned();
        let timed = ProviderCallLabels { provider: provider.clone(), call };
        self.seconds.get_or_create(&timed).observe(took.as_secs_f64());
        self.calls.get_or_create(&ProviderResultLabels { provider, call, result: result.word() }).inc();
    }
}
