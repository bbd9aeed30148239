//! A Rust toolchain that builds for wasm32: an installed one, else one that can be had.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Step, TARGET, clean};

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
    /// An installed toolchain; else one that is installed now, unless that is forbidden. `notes` is a folder in which a
    /// target that rustup could not add is remembered.
    pub(super) fn find(
        no_install: bool,
        notes: &Path,
        progress: &mut dyn FnMut(&Step),
    ) -> Result<Self, ToolchainError> {
        if let Some(toolchain) = Self::installed() {
            return Ok(toolchain);
        }
        if no_install {
            return Err(ToolchainError::NotInstalled);
        }
        let failed_before = notes.join(".rustup-has-no-target");
        if !failed_before.exists() {
            progress(&Step::AddingTarget);
            if said(clean("rustup").args(["target", "add", TARGET])).is_ok()
                && let Some(toolchain) = Self::installed()
            {
                return Ok(toolchain);
            }
            // Without this note each build would wait for the network again; deleting the target folder forgets it.
            let _ = fs::write(&failed_before, "");
        }
        progress(&Step::InstallingPackages);
        let mut install = clean("sh");
        install
            .args(["-c", &format!("apt-get update && {APT_INSTALL}")])
            .env("DEBIAN_FRONTEND", "noninteractive");
        let outcome = said(&mut install);
        Self::installed().ok_or_else(|| ToolchainError::NotToBeHad {
            said: outcome.err().unwrap_or_else(|| "the packages brought no compiler".to_owned()),
        })
    }

    fn installed() -> Option<Self> {
        let mut ask = clean("rustc");
        ask.args(["--print", "target-libdir", "--target", TARGET]);
        if let Ok(folder) = said(&mut ask)
            && Path::new(folder.trim()).is_dir()
        {
            return Some(Self::Default);
        }
        let rustc = packaged("rustc-web", "/bin/rustc")?;
        let cargo = packaged("cargo-web", "/bin/cargo")?;
        packaged("rust-web-src", "/library/std/src/lib.rs")?;
        Some(Self::Debian { rustc, cargo })
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

/// The file of a Debian package that ends so.
fn packaged(package: &str, ending: &str) -> Option<PathBuf> {
    let list = said(clean("dpkg").args(["-L", package])).ok()?;
    list.lines().find(|line| line.ends_with(ending)).map(PathBuf::from).filter(|path| path.exists())
}

/// What a command prints; what it complains of, where it fails.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = complaint.lines().collect();
    Err(lines[lines.len().saturating_sub(12)..].join("\n"))
}
