//! What `sandbox`, `demo` and `run` share: a data directory, a host, a folder of plugins, an embedded Kubernetes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use evenkeel_admin::metrics::Metrics;
use evenkeel_core::guest::Guest;
use evenkeel_engine::Host;
use evenkeel_engine::directory::{Directory, Loader, LoaderError};
use evenkeel_engine::journal::{FileOptions, JournalOptions};
use evenkeel_runtime::Runtime;
use evenkeel_sandbox::standins::{self, Running, Stages};
use evenkeel_sandbox::{ListenOptions, Listening, Sandbox, SandboxOptions};
use tokio::time::Instant;

pub use evenkeel_agent::interrupted;

/// How long passes under way may take when the host stops.
pub const GRACE: Duration = Duration::from_secs(10);

/// Where a host keeps what must outlive it, unless somebody says otherwise.
pub const DATA_DIR: &str = ".evenkeel";

/// Where a host keeps what must outlive it.
#[derive(Clone, Debug, clap::Args)]
pub struct DataArgs {
    /// Folder of the journal and the kubeconfig; one host at a time uses it.
    #[arg(long, value_name = "DIR", default_value = DATA_DIR, env = "EVENKEEL_DATA_DIR")]
    pub data_dir: PathBuf,
}

impl DataArgs {
    /// The journal of a host that uses the folder.
    pub fn journal(&self) -> JournalOptions {
        JournalOptions {
            file: Some(FileOptions::new(self.data_dir.join("journal"))),
            ..JournalOptions::default()
        }
    }
}

/// An embedded Kubernetes behind a listener.
pub struct Server {
    /// The API.
    pub sandbox: Sandbox,
    /// The listener; it ends with this.
    pub listening: Listening,
    /// Where the kubeconfig for it is, once it is written.
    pub kubeconfig: PathBuf,
    _stages: Option<Running>,
}

impl Server {
    /// Starts one on loopback, with the kinds of these stand-ins, which act by themselves.
    ///
    /// With `keep`, what is in it is kept in that file, and what an earlier one left there is there again.
    pub async fn start(
        data_dir: &Path,
        port: u16,
        stand_ins: &[String],
        keep: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let options = SandboxOptions::default();
        let clock = Arc::clone(&options.clock);
        let sandbox = match keep {
            Some(file) => Sandbox::open(options, file)
                .with_context(|| format!("cannot keep the sandbox in {}", file.display()))?,
            None => Sandbox::new(options),
        };
        for name in stand_ins {
            let crds = standins::crds(name)
                .with_context(|| format!("no stand-in is called {name:?}; there are kubevirt and cdi"))?;
            for crd in crds {
                sandbox.put(crd)?;
            }
        }
        let stages =
            (!stand_ins.is_empty()).then(|| standins::start(sandbox.service(), Stages::builtin(), clock));
        let listening = sandbox.serve(ListenOptions { port }).await?;
        let kubeconfig = data_dir.join("kubeconfig");
        let kubeconfig = std::path::absolute(&kubeconfig).unwrap_or(kubeconfig);
        Ok(Self { sandbox, listening, kubeconfig, _stages: stages })
    }

    /// Writes the kubeconfig. Only once a host holds the data directory: until then the one in it may be another's.
    pub fn write_kubeconfig(&self) -> anyhow::Result<()> {
        if let Some(folder) = self.kubeconfig.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(self.listening.write_kubeconfig(&self.kubeconfig)?)
    }

    /// The way to it in process.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.sandbox.service(), "default")
    }
}

/// Loads the plugins of a folder and follows its changes.
///
/// How long each took to load is counted, where metrics are given.
pub async fn follow(
    host: &Host,
    runtime: &Arc<Runtime>,
    folder: &Path,
    metrics: Option<Arc<Metrics>>,
) -> anyhow::Result<Directory> {
    let directory = Directory::open(host.clone(), loader(runtime, metrics), folder).await?;
    Ok(directory)
}

/// Makes plugins of components, by the runtime.
fn loader(runtime: &Arc<Runtime>, metrics: Option<Arc<Metrics>>) -> Arc<dyn Loader> {
    let runtime = Arc::clone(runtime);
    Arc::new(move |wasm: Vec<u8>| {
        let (runtime, metrics) = (Arc::clone(&runtime), metrics.clone());
        async move {
            let began = Instant::now();
            let plugin = runtime.load(&wasm).await.map_err(|error| Box::new(error) as LoaderError)?;
            if let Some(metrics) = metrics {
                metrics.compiled(&plugin.manifest().name, began.elapsed());
            }
            Ok(plugin as Arc<dyn Guest>)
        }
    })
}

/// Lets passes under way finish, and stops.
pub async fn stop(host: &Host) {
    warn_unless(host.shutdown(GRACE).await);
}

/// Says so where passes were cut off.
pub fn warn_unless(finished: bool) {
    if !finished {
        tracing::warn!(seconds = GRACE.as_secs(), "some passes did not finish in time");
    }
}
