//! Config files: seen, written, removed and put back as they were.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use evenkeel_core::contract::Failure;
use rustix::fs::{self, AtFlags, FileType, OFlags, Stat};

use super::accounts;
use super::atomic::{self, Content};
use super::backups::{BACKUP_BYTES_MAX, Backups, Kept, KeptKind};
use super::digest::{sha256, sha256_of};
use super::notes::Notes;
use super::root::{DevicePath, Root, open_in};
use super::steps::Steps;
use super::trouble::{denied, invalid, not_found, with_file, with_path, with_state};
use crate::device::words::{Expect, FileKind, FileSeen};
use evenkeel_core::contract::FailureKind;

/// What a file is to be.
pub(super) struct Wanted<'w> {
    pub(super) bytes: &'w [u8],
    pub(super) mode: u32,
    pub(super) user: &'w str,
    pub(super) group: &'w str,
    pub(super) expect: Option<&'w Expect>,
    /// Whether what is there is kept.
    pub(super) backup: bool,
}

/// The files of a tree.
pub(super) struct Files {
    root: Root,
    backups: Backups,
    notes: Notes,
    /// Paths that nobody may manage, each with why not.
    protected: Vec<(String, String)>,
    steps: Steps,
}

impl Files {
    /// On a tree. What a power cut left half-written is removed.
    pub(super) fn open(
        root: Root,
        backups: Backups,
        notes: Notes,
        protected: Vec<(String, String)>,
        steps: Steps,
    ) -> io::Result<Self> {
        let mut files = Self { root, backups, notes, protected, steps };
        for path in files.notes.written() {
            let Ok(path) = DevicePath::parse(&path) else { continue };
            match files.root.parent(&path) {
                Ok((folder, name)) => {
                    atomic::remove(folder.as_fd(), &atomic::temporary(name))?;
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error),
            }
        }
        files.notes.settled()?;
        // The power may have gone between a file and the folders that were made for it.
        for folder in files.notes.folders() {
            match files.root.remove_if_empty(&folder) {
                Ok(true) => files.notes.unmade(&folder)?,
                Ok(false) => {}
                // Whatever is in the way now: it is no reason not to start.
                Err(error) => tracing::warn!(folder, %error, "a folder that was made cannot be looked at"),
            }
        }
        Ok(files)
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Why a path may not be managed; none where it may.
    pub(super) fn refused(&self, path: &str) -> Option<String> {
        let path = match DevicePath::parse(path) {
            Ok(path) => path,
            Err(error) => return Some(error.to_string()),
        };
        // What a link makes of the path counts, too: /var/run/x is /run/x.
        let real = self.real(&path);
        let refuse = |path: &DevicePath| {
            self.protected
                .iter()
                .find(|(folder, _)| path.is_below(folder))
                .map(|(_, why)| format!("{path} is {why}"))
        };
        refuse(&path).or_else(|| real.as_ref().and_then(refuse))
    }

    /// The path without links in its folders; none where they are not there yet.
    fn real(&self, path: &DevicePath) -> Option<DevicePath> {
        let (folder, name) = self.root.parent(path).ok()?;
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
        let real = std::fs::read_link(link).ok()?;
        let below = real.strip_prefix(self.root.path()).ok()?;
        DevicePath::parse(&format!("/{}", below.join(name).display())).ok()
    }

    /// What is at a path.
    pub(super) fn see(&self, text: &str) -> Result<FileSeen, Failure> {
        let refused = self.refused(text);
        let Ok(path) = DevicePath::parse(text) else {
            return Ok(FileSeen { refused, ..FileSeen::default() });
        };
        let trouble = |error: io::Error| with_file("look at", text, &error);
        let Some((folder, name, stat)) = self.stat(&path).map_err(trouble)? else {
            return Ok(FileSeen { seq: self.changed_above(&path), refused, ..FileSeen::default() });
        };
        let kind = kind(&stat);
        let sha256 = match kind {
            FileKind::File => digest_of(&folder, name).map_err(trouble)?,
            FileKind::Symlink => {
                format!("sha256:{}", sha256(link(&folder, name).map_err(trouble)?.as_bytes()))
            }
            FileKind::Dir | FileKind::Other => String::new(),
        };
        Ok(FileSeen {
            seq: changed(&stat),
            exists: true,
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            sha256,
            refused,
        })
    }

    /// What is there, if anything is.
    fn stat<'p>(&self, path: &'p DevicePath) -> io::Result<Option<(OwnedFd, &'p str, Stat)>> {
        let (folder, name) = match self.root.parent(path) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((folder, name, stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// When the nearest folder that is there changed: a file that vanishes changes it.
    fn changed_above(&self, path: &DevicePath) -> u64 {
        let mut above = path.folders();
        above.push("/".to_owned());
        let stat = above.iter().find_map(|folder| fs::fstat(self.root.folder(folder).ok()?).ok());
        stat.as_ref().map_or(0, changed)
    }

    /// Makes a file what it is to be. Nothing is written where it is that already.
    pub(super) fn write(&mut self, text: &str, wanted: &Wanted<'_>) -> Result<(), Failure> {
        let path = self.managed(text)?;
        let owner = self.owner(text, wanted)?;
        let trouble = |error: io::Error| with_file("write", text, &error);
        let seen = self.see(text)?;
        let digest = format!("sha256:{}", sha256(wanted.bytes));
        let as_wanted = seen.exists
            && seen.kind == FileKind::File
            && (seen.mode, &*seen.sha256) == (wanted.mode & 0o7777, &*digest)
            && owner.is_none_or(|owner| owner == (seen.uid, seen.gid));
        if as_wanted {
            return Ok(());
        }
        expected(text, wanted.expect, &seen)?;
        if seen.exists && !matches!(seen.kind, FileKind::File | FileKind::Symlink) {
            let what = if seen.kind == FileKind::Dir { "a folder" } else { "something that is no file" };
            return Err(invalid(format!("cannot write {text}: {what} is in the way")));
        }
        if wanted.backup && seen.exists {
            self.keep(&path, &seen)?;
        }
        let notes = &mut self.notes;
        self.root.make_parents(&path, &mut |folder| notes.making(folder)).map_err(trouble)?;
        notes.writing(text).map_err(|error| with_state("note", text, &error))?;
        let (folder, name) = self.root.parent(&path).map_err(trouble)?;
        let content = Content::File { bytes: wanted.bytes, mode: wanted.mode };
        let put = atomic::put(folder.as_fd(), name, &content, owner, &self.steps);
        put.map_err(|error| owner_trouble(text, wanted, &error).unwrap_or_else(|| trouble(error)))
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, text: &str, backup: bool) -> Result<(), Failure> {
        let path = self.managed(text)?;
        let seen = self.see(text)?;
        if backup && seen.exists {
            self.keep(&path, &seen)?;
        }
        self.take_away(&path, &seen)
    }

    /// Puts back what was there: what is kept under the digest, or nothing.
    pub(super) fn restore(&mut self, text: &str, backup: Option<&str>) -> Result<(), Failure> {
        let path = self.managed(text)?;
        let seen = self.see(text)?;
        let Some(digest) = backup else { return self.take_away(&path, &seen) };
        let kept =
            self.backups.get(text, digest).map_err(|error| with_state("read the backup of", text, &error))?;
        let Some((kept, bytes)) = kept else {
            // The power went before it was replaced.
            if seen.exists && seen.sha256 == digest {
                return Ok(());
            }
            return Err(not_found(format!("the backup {digest} of {text} is not there")));
        };
        let trouble = |error: io::Error| with_file("restore", text, &error);
        let bytes = match kept.kind {
            KeptKind::OsDefault => match self.os_default(&path).map_err(trouble)? {
                Some(bytes) => bytes,
                // This OS brings none along.
                None => return self.take_away(&path, &seen),
            },
            KeptKind::File | KeptKind::Link(_) => bytes,
        };
        let content = match &kept.kind {
            KeptKind::Link(to) => Content::Link(to),
            KeptKind::File | KeptKind::OsDefault => Content::File { bytes: &bytes, mode: kept.mode },
        };
        let same = match &content {
            Content::File { bytes, mode } => {
                seen.kind == FileKind::File
                    && seen.mode == *mode
                    && seen.sha256 == format!("sha256:{}", sha256(bytes))
            }
            Content::Link(_) => seen.kind == FileKind::Symlink && seen.sha256 == digest,
        };
        if seen.exists && same && (seen.uid, seen.gid) == (kept.uid, kept.gid) {
            return Ok(());
        }
        let owner = self.may_own().then_some((kept.uid, kept.gid));
        let notes = &mut self.notes;
        self.root.make_parents(&path, &mut |folder| notes.making(folder)).map_err(trouble)?;
        notes.writing(text).map_err(|error| with_state("note", text, &error))?;
        let (folder, name) = self.root.parent(&path).map_err(trouble)?;
        atomic::put(folder.as_fd(), name, &content, owner, &self.steps).map_err(trouble)
    }

    /// Removes backups that nobody needs any more.
    pub(super) fn prune(&mut self, wanted: &[(String, String)]) -> Result<(), Failure> {
        let trouble = |error: io::Error| with_state("clear", "the backups", &error);
        self.backups.prune(wanted).map_err(trouble)?;
        self.notes.settled().map_err(trouble)
    }

    fn managed(&self, text: &str) -> Result<DevicePath, Failure> {
        let path = DevicePath::parse(text).map_err(|error| with_path(&error))?;
        match self.refused(text) {
            Some(why) => Err(denied(format!("{why}: it is not managed"))),
            None => Ok(path),
        }
    }

    /// Whose the file is to be; none where the process can make it its own only, and that is what is asked for.
    fn owner(&self, text: &str, wanted: &Wanted<'_>) -> Result<Option<(u32, u32)>, Failure> {
        let missing =
            |what: &str, name: &str| invalid(format!("cannot write {text}: no {what} is called {name:?}"));
        let uid = accounts::user(&self.root, wanted.user).ok_or_else(|| missing("user", wanted.user))?;
        let gid = accounts::group(&self.root, wanted.group).ok_or_else(|| missing("group", wanted.group))?;
        // Somebody else's tree, as in a trial without being root: root's files become those of whoever tries.
        let trial = !self.root.is_machine() && !self.may_own() && (uid, gid) == (0, 0);
        Ok((!trial).then_some((uid, gid)))
    }

    fn may_own(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn keep(&self, path: &DevicePath, seen: &FileSeen) -> Result<(), Failure> {
        let text = path.as_str();
        let trouble = |error: io::Error| with_file("keep", text, &error);
        if seen.kind == FileKind::File && seen.size > BACKUP_BYTES_MAX {
            return Err(invalid(format!(
                "cannot keep {text}: it has more than {} MiB",
                BACKUP_BYTES_MAX >> 20
            )));
        }
        let (folder, name) = self.root.parent(path).map_err(trouble)?;
        let (kind, bytes) = match seen.kind {
            FileKind::Symlink => (KeptKind::Link(link(&folder, name).map_err(trouble)?), Vec::new()),
            FileKind::File => {
                let bytes = bytes_of(&folder, name).map_err(trouble)?;
                match self.os_default(path).map_err(trouble)? {
                    Some(default) if default == bytes => (KeptKind::OsDefault, Vec::new()),
                    _ => (KeptKind::File, bytes),
                }
            }
            FileKind::Dir | FileKind::Other => return Ok(()),
        };
        let kept = Kept {
            path: text.to_owned(),
            digest: seen.sha256.clone(),
            mode: seen.mode,
            uid: seen.uid,
            gid: seen.gid,
            kind,
        };
        self.backups.keep(&kept, &bytes).map_err(|error| with_state("keep", text, &error))
    }

    /// What the OS brings along at a path of `/etc`.
    fn os_default(&self, path: &DevicePath) -> io::Result<Option<Vec<u8>>> {
        let Some(below) = path.as_str().strip_prefix("/etc/") else { return Ok(None) };
        let Ok(default) = DevicePath::parse(&format!("/usr/etc/{below}")) else { return Ok(None) };
        match self.root.file(&default) {
            Ok(file) if file.metadata()?.is_file() => {
                let mut bytes = Vec::new();
                file.take(BACKUP_BYTES_MAX).read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn take_away(&mut self, path: &DevicePath, seen: &FileSeen) -> Result<(), Failure> {
        let text = path.as_str();
        let trouble = |error: io::Error| with_file("remove", text, &error);
        if seen.exists {
            if !matches!(seen.kind, FileKind::File | FileKind::Symlink) {
                return Err(invalid(format!("cannot remove {text}: it is no file")));
            }
            let (folder, name) = self.root.parent(path).map_err(trouble)?;
            atomic::remove(folder.as_fd(), name).map_err(trouble)?;
            self.steps.made("removed");
        }
        for folder in path.folders() {
            if !self.notes.made(&folder) || !self.root.remove_if_empty(&folder).map_err(trouble)? {
                break;
            }
            self.notes.unmade(&folder).map_err(|error| with_state("note", &folder, &error))?;
        }
        Ok(())
    }
}

fn expected(path: &str, expect: Option<&Expect>, seen: &FileSeen) -> Result<(), Failure> {
    let met = match expect {
        None => true,
        Some(Expect::Absent) => !seen.exists,
        Some(Expect::Sha256(digest)) => seen.exists && seen.sha256 == *digest,
    };
    let message = || format!("{path} is not as it was when this was decided");
    if met { Ok(()) } else { Err(Failure::new(FailureKind::Conflict, message())) }
}

/// Where the kernel does not let us give a file away.
fn owner_trouble(path: &str, wanted: &Wanted<'_>, error: &io::Error) -> Option<Failure> {
    let (user, group) = (wanted.user, wanted.group);
    (error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()))
        .then(|| denied(format!("cannot write {path}: it may not be given to {user}:{group}")))
}

fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// When content, mode, owner or name changed, in microseconds: no clock of ours, and it survives a restart.
fn changed(stat: &Stat) -> u64 {
    let seconds = u64::try_from(stat.st_ctime).unwrap_or_default();
    #[allow(clippy::useless_conversion, reason = "narrower on machines of 32 bits")]
    let nanos = u64::try_from(stat.st_ctime_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}

fn digest_of(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let file = std::fs::File::from(open_in(folder.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK)?);
    Ok(format!("sha256:{}", sha256_of(file)?))
}

fn bytes_of(folder: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::from(open_in(folder.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK)?);
    file.take(BACKUP_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn link(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let to = fs::readlinkat(folder, name, Vec::new())?;
    Ok(to.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
