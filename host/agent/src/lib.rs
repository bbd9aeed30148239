//! The host on a device: the embedded Kubernetes as a durable store, the device-update plugin, and the machine as a provider.
//!
//! It ends where it is told to; where the power goes, the next start goes on where this one was.

// What cannot be written is an error, not a panic: see `console`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod console;
mod follow;
mod settings;
mod store;
mod tell;
pub mod yaml;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::Clock;
use evenkeel_engine::journal::{FileOptions, JournalOptions};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_providers::Providers;
use evenkeel_providers::device::linux::LinuxDevice;
use evenkeel_providers::device::linux::config::LinuxOptions;
use evenkeel_providers::device::linux::service::Service;
use evenkeel_providers::device::linux::steps::Steps;
use evenkeel_providers::device::management::{Management, ManagementOptions};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use follow::FollowError;
pub use tell::Settled;

use follow::SpecFile;
use settings::Settings;

/// How long passes under way may take when the agent stops.
const GRACE: Duration = Duration::from_secs(10);
/// Files of the journal: a device has little room, and little happens on it.
const JOURNAL_FILES: u32 = 2;
/// Bytes of a file of the journal.
const JOURNAL_FILE_BYTES: u64 = 2 << 20;
/// Between two tries to make the Device, until its kind is served.
const RETRY: Duration = Duration::from_millis(50);
/// Tries to make the Device.
const TRIES_MAX: u32 = 600;
/// Who writes the Device.
const MANAGER: &str = "evenkeel-agent";

/// What an agent is started with.
pub struct AgentOptions {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    /// Where the store and the journal are kept.
    pub data_dir: PathBuf,
    /// The device's name.
    pub name: String,
    /// The file that says what the device is to be; none where a service does, or the Device object itself.
    pub spec: Option<PathBuf>,
    /// Whether the agent ends once the file is in effect, or has failed.
    pub once: bool,
    /// What reboots the machine; empty for the usual.
    pub reboot: Vec<String>,
    /// The plugin that decides.
    pub plugin: Arc<dyn Guest>,
    /// The plugin's settings.
    pub config: Value,
    /// The service that says what the device is to be; none where a file does, or the object.
    pub management: Option<ManagementOptions>,
    /// Port on loopback for kubectl; none to listen nowhere.
    pub port: Option<u16>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Told of each durable step.
    pub steps: Steps,
}

/// Runs an agent until `stopped` returns, or, with `once`, until the file is in effect or has failed.
///
/// # Errors
/// If it cannot start: the root, the data folder or the file is of no use, or another agent uses them.
pub async fn run(
    options: AgentOptions,
    stopped: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Option<Settled>> {
    std::fs::create_dir_all(&options.data_dir)
        .with_context(|| format!("cannot make {}", options.data_dir.display()))?;
    let sandbox = store::open(&options.data_dir)?;
    let client = store::client(&sandbox, &options.steps);
    let service = Arc::new(Service::default());
    let device = open_device(&options, &service)?;
    let journal = FileOptions {
        files_max: JOURNAL_FILES,
        file_bytes_max: JOURNAL_FILE_BYTES,
        ..FileOptions::new(options.data_dir.join("journal"))
    };
    let host = Host::start(HostOptions {
        journal: JournalOptions { file: Some(journal), ..JournalOptions::default() },
        providers: Providers::default().with("device", Arc::<LinuxDevice>::clone(&device)),
        install_crds: true,
        workers: 2,
        clock: Arc::clone(&options.clock),
        ..HostOptions::new(client.clone())
    })?;
    let listening = match options.port {
        Some(port) => {
            let listening = sandbox.serve(evenkeel_sandbox::ListenOptions { port }).await?;
            listening.write_kubeconfig(&options.data_dir.join("kubeconfig"))?;
            Some(listening)
        }
        None => None,
    };
    configure(&options, &host, &device).await?;
    let status = watch::Sender::new(Value::Null);
    let management = options.management.clone().map(|management| {
        Management::start(management, Arc::clone(&device), Arc::clone(&service), status.subscribe())
    });
    let outcome = tokio::select! {
        outcome = live(&options, &client, &host, &device, &service, &status, stopped) => outcome,
        () = hangups(&options, &host, &device) => Ok(None),
    };
    drop(management);
    if !host.shutdown(GRACE).await {
        tracing::warn!(seconds = GRACE.as_secs(), "some passes did not finish in time");
    }
    drop(listening);
    outcome
}

fn open_device(options: &AgentOptions, service: &Arc<Service>) -> anyhow::Result<Arc<LinuxDevice>> {
    let clock = Arc::clone(&options.clock);
    let mut linux = LinuxOptions::new(&options.name, Arc::new(move || clock.now()));
    linux.root.clone_from(&options.root);
    linux.reboot.clone_from(&options.reboot);
    linux.steps = options.steps.clone();
    let root = options.root.canonicalize().unwrap_or_else(|_| options.root.clone());
    let data = options.data_dir.canonicalize().unwrap_or_else(|_| options.data_dir.clone());
    if let Ok(below) = data.strip_prefix(&root) {
        linux.protected.push((format!("/{}", below.display()), "the agent's own store".to_owned()));
    }
    Ok(Arc::new(LinuxDevice::open(linux, Arc::clone(service))?))
}

async fn live(
    options: &AgentOptions,
    client: &kube::Client,
    host: &Host,
    device: &Arc<LinuxDevice>,
    service: &Arc<Service>,
    status: &watch::Sender<Value>,
    stopped: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Option<Settled>> {
    let devices = devices(client);
    let follow = |path: &PathBuf| {
        SpecFile::new(path, Arc::clone(device), Arc::clone(service), Arc::clone(&options.clock))
    };
    let mut file = options.spec.as_ref().map(follow);
    let annotations = match &mut file {
        Some(file) => file.read()?,
        None => json!({}),
    };
    // From before the Device is made, so that no pass is missed.
    let passes = host.subscribe();
    make(&devices, &options.name, &annotations).await?;
    let target = file.as_ref().and_then(SpecFile::version);
    let following = async {
        match file {
            Some(file) => file.follow(&devices, &options.name).await,
            None => std::future::pending().await,
        }
    };
    let wanted = if options.once { target } else { None };
    let telling = tell::follow(&devices, &options.name, device, status, passes, wanted);
    tokio::select! {
        outcome = stopped => outcome.map(|()| None),
        outcome = following => outcome.map(|()| None),
        outcome = telling => outcome.map(Some),
    }
}

/// Gives the plugin its settings; where they are the same as before nothing comes of it.
async fn configure(options: &AgentOptions, host: &Host, device: &LinuxDevice) -> anyhow::Result<()> {
    let Settings { config, skipped } =
        settings::read(&options.root, &options.config, options.plugin.manifest());
    device.tell_skipped(skipped);
    let settings = PluginSettings { config: config.to_string().into(), ..PluginSettings::default() };
    host.load(Arc::clone(&options.plugin), settings).await?;
    Ok(())
}

/// Waits for Ctrl-C or SIGTERM.
///
/// # Errors
/// If this process cannot be told of them.
pub async fn interrupted() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        outcome = tokio::signal::ctrl_c() => outcome.context("cannot listen for Ctrl-C"),
    }
}

/// Takes SIGHUP for ever: a hook of the vendor sends it after settings were changed.
async fn hangups(options: &AgentOptions, host: &Host, device: &LinuxDevice) {
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        Ok(mut hangups) => {
            while hangups.recv().await.is_some() {
                tracing::info!("told by SIGHUP that something was changed");
                if let Err(error) = configure(options, host, device).await {
                    tracing::error!("the settings stay as they were: {error:#}");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "cannot listen for SIGHUP"),
    }
    std::future::pending().await
}

/// The Devices of the store.
fn devices(client: &kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("flightctl.io", "v1beta1", "Device");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "devices"))
}

/// Makes the Device of this machine, with annotations that are for the plugin; waits until its kind is served.
async fn make(devices: &Api<DynamicObject>, name: &str, annotations: &Value) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "flightctl.io/v1beta1",
        "kind": "Device",
        "metadata": {"name": name, "annotations": annotations},
    });
    for _ in 0..TRIES_MAX {
        match devices.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(&object)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => tokio::time::sleep(RETRY).await,
            Err(error) => return Err(error).context("cannot make the Device object"),
        }
    }
    bail!("the plugin brings no kind Device along: is it device-update?")
}
