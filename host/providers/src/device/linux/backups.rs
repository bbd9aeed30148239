//! What stood at a path before it was managed, kept until nobody needs it any more.
//!
//! A backup is one file: a line that says what it was, and the bytes. It is found by path and digest, so what two paths held is
//! kept twice, each with its own mode and owner.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs;
use serde::{Deserialize, Serialize};

use super::atomic::{self, Content};
use super::digest::sha256;
use super::folder;
use super::steps::Steps;

/// Bytes of one file that is kept. Past it the state folder is no place for it.
pub(super) const BACKUP_BYTES_MAX: u64 = 64 << 20;

/// What a file or link was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kept {
    pub(super) path: String,
    /// Of the bytes, or of where the link led.
    pub(super) digest: String,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) kind: KeptKind,
}

/// What there is to put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeptKind {
    /// The bytes that follow.
    File,
    /// A link to there.
    Link(String),
    /// What the OS that is booted then has below `/usr/etc`.
    OsDefault,
}

/// The store.
pub(super) struct Backups {
    folder: OwnedFd,
    steps: Steps,
}

impl Backups {
    /// On a folder of ours.
    pub(super) fn new(folder: OwnedFd, steps: Steps) -> Self {
        Self { folder, steps }
    }

    /// Keeps what stood at a path. What is kept already stays.
    pub(super) fn keep(&self, kept: &Kept, bytes: &[u8]) -> io::Result<()> {
        let name = name(&kept.path, &kept.digest);
        if self.get(&kept.path, &kept.digest)?.is_some() {
            return Ok(());
        }
        let mut text = serde_json::to_vec(kept)?;
        text.push(b'\n');
        text.extend_from_slice(bytes);
        let content = Content::File { bytes: &text, mode: 0o600 };
        atomic::put(self.folder.as_fd(), &name, &content, None, &self.steps)
    }

    /// What was kept; none where it is not there, or is not what it should be.
    pub(super) fn get(&self, path: &str, digest: &str) -> io::Result<Option<(Kept, Vec<u8>)>> {
        let Some(text) = folder::read(&self.folder, &name(path, digest))? else { return Ok(None) };
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let (head, bytes) = text.split_at(end);
        let Ok(kept) = serde_json::from_slice::<Kept>(head) else { return Ok(None) };
        let bytes = bytes.get(1..).unwrap_or_default().to_vec();
        let whole = kept.kind != KeptKind::File || format!("sha256:{}", sha256(&bytes)) == kept.digest;
        Ok((whole && kept.path == path && kept.digest == digest).then_some((kept, bytes)))
    }

    /// Removes what nobody needs any more.
    pub(super) fn prune(&self, wanted: &[(String, String)]) -> io::Result<()> {
        let wanted: BTreeSet<String> = wanted.iter().map(|(path, digest)| name(path, digest)).collect();
        for entry in fs::Dir::read_from(&self.folder)? {
            let found = entry?.file_name().to_string_lossy().into_owned();
            if found.len() == 64 && !wanted.contains(&found) {
                atomic::remove(self.folder.as_fd(), &found)?;
            }
        }
        Ok(())
    }
}

fn name(path: &str, digest: &str) -> String {
    sha256(format!("{path}\0{digest}").as_bytes())
}
