//! Builds the simulator once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

/// Where this variable is set, a simulator that cannot be built fails a test instead of skipping it.
pub const DEMAND: &str = "EVENKEEL_DEMAND_VCSIM";

/// The program, built where it is not; cold that takes one to three minutes. Where it cannot be built, says so aloud
/// and gives nothing.
///
/// # Panics
/// Where it is demanded and cannot be built.
pub fn program_or_skip(test: &str) -> Option<PathBuf> {
    match program() {
        Ok(program) => Some(program),
        Err(error) if std::env::var_os(DEMAND).is_some() => {
            panic!("{test} demands vcsim ({DEMAND} is set): {error:#}")
        }
        Err(error) => {
            eprintln!("\n!!! SKIPPED: {test} needs vcsim, which cannot be built: {error:#}\n");
            None
        }
    }
}

/// The program, built where it is not.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vcsim");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    // Tests of several processes start at once: one builds, the others wait for it.
    let lock = File::create(folder.join("lock")).context("cannot make a lock file")?;
    lock.lock().context("cannot take the lock")?;
    let (program, key_file, key) = (folder.join("vcsim"), folder.join("key"), recipe_key()?);
    if program.is_file() && fs::read_to_string(&key_file).is_ok_and(|built| built == key) {
        return Ok(program);
    }
    eprintln!("vcsim: builds into {}; cold it takes one to three minutes", folder.display());
    let output = Command::new("go")
        .args(["build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(recipe())
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .output()
        .context("Go is needed: see https://go.dev/doc/install")?;
    if !output.status.success() {
        bail!("go build: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::write(&key_file, key).context("cannot write the key")?;
    Ok(program)
}

fn recipe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("simulator")
}

/// What the program depends on.
fn recipe_key() -> anyhow::Result<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(recipe())?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
