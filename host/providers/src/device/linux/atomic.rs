//! A file that is there as a whole or not at all, whenever the power goes.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::digest::sha256;
use super::steps::Steps;

/// What is put in the place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'c> {
    /// A file with these bytes and permission bits.
    File {
        /// All of them.
        bytes: &'c [u8],
        /// With setuid, setgid and sticky.
        mode: u32,
    },
    /// A link to there.
    Link(&'c str),
}

/// Whose it becomes; none to leave it to the process.
pub(super) type Owner = Option<(u32, u32)>;

/// The name under which a file is written before it takes its place. The same for the same file, so that what a crash leaves
/// behind is found.
pub(super) fn temporary(name: &str) -> String {
    let digest = sha256(name.as_bytes());
    format!(".evenkeel-{}.tmp", digest.get(..16).unwrap_or(&digest))
}

/// Puts a file or link in a folder, in the place of whatever file or link has that name: mode, owner and bytes are on the disk
/// before the name stands for them.
///
/// # Errors
/// What the kernel says. What was there is still there then, and nothing else is left.
pub(super) fn put(
    folder: BorrowedFd<'_>,
    name: &str,
    content: &Content<'_>,
    owner: Owner,
    steps: &Steps,
) -> io::Result<()> {
    let temporary = temporary(name);
    remove(folder, &temporary)?;
    let written = content.write(folder, &temporary, owner, steps).and_then(|()| {
        fs::renameat(folder, &temporary, folder, name)?;
        steps.made("renamed");
        Ok(fs::fsync(folder)?)
    });
    if written.is_err() {
        // Best effort: a disk that is full takes a removal, one that is gone takes nothing.
        let _ = remove(folder, &temporary);
    } else {
        steps.made("folder synced");
    }
    written
}

impl Content<'_> {
    /// Makes it under a name that is free.
    fn write(&self, folder: BorrowedFd<'_>, name: &str, owner: Owner, steps: &Steps) -> io::Result<()> {
        let ids = owner.map(|(uid, gid)| (Uid::from_raw(uid), Gid::from_raw(gid)));
        match self {
            Content::File { bytes, mode } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // Nobody else may open it before it has its owner and mode.
                let mut file = std::fs::File::from(fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
                steps.made("made");
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                file.write_all(first)?;
                steps.made("half written");
                file.write_all(rest)?;
                if let Some((uid, gid)) = ids {
                    fs::fchown(&file, Some(uid), Some(gid))?;
                }
                // After the owner: a change of owner takes setuid away.
                fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
                file.sync_all()?;
            }
            Content::Link(to) => {
                fs::symlinkat(*to, folder, name)?;
                if let Some((uid, gid)) = ids {
                    fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                }
            }
        }
        steps.made("written");
        Ok(())
    }
}

/// Removes a file or link; one that is not there is removed already. Whether it was there.
pub(super) fn remove(folder: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) => {
            fs::fsync(folder.as_fd())?;
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
