//! `evenkeel demo`.

mod narrate;
mod story;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_core::guest::Guest;
use evenkeel_engine::plugin::PluginSettings;

use self::story::Stage;
use super::plugin::BuildFlags;
use super::serving::{self, DataArgs, Server};
use super::{Exit, plugin};
use crate::output::{self, Paint};

/// See Kite at work on an embedded Kubernetes
///
/// Builds Kite's plugin, starts an embedded Kubernetes with stand-ins for KubeVirt and CDI, and brings a user and a virtual
/// machine to life. It stays up for you to try kubectl on it, unless `--once` is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel demo
  evenkeel demo --once
  KUBECONFIG=.evenkeel/kubeconfig kubectl get kiteusers,kitevirtualmachines --all-namespaces")]
pub struct DemoArgs {
    /// Go through the whole life of the machine and end; exit code 1 unless every expected state was reached.
    #[arg(long)]
    once: bool,
    /// Kite's component or crate; the checkout's own where absent.
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// A folder of plugins to follow besides.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Port on loopback; 0 for any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Longest wait for one expected state, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    #[command(flatten)]
    build: BuildFlags,
    #[command(flatten)]
    data: DataArgs,
}

pub fn run(args: DemoArgs) -> anyhow::Result<Exit> {
    let kite = match &args.plugin {
        Some(path) => path.clone(),
        None => checkout()?.join("plugins/kite"),
    };
    let runtime = Arc::new(plugin::runtime()?);
    plugin::block_on(async {
        let guest: Arc<dyn Guest> = plugin::load(&runtime, &kite, &args.build).await?;
        let server =
            Server::start(&args.data.data_dir, args.port, &["kubevirt".to_owned(), "cdi".to_owned()]).await?;
        let host = serving::start_host(server.client(), args.data.journal(), true)?;
        let narrator = tokio::spawn(narrate::follow(host.subscribe(), output::colour_stdout()));
        println!("{}", heading("An embedded Kubernetes listens, with stand-ins for KubeVirt and CDI"));
        println!("  export KUBECONFIG={}", server.kubeconfig.display());
        let digest = guest.digest().to_owned();
        host.load(guest, PluginSettings::default()).await?;
        println!("{}", heading(&format!("Kite runs as a component, {}", short(&digest))));
        let _directory = match &args.plugins {
            Some(folder) => Some(serving::follow(&host, &runtime, folder, None).await?),
            None => None,
        };
        let mut stage = Stage::new(&server.sandbox, Duration::from_secs(args.timeout));
        let lived = stage.birth().await;
        let outcome = match lived {
            Ok(()) if args.once => stage.life_and_death().await,
            other => other,
        };
        if let Err(error) = outcome {
            narrator.abort();
            serving::stop(&host).await;
            eprintln!("{} {error:#}", output::paint("not reached:", Paint::Bad, output::colour_stderr()));
            return Ok(Exit::Found);
        }
        if args.once {
            println!("{}", heading(&format!("Every expected state was reached ({})", stage.reached())));
        } else {
            invite(&server);
            serving::interrupted().await?;
        }
        serving::stop(&host).await;
        narrator.abort();
        Ok(Exit::Fine)
    })
}

/// The checkout that this program was built in: it has Kite's source.
fn checkout() -> anyhow::Result<&'static Path> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the checkout has a root")?;
    if !root.join("plugins/kite/Cargo.toml").is_file() {
        bail!("the checkout that this program was built in is gone: name Kite's component with --plugin");
    }
    Ok(root)
}

fn heading(text: &str) -> String {
    output::paint(&format!("== {text}"), Paint::Bold, output::colour_stdout())
}

/// Enough of a digest to tell it from others.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

fn invite(server: &Server) {
    println!("{}", heading("Your turn; each decision is shown as it is made"));
    println!("  export KUBECONFIG={}", server.kubeconfig.display());
    for (command, what) in [
        ("kubectl get kiteusers,kitevirtualmachines -A", "the two of them"),
        ("kubectl -n tenant-ann get all,secrets,ingresses,datavolumes", "what Kite made of them"),
        ("kubectl -n tenant-ann delete service vps-web-web", "it comes back"),
        (
            "kubectl -n tenant-ann patch ktvm web --type merge -p '{\"spec\":{\"powerState\":\"Off\"}}'",
            "it stops",
        ),
        ("kubectl -n tenant-ann delete ktvm web", "clean deletion"),
        ("evenkeel explain KiteVirtualMachine web -n tenant-ann", "why it did that"),
    ] {
        println!(
            "  {command:<86} {}",
            output::paint(&format!("# {what}"), Paint::Dim, output::colour_stdout())
        );
    }
    println!("Stop it with Ctrl-C.");
}
