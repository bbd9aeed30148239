//! A Rust toolchain that builds for wasm32: an installed one, else one that can be had.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::within::said;
use super::{Step, TARGET, clean};

/// A compiler that is asked what it is answers at once; one that is fetched first, by rustup, takes longer.
const ASK_MAX: Duration = Duration::from_secs(120);
/// Fetching one target: some tens of megabytes.
const ADD_TARGET_MAX: Duration = Duration::from_secs(180);
/// Fetching the lists of packages.
const APT_UPDATE_MAX: Duration = Duration::from_secs(180);
/// Fetching and unpacking the packages: some hundreds of megabytes.
const APT_INSTALL_MAX: Duration = Duration::from_secs(900);

/// What Debian's toolchain consists of.
pub(super) const APT_INSTALL: &str =
    "apt-get install -y --no-install-recommends rustc-web cargo-web rust-web-src rust-web-llvm lld-22";

/// Why there is no toolchain.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// None is installed, and none may be.
    #[error(
        "no toolchain builds for {TARGET}, and none may be installed. Install one by\n  rustup target add {TARGET}\nor, on Debian,\n  apt-get update && {APT_INSTALL}"
    )]
    NotInstalled,
    /// None is to be had.
    #[error(
        "no toolchain builds for {TARGET}: rustup could not add the target, and Debian's packages could not be installed. Tried\n  rustup target add {TARGET}\n  apt-get update && {APT_INSTALL}\nThe last said:\n{said}"
    )]
    NotToBeHad {
        /// What the last attempt said.
        said: String,
    },
}

/// A toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// The default one, with the target installed.
    Default,
    /// Debian's, which builds the standard library from source.
    Debian { rustc: PathBuf, cargo: PathBuf },
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default toolchain"),
            Self::Debian { .. } => f.write_str(
                "Debian's toolchain (the first time it builds the standard library, which takes minutes)",
            ),
        }
    }
}

impl Toolchain {
    /// Installs one, unless that is forbidden. `notes` is a folder in which a target that rustup could not add is remembered.
    pub(super) fn get(
        folder: &Path,
        no_install: bool,
        notes: &Path,
        progress: &mut dyn FnMut(&Step),
    ) -> Result<Self, ToolchainError> {
        if no_install {
            return Err(ToolchainError::NotInstalled);
        }
        let failed_before = notes.join(".rustup-has-no-target");
        if !failed_before.exists() {
            progress(&Step::AddingTarget);
            let mut add = clean("rustup");
            add.current_dir(folder).args(["target", "add", TARGET]);
            if said(&mut add, ADD_TARGET_MAX).is_ok()
                && let Some(toolchain) = Self::installed(folder)
            {
                return Ok(toolchain);
            }
            // Without this note each build would wait for the network again; deleting the target folder forgets it.
            let _ = fs::write(&failed_before, "");
        }
        progress(&Step::InstallingPackages);
        let outcome = said(&mut apt("apt-get update"), APT_UPDATE_MAX)
            .and_then(|_| said(&mut apt(APT_INSTALL), APT_INSTALL_MAX));
        Self::installed(folder).ok_or_else(|| ToolchainError::NotToBeHad {
            said: outcome.err().unwrap_or_else(|| "the packages brought no compiler".to_owned()),
        })
    }

    /// One that is there; `folder` is the crate's, which may choose a toolchain of its own.
    pub(super) fn installed(folder: &Path) -> Option<Self> {
        let mut ask = clean("rustc");
        ask.current_dir(folder).args(["--print", "target-libdir", "--target", TARGET]);
        if let Ok(libraries) = said(&mut ask, ASK_MAX)
            && Path::new(libraries.trim()).is_dir()
        {
            return Some(Self::Default);
        }
        let rustc = packaged("rustc-web", "/bin/rustc")?;
        let cargo = packaged("cargo-web", "/bin/cargo")?;
        packaged("rust-web-src", "/library/std/src/lib.rs")?;
        Some(Self::Debian { rustc, cargo })
    }

    /// The compiler's own name for itself, with its version and commit: another compiler makes another component.
    pub(super) fn identity(&self, folder: &Path) -> Option<String> {
        let mut ask = match self {
            Self::Default => clean("rustc"),
            Self::Debian { rustc, .. } => clean(rustc),
        };
        said(ask.current_dir(folder).args(["--version", "--verbose"]), ASK_MAX).ok()
    }

    /// A cargo command, to which the subcommand `build` is to be added first.
    pub(super) fn cargo(&self) -> Command {
        match self {
            Self::Default => clean("cargo"),
            Self::Debian { rustc, cargo } => {
                let mut command = clean(cargo);
                // The packages bring the standard library as source; building it is an unstable feature of cargo.
                command.args(["-Zbuild-std=std,panic_abort"]).env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
                command
            }
        }
    }
}

fn apt(line: &str) -> Command {
    let mut command = clean("sh");
    command.args(["-c", line]).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The file of a Debian package that ends so.
fn packaged(package: &str, ending: &str) -> Option<PathBuf> {
    let list = said(clean("dpkg").args(["-L", package]), ASK_MAX).ok()?;
    list.lines().find(|line| line.ends_with(ending)).map(PathBuf::from).filter(|path| path.exists())
}
