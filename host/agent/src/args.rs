//! What an agent is started with from a command line: the same for `evenkeel agent` and the agent alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::{Clock as _, SystemClock};
use evenkeel_providers::device::linux::steps::Steps;
use evenkeel_providers::device::management::{ManagementOptions, ServerAddress, Timings};
use evenkeel_runtime::{Compiler, Runtime, RuntimeOptions};
use serde_json::{Value, json};

use crate::{AgentOptions, Settled, console, yaml};

/// Where an installation has the component that decides.
const COMPONENT: &str = "/usr/lib/evenkeel/device-update.wasm";
/// Where an installation without a compiler has what was compiled of it.
const COMPILED: &str = "/usr/lib/evenkeel/compiled";
/// Passes at once: a device has one object.
const CONCURRENCY: u32 = 8;

/// What the device is to be, and where things are.
#[derive(Debug, clap::Args)]
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
}

impl AgentArgs {
    /// The component that decides: the one that is named, else that of an installation; none where there is neither.
    pub fn component(&self) -> Option<PathBuf> {
        self.plugin.clone().or_else(|| Some(PathBuf::from(COMPONENT)).filter(|path| path.exists()))
    }

    /// A runtime whose compiled code is kept with the agent's data; without a compiler it comes with the installation.
    ///
    /// # Errors
    /// If the root or the folders cannot be used.
    pub fn runtime(&self) -> anyhow::Result<Runtime> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let data_dir = self.data_dir()?;
        std::fs::create_dir_all(&data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        let installed = Path::new(COMPILED);
        let given = !cfg!(feature = "compile") && installed.exists();
        let options = RuntimeOptions {
            cache_dir: Some(if given { installed.to_owned() } else { data_dir.join("compiled") }),
            concurrency: CONCURRENCY,
            compiler: Compiler::ChildProcess { exe },
            ..RuntimeOptions::default()
        };
        Ok(Runtime::new(options)?)
    }

    /// Runs the agent with this plugin until it is told to end, or, with `--once`, until the file is in effect or has failed.
    ///
    /// # Errors
    /// As [`crate::run`]; if a file that is named cannot be used.
    pub async fn run(&self, plugin: Arc<dyn Guest>) -> anyhow::Result<Option<Settled>> {
        let (root, data_dir) = (self.root()?, self.data_dir()?);
        let options = AgentOptions {
            management: self.management(&root)?,
            root,
            data_dir: data_dir.clone(),
            name: self.name(),
            spec: self.spec.clone(),
            once: self.once,
            reboot: self.reboot.clone(),
            plugin,
            config: self.config()?,
            port: self.port,
            clock: Arc::new(SystemClock),
            steps: Steps::default(),
        };
        if self.port.is_some() {
            let kubeconfig = data_dir.join("kubeconfig");
            console::note(format_args!(
                "  export KUBECONFIG={}",
                console::word(&kubeconfig.display().to_string())
            ));
        }
        crate::run(options, crate::interrupted()).await
    }

    fn root(&self) -> anyhow::Result<PathBuf> {
        self.root.canonicalize().with_context(|| format!("cannot use the root {}", self.root.display()))
    }

    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        match &self.data_dir {
            Some(folder) => Ok(folder.clone()),
            None => Ok(self.root()?.join("var/lib/evenkeel")),
        }
    }

    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(machine)
    }

    /// How the service is spoken to, if it is.
    fn management(&self, root: &Path) -> anyhow::Result<Option<ManagementOptions>> {
        if self.servers.is_empty() {
            return Ok(None);
        }
        let authorities = match &self.server_ca {
            Some(file) => Some(
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
            ),
            None => None,
        };
        Ok(Some(ManagementOptions {
            servers: self.servers.clone(),
            authorities,
            certificates: self.certificates.clone().unwrap_or_else(|| root.join("etc/flightctl/certs")),
            name: self.name(),
            timings: Timings::default(),
            clock: Arc::new(|| SystemClock.now()),
        }))
    }

    /// The settings, with where specs come from: from a file or a service unless the settings say otherwise, else from the object.
    fn config(&self) -> anyhow::Result<Value> {
        let mut config: Value = match &self.config {
            Some(file) => {
                let of_file = || format!("cannot use the settings of {}", file.display());
                let text = std::fs::read_to_string(file).with_context(of_file)?;
                yaml::one(&text).with_context(of_file)?
            }
            None => json!({}),
        };
        let Some(members) = config.as_object_mut() else { bail!("the settings are no mapping") };
        if !members.contains_key("source") {
            members.insert(
                "source".to_owned(),
                json!(if self.spec.is_some() || !self.servers.is_empty() { "management" } else { "object" }),
            );
        }
        Ok(config)
    }
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
