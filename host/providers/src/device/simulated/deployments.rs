//! Deployments of an image-based OS: booted, staged, and the one to return to.

use std::collections::BTreeMap;

use super::config::OsConfig;
use super::disk::Tree;
use crate::device::words::{CheckState, OsImage, OsMode};

/// The deployments.
pub(super) struct Deployments {
    pub mode: OsMode,
    pub booted: OsImage,
    pub staged: Option<OsImage>,
    /// The one before, with the `/etc` that it was left with.
    pub rollback: Option<(OsImage, Tree)>,
    /// Whether the next boot is into it.
    pub returns: bool,
    pub check_seconds: Option<u64>,
    pub check: CheckState,
    digests: BTreeMap<String, String>,
    users: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Deployments {
    pub(super) fn new(config: OsConfig) -> Self {
        let OsConfig { mode, image, digest, check_seconds, digests, users } = config;
        let booted = match mode {
            OsMode::Image => OsImage { image, digest },
            OsMode::Package => OsImage::default(),
        };
        let check = if check_seconds.is_some() { CheckState::Passed } else { CheckState::None };
        Self {
            mode,
            booted,
            staged: None,
            rollback: None,
            returns: false,
            check_seconds,
            check,
            digests,
            users,
        }
    }

    /// An image as bootc tells it once it is deployed: of tag and digest the digest.
    pub(super) fn of(&self, reference: &str) -> OsImage {
        if let Some((name, digest)) = reference.split_once('@') {
            let name = match name.rsplit_once(':') {
                Some((name, tag)) if !tag.contains('/') => name,
                Some(_) | None => name,
            };
            return OsImage { image: format!("{name}@{digest}"), digest: digest.to_owned() };
        }
        let digest = self.digests.get(reference).cloned();
        OsImage {
            image: reference.to_owned(),
            digest: digest.unwrap_or_else(|| format!("sha256:of-{reference}")),
        }
    }

    /// Users that the booted image brings.
    pub(super) fn user(&self, name: &str) -> Option<u32> {
        self.users.get(&self.booted.image)?.get(name).copied()
    }
}
