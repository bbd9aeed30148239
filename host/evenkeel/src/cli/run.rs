//! `evenkeel run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use evenkeel_cluster::Cluster;
use evenkeel_engine::directory::FileStatus;
use evenkeel_engine::{Host, HostOptions};

use super::operations::{AdminArgs, ElectionArgs, Operations};
use super::providers::ProvidersArgs;
use super::serving::{self, DataArgs};
use super::{Exit, kubeconfig, plugin, values};
use crate::output::{self, Paint, note};

/// Between two tries to reach an API server that does not answer.
const RETRY: Duration = Duration::from_secs(5);

/// Run plugins against a cluster
///
/// Takes the cluster of the kubeconfig, or the one that it runs in. The folder of plugins is followed: files that appear,
/// change or vanish are loaded, swapped and unloaded without a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel run --plugins plugins
  evenkeel run --plugins plugins --context staging --install-crds
  evenkeel run --plugins plugins --providers providers.yaml
  evenkeel run --plugins plugins --leader-elect \\
    --metrics-bind-address :8080 --health-probe-bind-address :8081")]
pub struct RunArgs {
    /// Folder of plugins (`*.wasm`, each with an optional `.yaml` of settings).
    #[arg(long, value_name = "DIR")]
    plugins: PathBuf,
    /// The kubeconfig; `KUBECONFIG`, `~/.kube/config` or the cluster around where absent.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// Apply the CustomResourceDefinitions that plugins bring along.
    #[arg(long)]
    install_crds: bool,
    /// Passes that run at once, at most.
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = values::at_least_one)]
    workers: usize,
    #[command(flatten)]
    providers: ProvidersArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    election: ElectionArgs,
}

pub fn run(args: RunArgs) -> anyhow::Result<Exit> {
    let runtime = Arc::new(plugin::runtime()?);
    plugin::block_on(async {
        let mut config = kubeconfig::config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        // The engine tries again by itself, later where the server says so, and with a free worker meanwhile.
        config.default_retry = false;
        let client =
            kube::Client::try_from(config.clone()).context("cannot set up a client for the cluster")?;
        let operations = Operations::alone(&config.cluster_url).under_election(
            &args.election,
            client.clone(),
            &config.default_namespace,
        )?;
        let providers = operations.counted(args.providers.make(&client)?);
        let options = operations.options(client.clone());
        let writer = options.fence.as_ref().map(|fence| fence.client(config.clone())).transpose();
        let host = Host::start(HostOptions {
            writer: writer.context("cannot set up a client for writes")?,
            providers,
            journal: args.data.journal(),
            install_crds: args.install_crds,
            workers: args.workers,
            streaming_lists: true,
            aggregated_discovery: true,
            ..options
        })?;
        // Before the API server is waited for: the probes say that it is.
        let operated = operations.serve(host, &args.admin, true).await?;
        if !reached(operated.cluster(), &config).await? {
            operated.stop().await;
            return Ok(Exit::Fine);
        }
        let directory = operated.follow(&runtime, &args.plugins).await?;
        note!("Running plugins of {} against {}", args.plugins.display(), config.cluster_url);
        show_files(&directory.files());
        serving::interrupted().await?;
        Ok(if operated.stop().await { Exit::Fine } else { Exit::Found })
    })
}

/// Waits until the API server answers, and says what it waits for. False where it was interrupted meanwhile.
async fn reached(cluster: &Cluster, config: &kube::Config) -> anyhow::Result<bool> {
    loop {
        let Err(error) = cluster.reach().await else { return Ok(true) };
        note!(
            "The API server {} does not answer; trying again every {} s ({})",
            config.cluster_url,
            RETRY.as_secs(),
            root(&error)
        );
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            outcome = serving::interrupted() => {
                outcome?;
                return Ok(false);
            }
        }
    }
}

/// The innermost cause: what the network said.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// What a folder of plugins holds, a line a file.
pub fn show_files(files: &[FileStatus]) {
    let colour = output::colour_stderr();
    for file in files {
        let plugin = file.plugin.as_deref().unwrap_or("no plugin");
        match &file.refused {
            None => {
                note!("  {} {plugin} from {}", output::paint("loaded", Paint::Good, colour), file.file)
            }
            Some(reason) => {
                note!("  {} {}: {reason}", output::paint("refused", Paint::Bad, colour), file.file)
            }
        }
    }
}
