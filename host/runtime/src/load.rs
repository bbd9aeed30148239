//! From the bytes of a component to a plugin, or to the reason why not.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use evenkeel_core::contract::Manifest;
use evenkeel_core::guest::CallError;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::cache::{Cache, Kept, hex};
use crate::call::{CallState, Caller};
use crate::compile::{self, CompileError, CompileLimits, Compiler};
use crate::generated::ReconcilerPre;
use crate::limits::Limits;
use crate::plugin::Plugin;
use crate::ticker::Ticker;
use crate::{call, engine, examine};

/// How plugins are run.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Private folder of compiled plugins; none for a temporary one.
    pub cache_dir: Option<PathBuf>,
    /// Most bytes that the folder keeps.
    pub cache_limit: u64,
    /// Calls at once; each may hold as much memory as `limits` allow. One plugin has three quarters of them at most.
    pub concurrency: u32,
    /// What a plugin may use.
    pub limits: Limits,
    /// Where plugins are compiled.
    pub compiler: Compiler,
    /// What compiling may use, in a child process.
    pub compile_limits: CompileLimits,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Self {
            cache_dir: None,
            cache_limit: 1 << 30,
            concurrency: u32::try_from(processors.saturating_mul(4)).unwrap_or(64).clamp(8, 64),
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            compile_limits: CompileLimits::default(),
        }
    }
}

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The folder of compiled plugins is of no use.
    #[error("cannot use the folder of compiled plugins {}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: io::Error,
    },
    /// The engine does not start on this machine.
    #[error("cannot start the WebAssembly engine: {reason}")]
    Engine {
        /// What it said.
        reason: String,
    },
    /// No thread for the clock of running plugins.
    #[error("cannot start the clock of running plugins")]
    Clock(#[source] io::Error),
}

/// Why a component is not taken as a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Larger than allowed.
    #[error("the component has {size} bytes, more than the {limit} that are allowed")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The largest allowed.
        limit: u64,
    },
    /// It ends too early.
    #[error("the component is cut off: {size} bytes of at least {wanted}")]
    Truncated {
        /// Its size.
        size: u64,
        /// The size that its sections claim.
        wanted: u64,
    },
    /// Not WebAssembly, or of a version unknown here.
    #[error("this is no WebAssembly component")]
    NotAComponent,
    /// A core module.
    #[error("this is a WebAssembly module, not a component")]
    CoreModule,
    /// Native code that somebody else compiled.
    #[error("this is compiled code; only the WebAssembly component itself is taken")]
    Precompiled,
    /// It has the form of a component, and is none.
    #[error("the component is not valid: {reason}")]
    Invalid {
        /// What the compiler found.
        reason: String,
    },
    /// It was not compiled, for no certain fault of its own.
    #[error("cannot compile the component")]
    Compile(#[source] CompileError),
    /// It imports something; a plugin imports nothing.
    #[error("the component imports {}; a plugin imports nothing", names.join(", "))]
    Imports {
        /// What it imports.
        names: Vec<String>,
    },
    /// It does not export the interface of a plugin.
    #[error("the component does not export {}; {}", crate::GUEST_INTERFACE, what_it_exports(exports))]
    OtherWorld {
        /// What it exports.
        exports: Vec<String>,
    },
    /// It exports the interface with other types.
    #[error("the component was built against another {}: {reason}", crate::GUEST_INTERFACE)]
    OtherTypes {
        /// The first difference.
        reason: String,
    },
    /// More memories, tables or core instances than the host gives to one plugin.
    #[error("the component needs more than the host gives to one plugin: {reason}")]
    TooDemanding {
        /// What it needs.
        reason: String,
    },
    /// It cannot describe itself.
    #[error("the component cannot describe itself")]
    Describe(#[source] CallError),
    /// The folder of compiled plugins failed.
    #[error("cannot keep the compiled component")]
    Cache(#[source] io::Error),
}

fn what_it_exports(exports: &[String]) -> String {
    if exports.is_empty() {
        "it exports nothing".to_owned()
    } else {
        format!("it exports {}", exports.join(", "))
    }
}

/// What all plugins of a process share: engine, pool of instances, clock, compiled code.
pub struct Runtime {
    engine: Engine,
    linker: Linker<CallState>,
    caller: Arc<Caller>,
    /// Calls of one plugin at once.
    share: usize,
    shop: Arc<Shop>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("shop", &self.shop).finish_non_exhaustive()
    }
}

/// Compiles one component at a time, so that a folder full of plugins does not take every processor.
#[derive(Debug)]
struct Shop {
    cache: Cache,
    /// What the compiled code has to be for; without a compiler any is tried, and the engine refuses what does not fit.
    #[cfg(feature = "compile")]
    compatibility: String,
    compiler: Compiler,
    limits: CompileLimits,
    one_at_a_time: Mutex<()>,
    /// Removed with the last user, where no folder was given.
    _temporary: Option<TempDir>,
}

impl Runtime {
    /// Starts the engine and opens the folder of compiled plugins.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let concurrency = options.concurrency.max(1);
        let slots = usize::try_from(concurrency).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let engine = engine::for_running(concurrency, &options.limits)
            .map_err(|error| RuntimeError::Engine { reason: format!("{error:#}") })?;
        let (folder, temporary) = cache_folder(options.cache_dir)?;
        let cache = Cache::open(&folder, options.cache_limit)
            .map_err(|cause| RuntimeError::Cache { folder: folder.clone(), cause })?;
        let ticker = Ticker::start(&engine).map_err(RuntimeError::Clock)?;
        let shop = Shop {
            cache,
            #[cfg(feature = "compile")]
            compatibility: compile::compatibility(&engine),
            compiler: options.compiler,
            limits: options.compile_limits,
            one_at_a_time: Mutex::new(()),
            _temporary: temporary,
        };
        Ok(Self {
            linker: Linker::new(&engine),
            caller: Arc::new(Caller {
                engine: engine.clone(),
                ticker,
                slots: Semaphore::new(slots),
                limits: options.limits,
            }),
            share: call::share(slots),
            engine,
            shop: Arc::new(shop),
        })
    }

    /// Examines, compiles and asks a component to describe itself. Nothing is kept of one that is refused but its
    /// compiled code.
    pub async fn load(&self, wasm: &[u8]) -> Result<Arc<Plugin>, LoadError> {
        examine::bytes(wasm, &self.caller.limits)?;
        let Made { digest, component, manifest } = self.made(wasm).await?;
        examine::world(&self.engine, &component)?;
        examine::resources(&component, &self.caller.limits)?;
        let pre = self
            .linker
            .instantiate_pre(&component)
            .and_then(ReconcilerPre::new)
            .map_err(|error| LoadError::OtherTypes { reason: format!("{error:#}") })?;
        let (typed, manifest) = match manifest {
            Some(manifest) => (self.caller.try_types(&pre).await?, manifest),
            None => {
                let (typed, manifest) = self.caller.describe(&pre).await?;
                self.keep(&digest, &manifest).await;
                (typed, manifest)
            }
        };
        Ok(Arc::new(Plugin {
            caller: self.caller.clone(),
            typed,
            share: Semaphore::new(self.share),
            digest: format!("sha256:{digest}"),
            manifest,
        }))
    }

    /// What there is of a component, compiled now if need be.
    async fn made(&self, wasm: &[u8]) -> Result<Made, LoadError> {
        let (shop, engine, wasm) = (self.shop.clone(), self.engine.clone(), Arc::<[u8]>::from(wasm));
        // Compiling waits for a child or computes for long: not on a worker of the async runtime.
        let made = tokio::task::spawn_blocking(move || {
            let digest = hex(&Sha256::digest(&wasm));
            let component = shop.component(&engine, &wasm, &digest)?;
            Ok(Made { manifest: shop.manifest(&digest), digest, component })
        });
        made.await.unwrap_or_else(|stopped| Err(LoadError::Cache(io::Error::other(stopped))))
    }

    /// Keeps what a component said of itself. Without it the next load asks again, so a failure does not matter.
    async fn keep(&self, digest: &str, manifest: &Manifest) {
        let (shop, digest, manifest) = (self.shop.clone(), digest.to_owned(), manifest.clone());
        let kept = tokio::task::spawn_blocking(move || shop.keep(&digest, &manifest)).await;
        if let Err(error) = kept.unwrap_or_else(|stopped| Err(io::Error::other(stopped))) {
            tracing::debug!(%error, "the manifest of a plugin is not kept");
        }
    }
}

/// A component that can run.
struct Made {
    digest: String,
    component: Component,
    /// What it said of itself when it was loaded before.
    manifest: Option<Manifest>,
}

/// Names what a component said of itself: a component imports nothing, so that it says the same each time, but another
/// version of the host may ask otherwise.
fn manifest_key(component: &str) -> String {
    static CONTRACT: LazyLock<String> = LazyLock::new(|| {
        let texts = [
            env!("CARGO_PKG_VERSION"),
            include_str!("../../../wit/guest.wit"),
            include_str!("../../../wit/types.wit"),
            include_str!("../../../wit/world.wit"),
        ];
        hex(Sha256::digest(texts.join("\0")).get(..8).unwrap_or_default())
    });
    format!("{component}-{}", *CONTRACT)
}

impl Shop {
    /// What a component said of itself before; none where that is not known to the letter.
    fn manifest(&self, digest: &str) -> Option<Manifest> {
        let path = self.cache.get(Kept::Manifest, &manifest_key(digest)).ok()??;
        let manifest = serde_json::from_slice(&std::fs::read(&path).ok()?);
        if manifest.is_err() {
            let _ = std::fs::remove_file(path);
        }
        manifest.ok()
    }

    fn keep(&self, digest: &str, manifest: &Manifest) -> io::Result<()> {
        let mut file = self.cache.file_under_way()?;
        file.write_all(&serde_json::to_vec(manifest)?)?;
        self.cache.put(Kept::Manifest, &manifest_key(digest), file).map(drop)
    }

    /// Without a compiler: what was compiled elsewhere. It is left alone where it does not fit, for nobody makes it anew.
    #[cfg(not(feature = "compile"))]
    fn component(&self, engine: &Engine, _: &[u8], digest: &str) -> Result<Component, LoadError> {
        for path in self.cache.all_of(digest).map_err(LoadError::Cache)? {
            match open(engine, &path) {
                Ok(component) => return Ok(component),
                Err(error) => {
                    tracing::warn!(path = %path.display(), error = %format!("{error:#}"), "not for this host");
                }
            }
        }
        Err(LoadError::Compile(CompileError::Absent))
    }

    #[cfg(feature = "compile")]
    fn component(&self, engine: &Engine, wasm: &[u8], digest: &str) -> Result<Component, LoadError> {
        let key = &*format!("{digest}-{}", self.compatibility);
        // Held while the cache is looked at, so that a component loaded twice at once is compiled once.
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.cache.get(Kept::Code, key).map_err(LoadError::Cache)? {
            match open(engine, &path) {
                Ok(component) => return Ok(component),
                Err(error) => {
                    tracing::warn!(path = %path.display(), error = %format!("{error:#}"), "compiling a plugin again");
                    std::fs::remove_file(&path).map_err(LoadError::Cache)?;
                }
            }
        }
        let input = self.cache.file_under_way().map_err(LoadError::Cache)?;
        let output = self.cache.file_under_way().map_err(LoadError::Cache)?;
        compile::compile(&self.compiler, &self.limits, engine, wasm, input.path(), output.path())?;
        let path = self.cache.put(Kept::Code, key, output).map_err(LoadError::Cache)?;
        open(engine, &path).map_err(|error| LoadError::Cache(io::Error::other(format!("{error:#}"))))
    }
}

#[allow(unsafe_code, reason = "the file was made by this host")]
fn open(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file was written by this host's own compiler into a folder of this user alone, its digest was checked
    // a moment ago, and it is never changed in place, only renamed in and unlinked; see `cache`.
    unsafe { Component::deserialize_file(engine, path) }
}

fn cache_folder(given: Option<PathBuf>) -> Result<(PathBuf, Option<TempDir>), RuntimeError> {
    match given {
        Some(folder) => Ok((folder, None)),
        None => {
            let temporary = tempfile::Builder::new()
                .prefix("evenkeel-compiled-")
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .tempdir()
                .map_err(|cause| RuntimeError::Cache { folder: std::env::temp_dir(), cause })?;
            Ok((temporary.path().to_owned(), Some(temporary)))
        }
    }
}

impl From<CompileError> for LoadError {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Invalid { reason } => Self::Invalid { reason },
            other => Self::Compile(other),
        }
    }
}
