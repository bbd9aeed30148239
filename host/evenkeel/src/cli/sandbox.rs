//! `evenkeel sandbox`.

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_engine::{Host, HostOptions};

use super::operations::{AdminArgs, Operations};
use super::providers::ProvidersArgs;
use super::serving::{self, DataArgs, Server};
use super::{Exit, plugin};
use crate::output::{self, Format, say};

/// Run an embedded Kubernetes for kubectl, with plugins on it
///
/// For trying things: everybody may do everything on it, it listens on loopback, and nothing runs a pod.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel sandbox
  evenkeel sandbox --plugins target/plugins --stand-ins kubevirt,cdi
  evenkeel sandbox --keep cluster.data
  KUBECONFIG=.evenkeel/kubeconfig kubectl get namespaces")]
pub struct SandboxArgs {
    /// Folder of plugins (`*.wasm`, each with an optional `.yaml` of settings); changes are followed.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Port on loopback; 0 for any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Stand-ins for systems that are not Kubernetes (kubevirt, cdi): their kinds are served, and they act.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    stand_ins: Vec<String>,
    /// Keep what is in it in this file: a later start finds it again, also after a crash.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// The form of the first lines.
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    providers: ProvidersArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

pub fn run(args: SandboxArgs) -> anyhow::Result<Exit> {
    let runtime = Arc::new(plugin::runtime()?);
    plugin::block_on(async {
        let server =
            Server::start(&args.data.data_dir, args.port, &args.stand_ins, args.keep.as_deref()).await?;
        let url = format!("https://{}", server.listening.address).parse()?;
        let operations = Operations::alone(&url);
        let providers = operations.counted(args.providers.make(&server.client())?);
        let host = Host::start(HostOptions {
            providers,
            journal: args.data.journal(),
            install_crds: true,
            ..operations.options(server.client())
        })?;
        server.write_kubeconfig()?;
        let operated = operations.serve(host, &args.admin, args.plugins.is_some()).await?;
        let directory = match &args.plugins {
            Some(folder) => Some(operated.follow(&runtime, folder).await?),
            None => None,
        };
        let files = directory.as_ref().map(|directory| directory.files()).unwrap_or_default();
        match args.output {
            Format::Json => output::json(&serde_json::json!({
                "address": server.listening.address.to_string(), "kubeconfig": server.kubeconfig, "plugins": files,
            }))?,
            Format::Text => {
                say!("An embedded Kubernetes listens on https://{}", server.listening.address)?;
                output::kubeconfig(&server.kubeconfig)?;
                super::run::show_files(&files);
                say!("Stop it with Ctrl-C.")?;
            }
        }
        serving::interrupted().await?;
        operated.stop().await;
        Ok(Exit::Fine)
    })
}
