//! What a plugin's component is made of: its crate, the crates beside it, the contract, the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{TARGET, clean};

/// Why a crate cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// There is no crate.
    #[error("{} has no Cargo.toml: is it the folder of a plugin's crate?", folder.display())]
    NoCrate {
        /// The folder.
        folder: PathBuf,
    },
    /// Cargo is not there.
    #[error("cannot start cargo: is Rust installed?")]
    NoCargo(#[source] io::Error),
    /// Cargo does not understand the crate.
    #[error("cargo cannot read the crate:\n{said}")]
    Metadata {
        /// What it said.
        said: String,
    },
    /// Cargo's answer makes no sense.
    #[error("cargo's description of the crate cannot be read")]
    Answer(#[source] serde_json::Error),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// A plugin's crate, as cargo sees it.
#[derive(Debug)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) workspace: PathBuf,
    /// The target folder of its workspace.
    pub(super) target: PathBuf,
    pub(super) has_guest_profile: bool,
    /// The folders of the crate and of all crates that it depends on by path.
    local: BTreeSet<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Crate {
    /// Asks cargo about the crate in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, SourcesError> {
        if !folder.join("Cargo.toml").is_file() {
            return Err(SourcesError::NoCrate { folder: folder.to_owned() });
        }
        // Cargo runs in it, so that the crate's own toolchain and configuration are taken.
        let folder =
            &folder.canonicalize().map_err(|cause| SourcesError::File { path: folder.to_owned(), cause })?;
        let manifest = folder.join("Cargo.toml");
        let output = clean("cargo")
            .current_dir(folder)
            .args(["metadata", "--format-version", "1", "--filter-platform", TARGET, "--manifest-path"])
            .arg(&manifest)
            .output()
            .map_err(SourcesError::NoCargo)?;
        if !output.status.success() {
            return Err(SourcesError::Metadata {
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout).map_err(SourcesError::Answer)?;
        Self::of(metadata, &manifest)
    }

    fn of(metadata: Metadata, manifest: &Path) -> Result<Self, SourcesError> {
        let Metadata { packages, workspace_root, target_directory, resolve } = metadata;
        let manifest = manifest
            .canonicalize()
            .map_err(|cause| SourcesError::File { path: manifest.to_owned(), cause })?;
        let is = |package: &&Package| package.manifest_path.canonicalize().is_ok_and(|path| path == manifest);
        let Some(root) = packages.iter().find(is) else {
            return Err(SourcesError::Metadata {
                said: format!("{} is a workspace without a crate", manifest.display()),
            });
        };
        let edges: BTreeMap<&str, &[String]> =
            resolve.nodes.iter().map(|node| (node.id.as_str(), node.dependencies.as_slice())).collect();
        let mut reached = BTreeSet::new();
        let mut open = vec![root.id.as_str()];
        while let Some(id) = open.pop() {
            if reached.insert(id) {
                open.extend(edges.get(id).into_iter().flat_map(|next| next.iter().map(String::as_str)));
            }
        }
        let local = packages
            .iter()
            .filter(|package| package.source.is_none() && reached.contains(package.id.as_str()))
            .filter_map(|package| package.manifest_path.parent().map(Path::to_owned))
            .collect();
        let workspace_manifest = workspace_root.join("Cargo.toml");
        let text = fs::read_to_string(&workspace_manifest)
            .map_err(|cause| SourcesError::File { path: workspace_manifest, cause })?;
        Ok(Self {
            name: root.name.clone(),
            folder: root.manifest_path.parent().map(Path::to_owned).unwrap_or_default(),
            has_guest_profile: text.contains("[profile.guest]"),
            target: target_directory,
            workspace: workspace_root,
            local,
        })
    }

    /// The hash of everything that the component is made of.
    pub(super) fn digest(&self) -> Result<String, SourcesError> {
        let mut files = BTreeSet::new();
        for folder in &self.local {
            collect(folder, BESIDE_SOURCES, &mut files)?;
            // The SDK reads the contract from beside itself.
            let contract = folder.join("../../wit");
            if contract.is_dir() {
                collect(&contract, &[], &mut files)?;
            }
        }
        for name in ["Cargo.toml", "Cargo.lock"] {
            let file = self.workspace.join(name);
            if file.is_file() {
                files.insert(file);
            }
        }
        let mut hasher = Sha256::new();
        hasher.update(env!("CARGO_PKG_VERSION"));
        for file in files {
            let bytes = fs::read(&file).map_err(|cause| SourcesError::File { path: file.clone(), cause })?;
            let name = file.strip_prefix(&self.workspace).unwrap_or(&file).display().to_string();
            for part in [name.as_bytes(), &bytes] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Folders of a crate that no component is made of. A crate in a checkout of a single plugin has its SDK under `vendor`, which
/// is a crate of its own here.
const BESIDE_SOURCES: &[&str] = &["target", "scenarios", "vendor", "tests"];

/// Every file below a folder that the compiler may read; `leave` is left out at its top.
fn collect(folder: &Path, leave: &[&str], files: &mut BTreeSet<PathBuf>) -> Result<(), SourcesError> {
    let cannot = |cause| SourcesError::File { path: folder.to_owned(), cause };
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || leave.contains(&&*name) {
            continue;
        }
        if entry.file_type().map_err(cannot)?.is_dir() {
            collect(&path, &[], files)?;
        } else if !name.ends_with(".md") {
            files.insert(path);
        }
    }
    Ok(())
}
