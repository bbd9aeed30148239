//! What is counted when somebody asks: from the state of the host as it is then.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_cluster::{ClusterHealth, ClusterStats, WatchHealth, WatchState};
use evenkeel_engine::Host;
use evenkeel_engine::measures::Measures;
use evenkeel_engine::provider::FarEnd;
use evenkeel_engine::status::{ControllerStatus, HostStatus, PluginState, PluginStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Leads;
use super::catalogue::{self as names, Kind, Metric};
use super::labels::controller_label;

/// Numbers of one moment, in the order of the catalogue.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    rows: Vec<(Metric, Vec<Row>)>,
}

#[derive(Debug)]
struct Row {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Snapshot {
    pub(super) fn of(host: &Host, measures: &Measures, leads: Option<&Leads>) -> Self {
        let status = host.status();
        let mut snapshot = Self::default();
        snapshot.controllers(measures);
        snapshot.plugins(&status);
        snapshot.kinds(&host.cluster().stats());
        snapshot.watches(&host.cluster().health());
        snapshot.far_ends(&host.providers().far_ends());
        let journal = status.journal;
        snapshot.one(names::JOURNAL_RECORDS, number(journal.records));
        snapshot.one(names::JOURNAL_BYTES, number(journal.bytes));
        snapshot.one(names::JOURNAL_DROPPED, whole(journal.dropped));
        let leads = leads.map(|leads| (vec![leads.lease.clone()], flag(leads.leads)));
        snapshot.add(names::LEADER, leads);
        snapshot
    }

    /// Adds a metric with its series: the values of its labels in order, and the number.
    fn add(&mut self, metric: Metric, series: impl IntoIterator<Item = (Vec<String>, f64)>) {
        let row = |(values, value): (Vec<String>, f64)| Row {
            labels: metric.labels.iter().copied().zip(values).collect(),
            value,
        };
        self.rows.push((metric, series.into_iter().map(row).collect()));
    }

    fn one(&mut self, metric: Metric, value: f64) {
        self.add(metric, [(Vec::new(), value)]);
    }

    fn controllers(&mut self, measures: &Measures) {
        let each = |queue: bool, of: &dyn Fn(&evenkeel_engine::measures::ControllerMeasures) -> f64| {
            let series = measures.controllers.iter().map(|one| {
                let label = controller_label(&one.plugin, &one.controller);
                let labels = if queue { vec![label.clone(), label] } else { vec![label] };
                (labels, of(one))
            });
            series.collect::<Vec<_>>()
        };
        self.add(names::RECONCILE_MAX, each(false, &|_| number(measures.workers)));
        self.add(names::RECONCILE_ACTIVE, each(false, &|one| number(one.active)));
        self.add(names::QUEUE_DEPTH, each(true, &|one| number(one.depth)));
        self.add(names::QUEUE_ADDS, each(true, &|one| whole(one.adds)));
        self.add(names::QUEUE_UNFINISHED, each(true, &|one| one.unfinished.as_secs_f64()));
        self.add(names::QUEUE_LONGEST, each(true, &|one| one.longest.as_secs_f64()));
    }

    fn plugins(&mut self, status: &HostStatus) {
        let each = |of: &dyn Fn(&PluginStatus) -> f64| {
            status.plugins.iter().map(|plugin| (vec![plugin.name.clone()], of(plugin))).collect::<Vec<_>>()
        };
        self.add(
            names::PLUGIN_INFO,
            status.plugins.iter().map(|plugin| {
                (vec![plugin.name.clone(), plugin.version.clone(), plugin.digest.clone()], 1.0)
            }),
        );
        self.add(names::PLUGIN_HELD, each(&|plugin| flag(plugin.state != PluginState::Active)));
        self.add(names::PLUGIN_REFUSED, each(&|plugin| flag(plugin.refused.is_some())));
        let controllers: Vec<(&PluginStatus, &ControllerStatus)> = status
            .plugins
            .iter()
            .flat_map(|plugin| plugin.controllers.iter().map(move |controller| (plugin, controller)))
            .collect();
        let label = |plugin: &PluginStatus, one: &ControllerStatus| controller_label(&plugin.name, &one.name);
        let keys = controllers
            .iter()
            .map(|(plugin, one)| (vec![plugin.name.clone(), label(plugin, one)], number(one.keys)));
        self.add(names::KEYS, keys);
        let troubled = controllers.iter().flat_map(|(plugin, one)| {
            let troubles = [("failing", one.failing), ("paused", one.paused), ("waiting", one.waiting)];
            troubles.map(|(trouble, keys)| {
                (vec![plugin.name.clone(), label(plugin, one), trouble.to_owned()], number(keys))
            })
        });
        self.add(names::KEYS_TROUBLED, troubled);
        let slowed =
            controllers.iter().map(|(plugin, one)| (vec![label(plugin, one)], number(one.slowed.len())));
        self.add(names::BREAKER, slowed);
    }

    fn kinds(&mut self, stats: &ClusterStats) {
        // Two versions of one kind are one kind here.
        let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for kind in &stats.kinds {
            let (objects, bytes) = kinds.entry(kind.gvk.to_string()).or_default();
            *objects += kind.objects;
            *bytes += kind.bytes;
        }
        let each = |of: &dyn Fn(&(usize, usize)) -> usize| {
            kinds.iter().map(|(kind, sizes)| (vec![kind.clone()], number(of(sizes)))).collect::<Vec<_>>()
        };
        self.add(names::CACHE_OBJECTS, each(&|sizes| sizes.0));
        self.add(names::CACHE_BYTES, each(&|sizes| sizes.1));
        self.one(names::EVENTS_DROPPED, whole(stats.events_dropped));
    }

    fn watches(&mut self, health: &ClusterHealth) {
        let mut kinds: BTreeMap<String, Watches> = BTreeMap::new();
        for watch in &health.watches {
            kinds.entry(watch.gvk.to_string()).or_default().count(watch);
        }
        let each = |of: &dyn Fn(&Watches) -> Option<f64>| {
            let series = kinds.iter().filter_map(|(kind, watches)| Some((vec![kind.clone()], of(watches)?)));
            series.collect::<Vec<_>>()
        };
        self.add(names::WATCH_INTENDED, each(&|watches| Some(number(watches.intended))));
        self.add(names::WATCH_ACTIVE, each(&|watches| Some(number(watches.active))));
        self.add(names::WATCH_STALLED, each(&|watches| Some(number(watches.stalled))));
        self.add(names::WATCH_LAST_EVENT, each(&|watches| watches.silent.map(|age| age.as_secs_f64())));
    }
}

impl Snapshot {
    fn far_ends(&mut self, far_ends: &[(&str, FarEnd)]) {
        let label = |(provider, end): &(&str, FarEnd)| vec![(*provider).to_owned(), end.name.clone()];
        let requests = far_ends.iter().flat_map(|one| {
            one.1.requests.iter().flat_map(move |(method, count)| {
                let of = |result: &str, value| {
                    let mut labels = label(one);
                    labels.extend([(*method).to_owned(), result.to_owned()]);
                    (labels, whole(value))
                };
                [of("ok", count.calls.saturating_sub(count.failures)), of("failed", count.failures)]
            })
        });
        self.add(names::PROVIDER_REQUESTS, requests);
        self.add(names::PROVIDER_WATCHED, far_ends.iter().map(|one| (label(one), number(one.1.watched))));
    }
}

/// The watches of one kind.
#[derive(Default)]
struct Watches {
    intended: usize,
    active: usize,
    stalled: usize,
    /// Of the most silent one; none where none heard anything yet.
    silent: Option<Duration>,
}

impl Watches {
    fn count(&mut self, watch: &WatchHealth) {
        if matches!(watch.state, WatchState::Unserved | WatchState::Empty) {
            // There is nothing to watch.
            return;
        }
        self.intended += 1;
        self.active += usize::from(watch.synced && !watch.stalled && watch.trouble.is_none());
        self.stalled += usize::from(watch.stalled);
        self.silent = self.silent.max(watch.last_event_age);
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (metric, rows) in &self.rows {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge | Kind::Histogram => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(metric.stem(), metric.help, None, kind)?;
            for Row { labels, value } in rows {
                let series = family.encode_family(labels)?;
                match metric.kind {
                    Kind::Counter => ConstCounter::new(*value).encode(series)?,
                    Kind::Gauge | Kind::Histogram => ConstGauge::new(*value).encode(series)?,
                }
            }
        }
        Ok(())
    }
}

fn flag(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

fn number(count: usize) -> f64 {
    whole(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Prometheus has no other numbers; past 2^53 the last digits go.
#[allow(clippy::cast_precision_loss)]
fn whole(count: u64) -> f64 {
    count as f64
}
