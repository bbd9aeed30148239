//! What the provider has to remember of paths over a power cut: folders that it made, and files that it is writing.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::atomic::{self, Content};
use super::folder;
use super::steps::Steps;

const FILE: &str = "paths.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Noted {
    /// Made on the way to a file, to be removed when they are empty.
    folders: BTreeSet<String>,
    /// Paths that may have a half-written file beside them if the power goes now.
    under_way: BTreeSet<String>,
}

/// The notes, in a file of the state folder; each is on the disk before what it announces.
pub(super) struct Notes {
    folder: OwnedFd,
    noted: Noted,
    steps: Steps,
}

impl Notes {
    /// Reads them. Notes that cannot be read are kept aside, and told: the second is their new name.
    pub(super) fn open(folder: OwnedFd, steps: Steps) -> io::Result<(Self, Option<String>)> {
        let read = folder::read(&folder, FILE)?;
        let (noted, aside) = match read.as_deref().map(serde_json::from_slice) {
            None => (Noted::default(), None),
            Some(Ok(noted)) => (noted, None),
            Some(Err(_)) => (Noted::default(), Some(folder::keep_aside(&folder, FILE)?)),
        };
        Ok((Self { folder, noted, steps }, aside))
    }

    /// A folder is about to be made.
    pub(super) fn making(&mut self, path: &str) -> io::Result<()> {
        self.change(|noted| noted.folders.insert(path.to_owned()))
    }

    /// Whether a folder was made by us.
    pub(super) fn made(&self, path: &str) -> bool {
        self.noted.folders.contains(path)
    }

    /// Folders that were made by us, those below before those above.
    pub(super) fn folders(&self) -> Vec<String> {
        self.noted.folders.iter().rev().cloned().collect()
    }

    /// A folder is gone again.
    pub(super) fn unmade(&mut self, path: &str) -> io::Result<()> {
        self.change(|noted| noted.folders.remove(path))
    }

    /// A file is about to be written there.
    pub(super) fn writing(&mut self, path: &str) -> io::Result<()> {
        self.change(|noted| noted.under_way.insert(path.to_owned()))
    }

    /// Paths that were written since the last [`Notes::settled`].
    pub(super) fn written(&self) -> Vec<String> {
        self.noted.under_way.iter().cloned().collect()
    }

    /// Nothing half-written is beside any path.
    pub(super) fn settled(&mut self) -> io::Result<()> {
        self.change(|noted| !std::mem::take(&mut noted.under_way).is_empty())
    }

    /// Changes the notes, on the disk first; nothing is written where nothing changes.
    fn change(&mut self, change: impl FnOnce(&mut Noted) -> bool) -> io::Result<()> {
        let mut next = self.noted.clone();
        if !change(&mut next) {
            return Ok(());
        }
        let text = serde_json::to_vec(&next)?;
        let content = Content::File { bytes: &text, mode: 0o600 };
        atomic::put(self.folder.as_fd(), FILE, &content, None, &self.steps)?;
        self.noted = next;
        Ok(())
    }
}
