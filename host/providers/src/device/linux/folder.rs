//! Files of our own folders, which nobody else has a business in.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::root::open_in;

/// Copies of spoilt files that are kept, of one name.
const ASIDE_MAX: u32 = 10_000;

/// All of a file; none where it is not there.
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
    for number in 1..ASIDE_MAX {
        let aside = format!("{name}.corrupt-{number}");
        match fs::linkat(folder, name, folder, &aside, AtFlags::empty()) {
            Ok(()) => {
                fs::fsync(folder)?;
                return Ok(aside);
            }
            // After a crash between the two names and the new file the copy is there already.
            Err(Errno::EXIST) if same(folder, name, &aside)? => return Ok(aside),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("too many copies were kept aside"))
}

fn same(folder: &OwnedFd, one: &str, other: &str) -> io::Result<bool> {
    let stat = |name: &str| fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let (one, other) = (stat(one)?, stat(other)?);
    Ok(one.st_ino == other.st_ino && one.st_dev == other.st_dev)
}

/// Makes a folder below another, for its owner alone, and opens it.
pub(super) fn private(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match fs::mkdirat(above, name, Mode::RWXU) {
        Ok(()) => fs::fsync(above)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open_in(above.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)
}
