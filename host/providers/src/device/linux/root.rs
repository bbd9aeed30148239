//! The folder tree that the provider may touch, `/` on a device and any other in tests.
//!
//! Paths are looked up as if that folder were `/`: an absolute link, or one with `..`, ends below it and nowhere else. The
//! kernel does that (`openat2`), in one step, so nobody can exchange a folder for a link between a check and its use.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Bytes of a path, as the kernel has it.
const PATH_BYTES_MAX: usize = 4095;
/// Bytes of one name in a path.
const NAME_BYTES_MAX: usize = 255;
/// Of folders that are made on the way to a file.
const FOLDER_MODE: u32 = 0o755;

/// An absolute path that was looked at: no `..`, nothing empty, not too long.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DevicePath(String);

/// Why a path is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It depends on where one stands.
    #[error("{0:?} is not absolute")]
    NotAbsolute(String),
    /// It may lead out.
    #[error("{0:?} has a part that is \"..\", \".\" or empty")]
    Part(String),
    /// It names no file.
    #[error("{0:?} names no file")]
    NoName(String),
    /// It has a byte that no path has.
    #[error("{0:?} has a zero byte")]
    Zero(String),
    /// The kernel would refuse it.
    #[error("the path {0:?}… is too long")]
    TooLong(String),
}

impl DevicePath {
    /// Looks at a path.
    ///
    /// # Errors
    /// Unless it is absolute, has a name, and no part of it is `..`, `.`, empty or too long.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let cut = || text.chars().take(80).collect::<String>();
        let Some(rest) = text.strip_prefix('/') else { return Err(PathError::NotAbsolute(cut())) };
        if text.contains('\0') {
            return Err(PathError::Zero(cut()));
        }
        if rest.is_empty() || rest.ends_with('/') {
            return Err(PathError::NoName(cut()));
        }
        if text.len() > PATH_BYTES_MAX || rest.split('/').any(|part| part.len() > NAME_BYTES_MAX) {
            return Err(PathError::TooLong(cut()));
        }
        if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(PathError::Part(cut()));
        }
        Ok(Self(text.to_owned()))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder, "" for the root itself, and the name.
    pub(super) fn split(&self) -> (&str, &str) {
        let rest = self.0.get(1..).unwrap_or_default();
        rest.rsplit_once('/').unwrap_or(("", rest))
    }

    /// The folders above, the nearest first; without the root.
    pub(super) fn folders(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut rest = self.split().0;
        while !rest.is_empty() {
            found.push(format!("/{rest}"));
            rest = rest.rsplit_once('/').map_or("", |(above, _)| above);
        }
        found
    }

    /// Whether it is this folder or below it.
    pub fn is_below(&self, folder: &str) -> bool {
        self.0.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The tree.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens the tree at a folder that is there.
    ///
    /// # Errors
    /// If it is none, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let folder = fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { folder, path })
    }

    /// Where it is on this machine.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is the machine's own.
    pub fn is_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// A path of the tree as this machine names it, for programs and watches alone: it follows no rule of this module.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    fn resolve(&self, relative: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let relative = if relative.is_empty() { "." } else { relative };
        loop {
            match fs::openat2(&self.folder, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // The kernel lost a race with a rename above, and asks to be asked again.
                Err(Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Opens a folder of the tree.
    pub(super) fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        self.resolve(path.trim_start_matches('/'), OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The folder of a path, and its name in there.
    pub(super) fn parent<'p>(&self, path: &'p DevicePath) -> io::Result<(OwnedFd, &'p str)> {
        let (folder, name) = path.split();
        Ok((self.folder(folder)?, name))
    }

    /// Opens a file for reading; a link is followed, within the tree.
    pub(super) fn file(&self, path: &DevicePath) -> io::Result<std::fs::File> {
        let relative = path.as_str().trim_start_matches('/');
        Ok(self.resolve(relative, OFlags::RDONLY | OFlags::NONBLOCK)?.into())
    }

    /// The names in a folder, sorted; none where there is no folder.
    pub(super) fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let folder = match self.folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes the folders above a path, where they are not there; tells of each before it is made.
    pub(super) fn make_parents(
        &self,
        path: &DevicePath,
        before: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        for folder in path.folders().iter().rev() {
            match self.folder(folder) {
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            before(folder)?;
            let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
            let above = self.folder(above)?;
            match fs::mkdirat(&above, name, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) => {
                    // The caller's umask is no business of the device.
                    let made = open_in(above.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    fs::fchmod(&made, Mode::from_raw_mode(FOLDER_MODE))?;
                    fs::fsync(&above)?;
                }
                // A link to nowhere: `mkdir` does not follow it, and nothing is to be made behind it.
                Err(Errno::EXIST) => return Err(io::Error::from(Errno::NOTDIR)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes a folder if it is empty; whether it did.
    pub(super) fn remove_if_empty(&self, path: &str) -> io::Result<bool> {
        let Some((above, name)) = path.rsplit_once('/') else { return Ok(false) };
        let above = match self.folder(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            other => other?,
        };
        match fs::unlinkat(&above, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                fs::fsync(&above)?;
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::BUSY) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a name in a folder, and follows no link.
pub(super) fn open_in(folder: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(fs::openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_could_lead_out_is_none() {
        let long = format!("/{}", "x".repeat(256));
        for (text, words) in [
            ("etc/motd", "not absolute"),
            ("", "not absolute"),
            ("/", "names no file"),
            ("/etc/", "names no file"),
            ("/../etc/passwd", "has a part"),
            ("/etc/../../x", "has a part"),
            ("/etc//x", "has a part"),
            ("/etc/./x", "has a part"),
            ("/a\0b", "zero byte"),
            (&long, "too long"),
        ] {
            let error = DevicePath::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        assert_eq!(DevicePath::parse("/etc/..x").expect("a name").split(), ("etc", "..x"));
    }

    #[test]
    fn a_link_ends_below_the_root_whatever_it_says() {
        let (outside, inside) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("secret"), "x").expect("a file");
        symlink(outside.path(), inside.path().join("absolute")).expect("a link");
        symlink("../../../../../../..", inside.path().join("relative")).expect("a link");
        let root = Root::open(inside.path()).expect("a root");
        let read = |path: &str| {
            root.file(&DevicePath::parse(path).expect("a path")).map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(read("/absolute/secret"), Err(io::ErrorKind::NotFound));
        let through = format!("/relative{}/secret", outside.path().display());
        assert_eq!(read(&through), Err(io::ErrorKind::NotFound));
        std::fs::write(inside.path().join("own"), "y").expect("a file");
        assert_eq!(read("/relative/own"), Ok(()));
    }

    #[test]
    fn folders_are_made_from_above_and_none_behind_a_link_to_nowhere() {
        let inside = tempfile::tempdir().expect("a folder");
        let root = Root::open(inside.path()).expect("a root");
        let mut told = Vec::new();
        let path = DevicePath::parse("/a/b/c").expect("a path");
        root.make_parents(&path, &mut |folder| {
            told.push(folder.to_owned());
            Ok(())
        })
        .expect("they are made");
        assert_eq!(told, ["/a", "/a/b"]);
        symlink("/nowhere", inside.path().join("link")).expect("a link");
        let path = DevicePath::parse("/link/x").expect("a path");
        let error = root.make_parents(&path, &mut |_| Ok(())).expect_err("nothing is made");
        assert_eq!(error.raw_os_error(), Some(Errno::NOTDIR.raw_os_error()));
        assert!(root.remove_if_empty("/a/b").expect("it is empty"));
        assert!(!inside.path().join("a/b").exists());
    }
}
