//! From a plugin's crate to its component: finds or gets a toolchain, builds, componentizes, and does none of it where
//! nothing has changed.

mod sources;
mod toolchain;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use sha2::{Digest, Sha256};
use wit_component::ComponentEncoder;

use self::sources::Crate;
pub use self::sources::SourcesError;
use self::toolchain::Toolchain;
pub use self::toolchain::ToolchainError;

/// The target of every guest: no operating system, so nothing to import.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// A component that was built, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The component.
    pub component: PathBuf,
    /// Its digest, as in `sha256:…`.
    pub digest: String,
    /// Whether nothing had changed since it was built.
    pub cached: bool,
}

/// What a build is doing; shown to a person, since it may take minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another build holds the target folder.
    WaitingForAnotherBuild,
    /// Getting the target by rustup.
    AddingTarget,
    /// Installing Debian's packages.
    InstallingPackages,
    /// Compiling.
    Compiling {
        /// The crate.
        name: String,
        /// The toolchain, in words.
        toolchain: String,
    },
    /// Making a component of the module.
    Componentizing,
    /// Done.
    Done {
        /// The component.
        component: PathBuf,
        /// Its size in bytes.
        bytes: usize,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitingForAnotherBuild => f.write_str("waiting for another build to end"),
            Self::AddingTarget => write!(f, "adding the target: rustup target add {TARGET}"),
            Self::InstallingPackages => write!(f, "installing the toolchain: {}", toolchain::APT_INSTALL),
            Self::Compiling { name, toolchain } => {
                write!(f, "compiling {name} for {TARGET} with {toolchain}")
            }
            Self::Componentizing => f.write_str("making a component of the module"),
            Self::Done { component, bytes } => {
                write!(f, "{} ({} KiB)", component.display(), bytes.div_ceil(1024))
            }
        }
    }
}

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The crate cannot be read.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// There is no toolchain.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The compiler does not start.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The crate does not compile; the compiler has said why.
    #[error("the crate {name} does not compile ({status}); the compiler's words are above")]
    Compile {
        /// The crate.
        name: String,
        /// The compiler's exit status.
        status: ExitStatus,
    },
    /// The module is none of a plugin.
    #[error(
        "the module is no plugin: {reason}; does the crate have `crate-type = [\"cdylib\", \"rlib\"]` and `evenkeel_sdk::plugin!`?"
    )]
    NotAPlugin {
        /// What is wrong with it.
        reason: String,
    },
}

/// Builds the plugin whose crate is in `folder`; `no_install` forbids getting a toolchain.
pub fn build_plugin(
    folder: &Path,
    no_install: bool,
    progress: &mut dyn FnMut(&Step),
) -> Result<Built, BuildError> {
    let plugin = Crate::read(folder)?;
    let out = plugin.target.join("plugins");
    fs::create_dir_all(&out).map_err(|cause| BuildError::File { path: out.clone(), cause })?;
    let _lock = lock(&out, progress)?;
    let sources = plugin.digest()?;
    let component = out.join(format!("{}.wasm", plugin.name));
    let key = out.join(format!("{}.key", plugin.name));
    // The key names the component too: one that somebody replaced is built anew.
    if let (Ok(known), Ok(wasm)) = (fs::read_to_string(&key), fs::read(&component)) {
        let digest = digest(&wasm);
        if known == format!("{sources} {digest}\n") {
            return Ok(Built { component, digest, cached: true });
        }
    }
    let toolchain = Toolchain::find(no_install, &out, progress)?;
    progress(&Step::Compiling { name: plugin.name.clone(), toolchain: toolchain.to_string() });
    let module = compile(&plugin, &toolchain)?;
    progress(&Step::Componentizing);
    let wasm = componentize(&module)?;
    let digest = digest(&wasm);
    replace(&component, &wasm)?;
    replace(&key, format!("{sources} {digest}\n").as_bytes())?;
    progress(&Step::Done { component: component.clone(), bytes: wasm.len() });
    Ok(Built { component, digest, cached: false })
}

/// One build at a time in a target folder; the lock goes with the file.
fn lock(out: &Path, progress: &mut dyn FnMut(&Step)) -> Result<File, BuildError> {
    let path = out.join(".lock");
    let cannot = |cause| BuildError::File { path: path.clone(), cause };
    let file = File::create(&path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            progress(&Step::WaitingForAnotherBuild);
            file.lock().map_err(cannot)?;
        }
        Err(fs::TryLockError::Error(cause)) => return Err(cannot(cause)),
    }
    Ok(file)
}

fn compile(plugin: &Crate, toolchain: &Toolchain) -> Result<PathBuf, BuildError> {
    let target = plugin.target.join("guest");
    let profile = if plugin.has_guest_profile { "guest" } else { "release" };
    let mut command = toolchain.cargo();
    command
        .args([
            "build",
            "--quiet",
            "--lib",
            "--package",
            &plugin.name,
            "--target",
            TARGET,
            "--profile",
            profile,
        ])
        .arg("--manifest-path")
        .arg(plugin.folder.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        // Two builds in two folders give one component: no path of this machine is in it.
        .env("RUSTFLAGS", remap(plugin))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|cause| BuildError::Start { program, cause })?;
    if !status.success() {
        return Err(BuildError::Compile { name: plugin.name.clone(), status });
    }
    Ok(target.join(TARGET).join(profile).join(format!("{}.wasm", plugin.name.replace('-', "_"))))
}

fn remap(plugin: &Crate) -> String {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let mut flags = format!("--remap-path-prefix={}=/plugin", plugin.workspace.display());
    if let Some(home) = home {
        flags.push_str(&format!(" --remap-path-prefix={}=/cargo", home.display()));
    }
    flags
}

fn componentize(module: &Path) -> Result<Vec<u8>, BuildError> {
    let bytes = fs::read(module).map_err(|cause| BuildError::File { path: module.to_owned(), cause })?;
    ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| BuildError::NotAPlugin { reason: format!("{error:#}") })
}

/// Puts a finished file in the place of the one that is there: whoever watches the folder never sees half of it.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let under_way = path.with_extension("tmp");
    fs::write(&under_way, bytes)
        .and_then(|()| fs::rename(&under_way, path))
        .map_err(|cause| BuildError::File { path: path.to_owned(), cause })
}

fn digest(bytes: &[u8]) -> String {
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hash}")
}

/// A command without what an outer cargo has put into the environment: the guest's toolchain is another one.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let outer = [
        "CARGO",
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
    ];
    for name in outer {
        command.env_remove(name);
    }
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_ENCODED_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PROFILE_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(&*name);
        }
    }
    command
}
