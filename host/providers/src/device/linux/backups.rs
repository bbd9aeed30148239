//! What stood at a path before it was managed, kept until it is put back.
//!
//! A backup is one file, named by its fingerprint: a line that says what it was, and the bytes. Which path has which stands in
//! an index, which is written before the path is touched: a second try after a crash would else keep our own file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::atomic::{self, Content};
use super::digest::sha256;
use super::root::open_in;
use super::steps::Steps;

const INDEX: &str = "index.json";
/// Stands for what the booted OS has below `/usr/etc`.
pub(super) const OS_DEFAULT: &str = "os-default";
/// A file past this is not kept: the state folder is no place for it.
pub(super) const BACKUP_BYTES_MAX: u64 = 64 << 20;

/// What a file or link was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kept {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Where it led, if it was a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
}

/// What is known of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    /// By path: the backup, or none where nothing was there.
    #[serde(default)]
    paths: BTreeMap<String, Option<String>>,
    /// Folders that were made on the way to a file, to be removed when they are empty.
    #[serde(default)]
    folders: BTreeSet<String>,
    /// Paths that may have a half-written file beside them if the power goes now.
    #[serde(default)]
    under_way: BTreeSet<String>,
}

/// The store.
pub(super) struct Backups {
    folder: OwnedFd,
    index: Index,
    steps: Steps,
}

impl Backups {
    /// Opens the store in its folder. An index that cannot be read is kept aside, and told: `Some` is its new name.
    pub(super) fn open(folder: OwnedFd, steps: Steps) -> io::Result<(Self, Option<String>)> {
        let read = read(&folder, INDEX)?;
        let index = match read.as_deref().map(serde_json::from_slice::<Index>) {
            None => Ok(Index::default()),
            Some(index) => index,
        };
        let mut aside = None;
        let index = match index {
            Ok(index) => index,
            Err(_) => {
                aside = Some(keep_aside(&folder, INDEX)?);
                Index::default()
            }
        };
        Ok((Self { folder, index, steps }, aside))
    }

    /// What is noted for a path: none where it is not managed.
    pub(super) fn of(&self, path: &str) -> Option<Option<&str>> {
        self.index.paths.get(path).map(Option::as_deref)
    }

    /// Keeps what stood there, and notes it for the path; `None` where nothing did.
    pub(super) fn keep(&mut self, path: &str, stood: Option<(&Kept, &[u8])>) -> io::Result<Option<String>> {
        let digest = match stood {
            None => None,
            Some((kept, bytes)) => {
                let mut text = serde_json::to_vec(kept)?;
                text.push(b'\n');
                text.extend_from_slice(bytes);
                let hex = sha256(&text);
                let content = Content::File { bytes: &text, mode: 0o600 };
                atomic::put(self.folder.as_fd(), &hex, &content, None, &self.steps)?;
                Some(format!("sha256:{hex}"))
            }
        };
        self.note(path, digest.clone())?;
        Ok(digest)
    }

    /// Notes that what stood at the path is what the OS brings along.
    pub(super) fn keep_os_default(&mut self, path: &str) -> io::Result<Option<String>> {
        self.note(path, Some(OS_DEFAULT.to_owned()))?;
        Ok(Some(OS_DEFAULT.to_owned()))
    }

    fn note(&mut self, path: &str, digest: Option<String>) -> io::Result<()> {
        self.change(|index| index.paths.insert(path.to_owned(), digest) != None)
    }

    /// A backup by its digest; none where it is not there or is not what it should be.
    pub(super) fn get(&self, digest: &str) -> io::Result<Option<(Kept, Vec<u8>)>> {
        let Some(hex) = digest.strip_prefix("sha256:").filter(|hex| is_hex(hex)) else { return Ok(None) };
        let Some(text) = read(&self.folder, hex)?.filter(|text| sha256(text) == hex) else { return Ok(None) };
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let (head, bytes) = text.split_at(end);
        let kept = serde_json::from_slice(head).ok();
        Ok(kept.map(|kept| (kept, bytes.get(1..).unwrap_or_default().to_vec())))
    }

    /// The path is as it was before it was managed.
    pub(super) fn forget(&mut self, path: &str) -> io::Result<()> {
        if !self.index.paths.contains_key(path) {
            return Ok(());
        }
        self.change(|index| index.paths.remove(path).is_some())
    }

    /// A folder is about to be made.
    pub(super) fn note_folder(&mut self, folder: &str) -> io::Result<()> {
        if self.index.folders.contains(folder) {
            return Ok(());
        }
        self.change(|index| index.folders.insert(folder.to_owned()))
    }

    /// Whether the folder was made by us.
    pub(super) fn made(&self, folder: &str) -> bool {
        self.index.folders.contains(folder)
    }

    /// The folder is gone again.
    pub(super) fn forget_folder(&mut self, folder: &str) -> io::Result<()> {
        self.change(|index| index.folders.remove(folder))
    }

    /// A file is about to be written there.
    pub(super) fn begin(&mut self, path: &str) -> io::Result<()> {
        if self.index.under_way.contains(path) {
            return Ok(());
        }
        self.change(|index| index.under_way.insert(path.to_owned()))
    }

    /// Paths that were being written when the power went, at some time since the last [`Backups::settled`].
    pub(super) fn under_way(&self) -> Vec<String> {
        self.index.under_way.iter().cloned().collect()
    }

    /// Nothing half-written is beside any path.
    pub(super) fn settled(&mut self) -> io::Result<()> {
        if self.index.under_way.is_empty() {
            return Ok(());
        }
        self.change(|index| {
            index.under_way.clear();
            true
        })
    }

    /// Removes backups that no path has any more.
    pub(super) fn prune(&self) -> io::Result<()> {
        let wanted: BTreeSet<&str> =
            self.index.paths.values().flatten().filter_map(|digest| digest.strip_prefix("sha256:")).collect();
        for entry in fs::Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_hex(&name) && !wanted.contains(&*name) {
                atomic::remove(self.folder.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    /// Changes the index, on the disk first.
    fn change(&mut self, change: impl FnOnce(&mut Index) -> bool) -> io::Result<()> {
        let mut next = self.index.clone();
        change(&mut next);
        let text = serde_json::to_vec(&next)?;
        let content = Content::File { bytes: &text, mode: 0o600 };
        atomic::put(self.folder.as_fd(), INDEX, &content, None, &self.steps)?;
        self.index = next;
        Ok(())
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A file of a folder of ours; none where it is not there.
pub(super) fn read(folder: &OwnedFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = match open_in(folder.as_fd(), name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = Vec::new();
    std::fs::File::from(file).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Gives what a file holds now a second name that is free, `<name>.corrupt-<n>`, and tells it. At no moment is it without one.
pub(super) fn keep_aside(folder: &OwnedFd, name: &str) -> io::Result<String> {
    for number in 1..10_000_u32 {
        let aside = format!("{name}.corrupt-{number}");
        match fs::linkat(folder, name, folder, &aside, AtFlags::empty()) {
            Ok(()) => {
                fs::fsync(folder)?;
                return Ok(aside);
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("too many files were kept aside"))
}

/// Makes a folder of ours below another, for its owner alone, and opens it.
pub(super) fn private_folder(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match fs::mkdirat(above, name, Mode::RWXU) {
        Ok(()) => fs::fsync(above)?,
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open_in(above.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)
}
