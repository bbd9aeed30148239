//! The programs of a control plane: where they are, and how they are built.

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where this variable is set, a missing control plane fails a test instead of skipping it.
pub const DEMAND: &str = "EVENKEEL_DEMAND_CLUSTER";

/// The programs, the package of each, and about how many CPU-seconds it takes to build after those before it.
const PROGRAMS: [(&str, &str, u32); 4] = [
    ("etcd", "go.etcd.io/etcd/server/v3", 60),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 450),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 90),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl", 60),
];

/// The built programs of a control plane.
#[derive(Clone, Debug)]
pub struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// What was built before and still fits its recipe.
    pub fn find() -> Option<Parts> {
        let folder = folder();
        let key = fs::read_to_string(folder.join("key")).ok()?;
        let whole = PROGRAMS.iter().all(|(name, ..)| folder.join(name).is_file());
        (whole && key == recipe_key().ok()?).then_some(Parts { folder })
    }

    /// Builds what is missing; tells on stderr how far it is.
    ///
    /// # Errors
    /// Where Go is missing, or a program does not build.
    pub fn build() -> anyhow::Result<Parts> {
        if let Some(parts) = Parts::find() {
            eprintln!("kubernetes: {} is up to date", parts.folder.display());
            return Ok(parts);
        }
        let key =
            recipe_key().context("Go is needed to build a control plane: see https://go.dev/doc/install")?;
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let version = version()?;
        eprintln!("kubernetes: builds {version} into {}; cold it takes 6 to 15 minutes", folder.display());
        for (step, (name, package, seconds)) in PROGRAMS.iter().enumerate() {
            eprintln!("kubernetes: {} of {}, {name}: up to {seconds} CPU-seconds", step + 1, PROGRAMS.len());
            compile(&folder, package, &version).with_context(|| format!("cannot build {name}"))?;
        }
        fs::write(folder.join("key"), key)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Parts { folder })
    }

    /// The path of a program, such as `kubectl`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The programs for a test, built where [`DEMAND`] is set. Where there are none, says so aloud and gives nothing: the test
/// ends there.
///
/// # Panics
/// Where a control plane is demanded and cannot be built.
pub fn parts_or_skip(test: &str) -> Option<Parts> {
    if let Some(parts) = Parts::find() {
        return Some(parts);
    }
    if std::env::var_os(DEMAND).is_some() {
        match Parts::build() {
            Ok(parts) => return Some(parts),
            Err(error) => panic!("{test} demands a control plane ({DEMAND} is set): {error:#}"),
        }
    }
    eprintln!(
        "\n!!! SKIPPED: {test} needs a real control plane. Build it with: cargo run -p evenkeel-test-cluster -- build\n"
    );
    None
}

fn recipe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes")
}

/// Not below the folder that cargo is told to build into: one set of programs serves them all.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kubernetes")
}

/// What the programs depend on: the modules, this file and the version of Go.
fn recipe_key() -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = recipe().join(file);
        hash.update(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    hash.update(include_str!("parts.rs"));
    hash.update(go(&["version"])?);
    Ok(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}

fn version() -> anyhow::Result<String> {
    let version = go(&["list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"])?;
    Ok(version.trim().to_owned())
}

fn go(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(recipe())
        .stdin(Stdio::null())
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!("go {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn compile(folder: &Path, package: &str, version: &str) -> anyhow::Result<()> {
    let at = "k8s.io/component-base/version";
    let minor = version.trim_start_matches("v1.").split('.').next().unwrap_or_default();
    // Without these the server calls itself v0.0.0-master, which clients cannot parse; the fixed date makes two builds equal.
    let flags = format!(
        "-s -w -X {at}.gitVersion={version} -X {at}.gitMajor=1 -X {at}.gitMinor={minor} -X {at}.gitTreeState=clean \
         -X {at}.gitCommit=unknown -X {at}.buildDate=1970-01-01T00:00:00Z"
    );
    let name = package.rsplit('/').find(|part| *part != "v3" && *part != "server").unwrap_or(package);
    let status = Command::new("go")
        // Two at once keep the build at 2 GiB.
        .args(["build", "-p", "2", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(folder.canonicalize()?.join(name))
        .arg(package)
        .current_dir(recipe())
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .status()
        .context("cannot run go")?;
    if !status.success() {
        bail!("go build {package} failed ({status})");
    }
    Ok(())
}
