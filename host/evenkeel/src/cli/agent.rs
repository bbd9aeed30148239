//! `evenkeel agent`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_engine::clock::{Clock as _, SystemClock};
use evenkeel_providers::device::linux::steps::Steps;
use evenkeel_providers::device::management::{ManagementOptions, ServerAddress, Timings};
use evenkeel_runtime::{Compiler, Runtime, RuntimeOptions};
use serde_json::{Value, json};

use super::plugin::{self, BuildFlags};
use super::{Exit, serving};
use crate::agent::{self, AgentOptions, Settled};
use crate::output::{self, Paint};

/// Passes at once: a device has one object.
const CONCURRENCY: u32 = 8;

/// Keep this machine as a Device says: files, hooks, applications, operating system
///
/// Follows a file, or a management service, or the Device object in its own store. An update that fails is rolled back; the
/// power may go at any moment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel agent --spec device.yaml --root /tmp/device
  evenkeel agent --spec device.yaml --root /tmp/device --once
  evenkeel agent --root /tmp/device --port 0
  evenkeel agent --server https://service.example.test:7443 --server-ca ca.crt

Exit codes: 0 stopped, or in effect (--once); 1 the update has failed (--once); 2 could not do it.")]
pub struct AgentArgs {
    /// The file that says what the device is to be, a Device in YAML or JSON; changes are followed.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// A server of the management service; given several times, the next is spoken to where one fails.
    #[arg(long = "server", value_name = "URL", conflicts_with = "spec")]
    servers: Vec<ServerAddress>,
    /// The authorities of the servers' certificates, in PEM; the system's where absent.
    #[arg(long, value_name = "FILE", requires = "servers")]
    server_ca: Option<PathBuf>,
    /// The folder of `agent.crt` and `agent.key`; `etc/flightctl/certs` below the root where absent.
    #[arg(long, value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// The folder that stands for `/`; another one is for trials.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Where the agent keeps its store and journal; `var/lib/evenkeel` below the root where absent.
    #[arg(long, value_name = "DIR", env = "EVENKEEL_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// The device's name; the machine's where absent.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End once the file is in effect, or has failed.
    #[arg(long, requires = "spec")]
    once: bool,
    /// The command that reboots, its words divided by blanks; `systemctl reboot` where absent, and none for a trial.
    #[arg(long, value_name = "COMMAND", value_delimiter = ' ')]
    reboot: Vec<String>,
    /// Serve the store for kubectl on this port of loopback; 0 for any that is free.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The component that decides, or its crate.
    #[arg(long, value_name = "PATH")]
    plugin: Option<PathBuf>,
    /// The component's settings, in YAML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(args: AgentArgs) -> anyhow::Result<Exit> {
    let root =
        args.root.canonicalize().with_context(|| format!("cannot use the root {}", args.root.display()))?;
    let data_dir = args.data_dir.clone().unwrap_or_else(|| root.join("var/lib/evenkeel"));
    let config = config(&args)?;
    let management = management(&args, &root)?;
    let component = component(&args)?;
    let runtime = Arc::new(runtime(&data_dir)?);
    let outcome = plugin::block_on(async {
        let plugin = plugin::load(&runtime, &component, &args.build).await?;
        let options = AgentOptions {
            root,
            data_dir: data_dir.clone(),
            name: args.name.clone().unwrap_or_else(machine),
            spec: args.spec.clone(),
            once: args.once,
            reboot: args.reboot.clone(),
            plugin,
            config,
            management: management.clone(),
            port: args.port,
            clock: Arc::new(SystemClock),
            steps: Steps::default(),
        };
        if args.port.is_some() {
            eprintln!("  export KUBECONFIG={}", data_dir.join("kubeconfig").display());
        }
        agent::run(options, serving::interrupted()).await
    })?;
    match outcome {
        None => Ok(Exit::Fine),
        Some(Settled::Updated { version }) => {
            println!(
                "{}",
                output::paint(
                    &format!("version {version} is in effect"),
                    Paint::Good,
                    output::colour_stdout()
                )
            );
            Ok(Exit::Fine)
        }
        Some(Settled::Failed { message }) => {
            println!(
                "{}",
                output::paint(
                    &format!("failed and rolled back: {message}"),
                    Paint::Bad,
                    output::colour_stdout()
                )
            );
            Ok(Exit::Found)
        }
    }
}

/// How the service is spoken to, if it is.
fn management(args: &AgentArgs, root: &Path) -> anyhow::Result<Option<ManagementOptions>> {
    if args.servers.is_empty() {
        return Ok(None);
    }
    let authorities = match &args.server_ca {
        Some(file) => {
            Some(std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?)
        }
        None => None,
    };
    Ok(Some(ManagementOptions {
        servers: args.servers.clone(),
        authorities,
        certificates: args.certificates.clone().unwrap_or_else(|| root.join("etc/flightctl/certs")),
        name: args.name.clone().unwrap_or_else(machine),
        timings: Timings::default(),
        clock: Arc::new(|| SystemClock.now()),
    }))
}

/// The settings, with where specs come from: from a file or a service unless the settings say otherwise, else from the object.
fn config(args: &AgentArgs) -> anyhow::Result<Value> {
    let mut config: Value = match &args.config {
        Some(file) => {
            let of_file = || format!("cannot use the settings of {}", file.display());
            let text = std::fs::read_to_string(file).with_context(of_file)?;
            serde_saphyr::from_str(&text).with_context(of_file)?
        }
        None => json!({}),
    };
    let Some(members) = config.as_object_mut() else { bail!("the settings are no mapping") };
    if !members.contains_key("source") {
        members.insert(
            "source".to_owned(),
            json!(if args.spec.is_some() || !args.servers.is_empty() { "management" } else { "object" }),
        );
    }
    Ok(config)
}

/// The component that decides: the one that is named, that of an installation, or that of the checkout.
fn component(args: &AgentArgs) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.plugin {
        return Ok(path.clone());
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let places = [
        Some(PathBuf::from("/usr/lib/evenkeel/device-update.wasm")),
        checkout.map(|root| root.join("plugins/device-update")),
    ];
    places.into_iter().flatten().find(|path| path.exists()).context(
        "no component decides: name one with --plugin, or install /usr/lib/evenkeel/device-update.wasm",
    )
}

/// A runtime whose compiled code is kept with the agent's data.
fn runtime(data_dir: &Path) -> anyhow::Result<Runtime> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let options = RuntimeOptions {
        cache_dir: Some(data_dir.join("compiled")),
        concurrency: CONCURRENCY,
        compiler: Compiler::ChildProcess { exe },
        ..RuntimeOptions::default()
    };
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
    Ok(Runtime::new(options)?)
}

/// The machine's name, as a name of an object.
fn machine() -> String {
    let text = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name: String = text
        .trim()
        .to_lowercase()
        .chars()
        .filter(|one| one.is_ascii_alphanumeric() || "-.".contains(*one))
        .collect();
    if name.is_empty() { "device".to_owned() } else { name }
}
