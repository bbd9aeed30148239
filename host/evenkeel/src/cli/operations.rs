//! What operators need of a host that stays up: metrics, probes, and one of several hosts that acts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use evenkeel_admin::address::BindAddress;
use evenkeel_admin::leader::Leadership;
use evenkeel_admin::metrics::Metrics;
use evenkeel_admin::pages::Pages;
use evenkeel_admin::server::{self, Serves, Serving};
use evenkeel_admin::traces::{self, Endpoint, Exporting, Service};
use evenkeel_cluster::Cluster;
use evenkeel_cluster::election::{Election, ElectionOptions};
use evenkeel_core::lease::Timings;
use evenkeel_engine::clock::{Clock as _, SystemClock};
use evenkeel_engine::provider::Providers;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_runtime::Runtime;

use super::serving::{self, GRACE};
use super::values;
use crate::output::note;

/// Where a host shows itself.
#[derive(Clone, Debug, clap::Args)]
pub struct AdminArgs {
    /// Serve `/metrics` there: `:8080`, `127.0.0.1:8080`, or 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = "0", help_heading = "Operations")]
    metrics_bind_address: BindAddress,
    /// Serve `/livez` and `/readyz` there; they name the watch that stands still and the plugin that is held.
    #[arg(long, value_name = "ADDRESS", default_value = "0", help_heading = "Operations")]
    health_probe_bind_address: BindAddress,
    /// Send a span for each pass to the OpenTelemetry collector there (OTLP over HTTP), as in `http://localhost:4318`.
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", help_heading = "Operations")]
    otlp_endpoint: Option<Endpoint>,
}

/// How several hosts share one task.
#[derive(Clone, Debug, clap::Args)]
pub struct ElectionArgs {
    /// Act only while this host holds a Lease; until then stand by, with caches filled and plugins compiled.
    #[arg(long, help_heading = "Operations")]
    leader_elect: bool,
    /// The Lease that hosts share of which exactly one is to act.
    #[arg(long, value_name = "NAME", default_value = "evenkeel", value_parser = values::subdomain, help_heading = "Operations")]
    leader_elect_resource_name: String,
    /// The namespace of the Lease; that of the kubeconfig or of the Pod where absent.
    #[arg(long, value_name = "NAMESPACE", value_parser = values::namespace, help_heading = "Operations")]
    leader_elect_resource_namespace: Option<String>,
}

/// Everything that is attached to a host before it starts.
pub struct Operations {
    metrics: Arc<Metrics>,
    election: Option<(String, Election)>,
    instance: String,
}

/// The same, once the host runs.
pub struct Operated {
    host: Host,
    metrics: Arc<Metrics>,
    pages: Arc<Pages>,
    leadership: Option<Leadership>,
    _servers: Vec<Serving>,
    _traces: Option<Exporting>,
}

impl Operations {
    /// Prepares a host on this API server that acts alone.
    pub fn alone(api_server: &http::Uri) -> Self {
        let authority = api_server.authority().map_or("in-process", |authority| authority.as_str());
        Self { metrics: Metrics::new(authority), election: None, instance: String::new() }
    }

    /// Has the host act only while it holds the Lease, if that is asked for. `namespace` is the default for the Lease.
    pub fn under_election(
        mut self,
        args: &ElectionArgs,
        client: kube::Client,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        if !args.leader_elect {
            return Ok(self);
        }
        let chance = chance();
        self.instance = machine();
        let options = ElectionOptions {
            namespace: args.leader_elect_resource_namespace.clone().unwrap_or_else(|| namespace.to_owned()),
            name: args.leader_elect_resource_name.clone(),
            // A container that starts again has the same host name, and is another process.
            identity: format!("{}_{chance:016x}", self.instance),
            timings: Timings::default(),
            seed: chance,
            clock: Arc::new(|| SystemClock.now()),
            on_request: Some(self.metrics.on_request()),
        };
        let election = Election::start(client, options).context("cannot stand for election")?;
        self.election = Some((args.leader_elect_resource_name.clone(), election));
        Ok(self)
    }

    /// The same providers, with what goes to them counted.
    pub fn counted(&self, providers: Providers) -> Providers {
        providers.observed_by(self.metrics.on_provider_call())
    }

    /// What a host has to be started with.
    pub fn options(&self, client: kube::Client) -> HostOptions {
        HostOptions {
            observer: Some(self.metrics.clone()),
            on_request: Some(self.metrics.on_request()),
            fence: self.election.as_ref().map(|(_, election)| election.fence()),
            instance: self.instance.clone(),
            ..HostOptions::new(client)
        }
    }

    /// Serves its pages, and has it follow the election. `awaits_files` says that it has a folder of plugins.
    pub async fn serve(self, host: Host, args: &AdminArgs, awaits_files: bool) -> anyhow::Result<Operated> {
        let Self { metrics, election, instance: _ } = self;
        let traces = args.otlp_endpoint.clone().map(|endpoint| {
            let service = Service { version: env!("CARGO_PKG_VERSION").to_owned(), instance: machine() };
            traces::export(host.journal().subscribe(), endpoint, service, chance())
        });
        let standing = election.as_ref().map(|(lease, election)| (lease.clone(), election.standing()));
        let pages = Pages::new(host.clone(), Arc::clone(&metrics), awaits_files, standing);
        let servers = serve(args, &pages).await?;
        let leadership = election.map(|(_, election)| Leadership::follow(host.clone(), election));
        Ok(Operated { host, metrics, pages, leadership, _servers: servers, _traces: traces })
    }
}

impl Operated {
    /// The way to the API server.
    pub fn cluster(&self) -> &Cluster {
        self.host.cluster()
    }

    /// Loads the plugins of a folder and follows its changes.
    pub async fn follow(
        &self,
        runtime: &Arc<Runtime>,
        folder: &Path,
    ) -> anyhow::Result<Arc<evenkeel_engine::directory::Directory>> {
        let directory = serving::follow(&self.host, runtime, folder, Some(Arc::clone(&self.metrics))).await?;
        let directory = Arc::new(directory);
        self.pages.files(Arc::clone(&directory));
        Ok(directory)
    }

    /// Lets passes under way finish, hands the Lease over, and stops. Says whether all of them finished in time.
    pub async fn stop(self) -> bool {
        let finished = match self.leadership {
            Some(leadership) => leadership.shut_down(&self.host, GRACE).await,
            None => self.host.shutdown(GRACE).await,
        };
        serving::warn_unless(finished);
        finished
    }
}

/// One server for both kinds of page where both have the same address, else one each.
async fn serve(args: &AdminArgs, pages: &Arc<Pages>) -> anyhow::Result<Vec<Serving>> {
    let (metrics, probes) =
        (args.metrics_bind_address.listen_on(), args.health_probe_bind_address.listen_on());
    let wanted = match (metrics, probes) {
        (Some(both), Some(same)) if both == same => vec![(both, Serves { metrics: true, probes: true })],
        (metrics, probes) => {
            let metrics = metrics.map(|address| (address, Serves { metrics: true, probes: false }));
            let probes = probes.map(|address| (address, Serves { metrics: false, probes: true }));
            metrics.into_iter().chain(probes).collect()
        }
    };
    let mut servers = Vec::new();
    for (address, serves) in wanted {
        let server = server::serve(address, Arc::clone(pages), serves)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        for (page, served) in [("/metrics", serves.metrics), ("/livez and /readyz", serves.probes)] {
            if served {
                note!("Serving {page} on http://{}", server.address);
            }
        }
        servers.push(server);
    }
    Ok(servers)
}

/// The machine's name: a Pod's, in a cluster.
fn machine() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let read = || std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned());
    named.or_else(read).filter(|name| !name.is_empty()).unwrap_or_else(|| "evenkeel".into())
}

/// A number that no other process has: which of two hosts is which must never depend on a seed.
fn chance() -> u64 {
    // The only randomness of the standard library: it comes from the operating system.
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The Deployment of `deploy/base`.
    fn deployment() -> serde_json::Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/deployment.yaml");
        serde_saphyr::from_str(&std::fs::read_to_string(path).expect("deploy/base")).expect("YAML")
    }

    #[test]
    fn the_deployment_starts_the_host_with_flags_that_it_has() {
        let deployment = deployment();
        let args =
            deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().expect("args").clone();
        let words = args.iter().map(|arg| arg.as_str().expect("a word"));
        let cli = crate::cli::Cli::try_parse_from(std::iter::once("evenkeel").chain(words))
            .expect("flags that exist");
        let text = format!("{cli:?}");
        for part in
            ["leader_elect: true", "[::]:8080", "[::]:8081", "leader_elect_resource_name: \"evenkeel\""]
        {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn no_two_processes_have_one_identity() {
        assert_ne!(chance(), chance());
        assert!(!machine().is_empty());
    }
}
