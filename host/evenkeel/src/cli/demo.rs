//! `evenkeel demo`.

mod device_update;
mod far_end;
mod kite;
mod machine_class;
mod narrate;
mod stage;
mod vsphere_machine;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_core::guest::Guest;
use evenkeel_engine::directory::parse_settings;
use evenkeel_engine::{Host, HostOptions};
use serde_json::json;

use self::far_end::FarEnd;
use self::stage::Stage;
use super::plugin::BuildFlags;
use super::serving::{self, DATA_DIR, DataArgs, Server};
use super::{Exit, plugin};
use crate::output::{self, Paint, Unwritten, note, say};

/// See a plugin at work on an embedded Kubernetes
///
/// Builds the plugin of a family, starts an embedded Kubernetes with stand-ins for whatever else it needs, and brings a machine
/// to life. It stays up for you to try kubectl on it, unless `--once` is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel demo
  evenkeel demo --once
  evenkeel demo vsphere-machine
  evenkeel demo machine-class --vcsim --once
  evenkeel demo device-update
  KUBECONFIG=.evenkeel/kubeconfig kubectl get kiteusers,kitevirtualmachines --all-namespaces")]
pub struct DemoArgs {
    /// Whose story.
    #[arg(value_enum, default_value_t)]
    family: Family,
    /// Go through the whole life of the machine and end; exit code 1 unless every expected state was reached.
    #[arg(long)]
    once: bool,
    /// Machines become VMs of vcsim, the simulator of vCenter's own Go library: it is built once, which needs Go.
    #[arg(long)]
    vcsim: bool,
    /// The family's component or crate; the checkout's own where absent.
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

/// Whose story is told. Another one is a variant, a file beside the others, and a line in each function below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Family {
    /// Users and virtual machines on KubeVirt.
    #[default]
    Kite,
    /// Cluster API's machine, as a VM of a simulated vCenter or of vcsim.
    VsphereMachine,
    /// Gardener's machine class, on a simulated cloud or on vcsim.
    MachineClass,
    /// flightctl's device: updates of a machine, which is a folder.
    DeviceUpdate,
}

impl Family {
    /// What it is called, and the folder of its plugin below `plugins`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Kite => ("Kite", "kite"),
            Self::VsphereMachine => ("The vSphere machine", "capv-machine"),
            Self::MachineClass => ("The machine class", "machine-class"),
            Self::DeviceUpdate => ("The device update", "device-update"),
        }
    }

    /// Stand-ins for systems whose kinds it uses.
    fn stand_ins(self) -> Vec<String> {
        match self {
            Self::Kite => vec!["kubevirt".to_owned(), "cdi".to_owned()],
            Self::VsphereMachine | Self::MachineClass | Self::DeviceUpdate => Vec::new(),
        }
    }

    /// What the operator says about its plugin.
    fn settings(self) -> &'static str {
        match self {
            Self::Kite => "",
            Self::VsphereMachine => vsphere_machine::SETTINGS,
            Self::MachineClass => machine_class::SETTINGS,
            Self::DeviceUpdate => device_update::SETTINGS,
        }
    }

    /// What to try afterwards.
    fn tries(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kite => kite::TRIES,
            Self::VsphereMachine => vsphere_machine::TRIES,
            Self::MachineClass => machine_class::TRIES,
            Self::DeviceUpdate => device_update::TRIES,
        }
    }

    /// Its far end, and the sentence that says so.
    fn far_end(self, vcsim: bool) -> anyhow::Result<(FarEnd, &'static str)> {
        Ok(match (self, vcsim) {
            (Self::Kite, true) => bail!("Kite's machines are KubeVirt's: --vcsim is for the other families"),
            (Self::Kite, false) => (FarEnd::None, "stand-ins for KubeVirt and CDI"),
            (Self::DeviceUpdate, true) => {
                bail!("a device is no VM of a vCenter: --vcsim is for the other families")
            }
            (Self::DeviceUpdate, false) => (FarEnd::device()?, "a folder that is the machine"),
            (Self::VsphereMachine | Self::MachineClass, true) => (FarEnd::vcsim()?, "a vcsim"),
            (Self::VsphereMachine, false) => (FarEnd::simulated()?, "a simulated vCenter"),
            (Self::MachineClass, false) => (FarEnd::None, "a simulated cloud"),
        })
    }

    /// A machine comes to life.
    async fn birth(self, stage: &mut Stage<'_>, far_end: &FarEnd) -> anyhow::Result<()> {
        match self {
            Self::Kite => kite::birth(stage).await,
            Self::VsphereMachine => vsphere_machine::birth(stage, far_end).await,
            Self::MachineClass => machine_class::birth(stage, far_end).await,
            Self::DeviceUpdate => device_update::birth(stage, far_end).await,
        }
    }

    /// It is meddled with, and goes.
    async fn life_and_death(
        self,
        stage: &mut Stage<'_>,
        far_end: &FarEnd,
        host: &Host,
    ) -> anyhow::Result<()> {
        match self {
            Self::Kite => kite::life_and_death(stage).await,
            Self::VsphereMachine => vsphere_machine::life_and_death(stage, far_end, host).await,
            Self::MachineClass => machine_class::life_and_death(stage).await,
            Self::DeviceUpdate => device_update::life_and_death(stage, far_end).await,
        }
    }
}

pub fn run(args: DemoArgs) -> anyhow::Result<Exit> {
    let (title, folder) = args.family.names();
    let path = match &args.plugin {
        Some(path) => path.clone(),
        None => checkout()?.join("plugins").join(folder),
    };
    let runtime = Arc::new(plugin::runtime()?);
    plugin::block_on(async {
        let (far_end, beside) = args.family.far_end(args.vcsim)?;
        let guest: Arc<dyn Guest> = plugin::load(&runtime, &path, &args.build).await?;
        let server = Server::start(&args.data.data_dir, args.port, &args.family.stand_ins(), None).await?;
        let host = start_host(&args, &server, &far_end)?;
        server.write_kubeconfig()?;
        let narrator = tokio::spawn(narrate::follow(host.subscribe(), output::colour_stdout()));
        say!("{}", heading(&format!("An embedded Kubernetes listens, with {beside}")))?;
        output::kubeconfig(&server.kubeconfig)?;
        let digest = guest.digest().to_owned();
        host.load(guest, parse_settings(args.family.settings())?).await?;
        say!("{}", heading(&format!("{title} runs as a component, {}", short(&digest))))?;
        let _directory = match &args.plugins {
            Some(folder) => Some(serving::follow(&host, &runtime, folder, None).await?),
            None => None,
        };
        let mut stage = Stage::new(&server.sandbox, Duration::from_secs(args.timeout));
        let outcome = tell(&args, &mut stage, &far_end, &host).await;
        if let Err(error) = outcome {
            narrator.abort();
            serving::stop(&host).await;
            if error.is::<Unwritten>() {
                return Err(error);
            }
            note!("{} {error:#}", output::paint("not reached:", Paint::Bad, output::colour_stderr()));
            return Ok(Exit::Found);
        }
        if args.once {
            say!("{}", heading(&format!("Every expected state was reached ({})", stage.reached())))?;
        } else {
            invite(&args.data.data_dir, &server, args.family.tries())?;
            serving::interrupted().await?;
        }
        serving::stop(&host).await;
        narrator.abort();
        Ok(Exit::Fine)
    })
}

fn start_host(args: &DemoArgs, server: &Server, far_end: &FarEnd) -> anyhow::Result<Host> {
    let drivers = match args.family {
        Family::MachineClass => machine_class::drivers(far_end),
        Family::Kite | Family::VsphereMachine | Family::DeviceUpdate => json!({}),
    };
    Ok(Host::start(HostOptions {
        providers: far_end.providers(&drivers)?,
        journal: args.data.journal(),
        install_crds: true,
        ..HostOptions::new(server.client())
    })?)
}

async fn tell(args: &DemoArgs, stage: &mut Stage<'_>, far_end: &FarEnd, host: &Host) -> anyhow::Result<()> {
    args.family.birth(stage, far_end).await?;
    if args.once { args.family.life_and_death(stage, far_end, host).await } else { Ok(()) }
}

/// The checkout that this program was built in: it has the plugins' sources.
fn checkout() -> anyhow::Result<&'static Path> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the checkout has a root")?;
    if !root.join("plugins/kite/Cargo.toml").is_file() {
        bail!(
            "the checkout that this program was built in is gone: name the family's component with --plugin"
        );
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

/// A command of ours finds the journal where this host keeps it.
fn with_data_dir(command: &str, data_dir: &Path) -> String {
    if command.starts_with("evenkeel ") && data_dir != Path::new(DATA_DIR) {
        format!("{command} --data-dir {}", output::word(&data_dir.display().to_string()))
    } else {
        command.to_owned()
    }
}

fn invite(data_dir: &Path, server: &Server, tries: &[(&str, &str)]) -> Result<(), Unwritten> {
    say!("{}", heading("Your turn; each decision is shown as it is made"))?;
    output::kubeconfig(&server.kubeconfig)?;
    for (command, what) in tries {
        let command = with_data_dir(command, data_dir);
        say!("  {command:<86} {}", output::paint(&format!("# {what}"), Paint::Dim, output::colour_stdout()))?;
    }
    say!("Stop it with Ctrl-C.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_is_shown_with_the_folder_that_the_journal_is_in() {
        for (command, folder, expected) in [
            ("evenkeel explain KiteUser ann", ".evenkeel", "evenkeel explain KiteUser ann"),
            (
                "evenkeel explain KiteUser ann",
                "/tmp/a b",
                "evenkeel explain KiteUser ann --data-dir '/tmp/a b'",
            ),
            ("kubectl get kiteusers", "/tmp/a b", "kubectl get kiteusers"),
        ] {
            assert_eq!(with_data_dir(command, Path::new(folder)), expected);
        }
    }
}
