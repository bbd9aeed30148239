//! From a plugin's crate to its component: finds or gets a toolchain, builds, componentizes, and does none of it where
//! nothing has changed.

mod sources;
mod toolchain;
mod within;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use sha2::{Digest, Sha256};
use wit_component::{ComponentEncoder, DecodedWasm};
use wit_parser::{TypeDefKind, WorldItem, WorldKey};

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
    /// The component wants something of its host besides being called.
    #[error(
        "the component imports {}; a plugin imports nothing: it asks through its pass, so which dependency needs that?",
        names.join(", ")
    )]
    Imports {
        /// What it imports.
        names: Vec<String>,
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
    let installed = Toolchain::installed(&plugin.folder);
    let identity = installed.as_ref().and_then(|toolchain| compiler(toolchain, &plugin));
    let component = out.join(format!("{}.wasm", plugin.name));
    let key = out.join(format!("{}.key", plugin.name));
    // The key names the component too: one that somebody replaced is built anew.
    if let (Ok(known), Ok(wasm)) = (fs::read_to_string(&key), fs::read(&component)) {
        let digest = digest(&wasm);
        let made_of = Key { sources: &sources, compiler: identity.as_deref(), component: &digest };
        if made_of.opens(&known) {
            return Ok(Built { component, digest, cached: true });
        }
    }
    let toolchain = match installed {
        Some(toolchain) => toolchain,
        None => Toolchain::get(&plugin.folder, no_install, &out, progress)?,
    };
    progress(&Step::Compiling { name: plugin.name.clone(), toolchain: toolchain.to_string() });
    let module = compile(&plugin, &toolchain)?;
    progress(&Step::Componentizing);
    let bytes = fs::read(&module).map_err(|cause| BuildError::File { path: module, cause })?;
    let wasm = componentize(&bytes)?;
    refuse_imports(&wasm)?;
    let digest = digest(&wasm);
    replace(&component, &wasm)?;
    let compiler = compiler(&toolchain, &plugin);
    let made_of = Key { sources: &sources, compiler: compiler.as_deref(), component: &digest };
    replace(&key, made_of.to_string().as_bytes())?;
    progress(&Step::Done { component: component.clone(), bytes: wasm.len() });
    Ok(Built { component, digest, cached: false })
}

/// What a component was made of and by.
struct Key<'a> {
    sources: &'a str,
    /// None where there is no compiler at hand.
    compiler: Option<&'a str>,
    component: &'a str,
}

impl Key<'_> {
    /// Whether what was noted down says the same. Where no compiler is at hand what an earlier one made stands.
    fn opens(&self, known: &str) -> bool {
        let parts: Vec<&str> = known.split_whitespace().collect();
        match parts.as_slice() {
            [sources, compiler, component] => {
                *sources == self.sources
                    && *component == self.component
                    && self.compiler.is_none_or(|identity| digest(identity.as_bytes()) == *compiler)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compiler = self.compiler.map_or_else(|| "unknown".to_owned(), |name| digest(name.as_bytes()));
        writeln!(f, "{} {compiler} {}", self.sources, self.component)
    }
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
        // The crate may bring a toolchain and a configuration of its own, from wherever it is built.
        .current_dir(&plugin.folder)
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
        .env("RUSTFLAGS", flags(plugin))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|cause| BuildError::Start { program, cause })?;
    if !status.success() {
        return Err(BuildError::Compile { name: plugin.name.clone(), status });
    }
    Ok(target.join(TARGET).join(profile).join(format!("{}.wasm", plugin.name.replace('-', "_"))))
}

/// Which compiler it is, and what it is told: either may be another tomorrow.
fn compiler(toolchain: &Toolchain, plugin: &Crate) -> Option<String> {
    toolchain.identity(&plugin.folder).map(|identity| format!("{identity}\n{OPTIONS}"))
}

const OPTIONS: &str = "-Ctarget-cpu=mvp \
                       -Ctarget-feature=+mutable-globals,+sign-ext,+nontrapping-fptoint,+multivalue,+reference-types";

/// What the compiler is told besides. Two builds in two folders give one component: no path of this machine is in it. And short
/// copies are the SDK's own: the instruction for it is a call of the host, which takes longer than most of them.
fn flags(plugin: &Crate) -> String {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let mut flags = format!("{OPTIONS} --remap-path-prefix={}=/plugin", plugin.workspace.display());
    if let Some(home) = home {
        flags.push_str(&format!(" --remap-path-prefix={}=/cargo", home.display()));
    }
    flags
}

fn componentize(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| BuildError::NotAPlugin { reason: format!("{error:#}") })
}

/// Refuses a component that a host could not give what it wants: better here than when it is loaded.
fn refuse_imports(wasm: &[u8]) -> Result<(), BuildError> {
    let not_a_plugin = |reason: String| BuildError::NotAPlugin { reason };
    let decoded = wit_component::decode(wasm).map_err(|error| not_a_plugin(format!("{error:#}")))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(not_a_plugin("it holds types alone".to_owned()));
    };
    let names: Vec<String> = resolve.worlds[world]
        .imports
        .iter()
        .filter(|(_, item)| match item {
            // An interface that is imported for its types needs nobody who implements it.
            WorldItem::Interface { id, .. } => {
                let interface = &resolve.interfaces[*id];
                let is_resource = |ty| matches!(resolve.types[ty].kind, TypeDefKind::Resource);
                !interface.functions.is_empty() || interface.types.values().any(|ty| is_resource(*ty))
            }
            WorldItem::Function(_) => true,
            WorldItem::Type { .. } => false,
        })
        .map(|(key, _)| match key {
            WorldKey::Name(name) => name.clone(),
            WorldKey::Interface(id) => resolve.id_of(*id).unwrap_or_else(|| "an interface".to_owned()),
        })
        .collect();
    if names.is_empty() { Ok(()) } else { Err(BuildError::Imports { names }) }
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
        // One set of features for a whole workspace would bring what the host needs into the guest.
        "CARGO_RESOLVER_FEATURE_UNIFICATION",
        "CARGO_UNSTABLE_FEATURE_UNIFICATION",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(component: &str) -> Result<(), String> {
        let wasm = wat::parse_str(component).expect("a component");
        refuse_imports(&wasm).map_err(|error| error.to_string())
    }

    #[test]
    fn a_component_that_wants_something_of_its_host_is_refused_by_name() {
        let error = refused(
            r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance (export "now" (func (result u64))))))"#,
        )
        .expect_err("it imports a clock");
        assert!(error.starts_with("the component imports wasi:clocks/wall-clock@0.2.0; a plugin"), "{error}");
    }

    #[test]
    fn a_component_stands_for_its_sources_and_its_compiler() {
        let key = |sources, compiler| Key { sources, compiler, component: "sha256:c" };
        let known = key("s", Some("rustc 1.95")).to_string();
        assert!(key("s", Some("rustc 1.95")).opens(&known));
        assert!(!key("s", Some("rustc 1.96")).opens(&known));
        assert!(!key("t", Some("rustc 1.95")).opens(&known));
        // Nothing could be built without a compiler, so what is there stands.
        assert!(key("s", None).opens(&known));
        assert!(!key("s", None).opens("s sha256:c"));
    }
}
