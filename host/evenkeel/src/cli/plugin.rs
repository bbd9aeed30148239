//! From an argument that names a plugin (a component, or the folder of its crate) to the loaded plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_core::contract::Manifest;
use evenkeel_runtime::{Compiler, Plugin, Runtime, RuntimeOptions};

use crate::build::build_plugin;

/// How a plugin's crate is built where a folder is given.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BuildFlags {
    /// Never install a toolchain; say what is missing instead.
    #[arg(long)]
    pub no_install: bool,
}

/// Where compiled plugins are kept: the user's cache folder.
pub fn cache_dir() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("evenkeel").join("compiled"))
}

/// The runtime that every command uses: compiled code is cached, and compiling happens in a child process.
pub fn runtime() -> anyhow::Result<Runtime> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let options = RuntimeOptions {
        cache_dir: cache_dir(),
        compiler: Compiler::ChildProcess { exe },
        ..RuntimeOptions::default()
    };
    Ok(Runtime::new(options)?)
}

/// The path of a plugin's component: itself, or what building its crate gives. Progress goes to stderr.
pub fn component(path: &Path, flags: &BuildFlags) -> anyhow::Result<PathBuf> {
    if !path.exists() {
        bail!("there is no {}: give a component (*.wasm) or the folder of a plugin's crate", path.display());
    }
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let mut progress = super::build::Progress::to_stderr();
    let built = build_plugin(path, flags.no_install, &mut |step| progress.show(step))
        .with_context(|| format!("cannot build the plugin in {}", path.display()))?;
    Ok(built.component)
}

/// Loads a plugin under the limits of the host.
pub async fn load(runtime: &Runtime, path: &Path, flags: &BuildFlags) -> anyhow::Result<Arc<Plugin>> {
    let component = component(path, flags)?;
    let wasm = std::fs::read(&component).with_context(|| format!("cannot read {}", component.display()))?;
    runtime.load(&wasm).await.with_context(|| format!("cannot load {}", component.display()))
}

/// A plugin's manifest.
pub fn manifest(path: &Path) -> anyhow::Result<Manifest> {
    let runtime = runtime()?;
    let plugin = block_on(load(&runtime, path, &BuildFlags::default()))?;
    Ok(plugin.manifest().clone())
}

/// Runs one future on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let outcome = runtime.block_on(future);
    // A blocking task that hangs (a name that does not resolve) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}
