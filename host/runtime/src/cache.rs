//! Compiled components on disk, and what they said of themselves.
//!
//! Compiled code is native code, so the folder is this user's alone (0700), nothing in it comes from elsewhere, and a
//! file is used only while its bytes have the digest in its name. Files appear by rename and go by unlink and are never
//! written in place: a running host has them mapped.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// Begins the names of files under way.
const UNDER_WAY: &str = ".under-way-";
/// No compile takes as long as this.
const UNDER_WAY_SECONDS_MAX: i64 = 3600;

/// What a finished file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Native code.
    Code,
    /// A manifest, in JSON.
    Manifest,
}

impl Kept {
    /// Ends the names of such files.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Code => ".cwasm",
            Self::Manifest => ".manifest",
        }
    }
}

/// The folder of compiled components, each named `<key>-<digest of the file>.cwasm`, and of their manifests.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Files that were read whole, as they were then: one that is as it was is not read again for each rollback.
    whole: Mutex<HashMap<PathBuf, Stamp>>,
}

/// Tells a file from one that was changed: nobody but the kernel sets the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

/// One compiled component.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    size: u64,
    /// Last used, in seconds and nanoseconds.
    used: (i64, i64),
}

impl Cache {
    /// Opens a folder, making it if need be. Refuses one that others may write to.
    pub(crate) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = folder.symlink_metadata()?;
        if !metadata.is_dir() || !is_ours_alone(&metadata) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the folder of compiled plugins must belong to this user alone (mode 0700)",
            ));
        }
        Ok(Self { folder: folder.to_owned(), limit, whole: Mutex::default() })
    }

    /// What is kept under a key, if it is there and whole. A damaged file is removed.
    pub(crate) fn get(&self, kept: Kept, key: &str) -> io::Result<Option<PathBuf>> {
        for path in self.files_named(|path| digest_in_name(path, kept, key).is_some())? {
            let Some(digest) = digest_in_name(&path, kept, key) else { continue };
            if self.is_whole(&path, digest) {
                return Ok(Some(path));
            }
            tracing::warn!(path = %path.display(), "removed a damaged file of a compiled plugin");
            std::fs::remove_file(&path)?;
        }
        Ok(None)
    }

    /// Whether a file's bytes have this digest; it is noted as used then.
    fn is_whole(&self, path: &Path, digest: &str) -> bool {
        let known = || self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(path).copied();
        let was_whole = before.is_some() && before == stamp(path);
        // Being used changes it, too: what is noted is how it is after that.
        touch(path);
        let now = stamp(path);
        let is_whole = was_whole || digest_of_file(path).is_ok_and(|found| found == digest);
        match now.filter(|now| is_whole && stamp(path) == Some(*now)) {
            Some(now) => known().insert(path.to_owned(), now),
            None => known().remove(path),
        };
        is_whole
    }

    /// What was compiled of a component, for whichever hosts, as far as it is whole. Nothing of it is removed.
    #[cfg(any(test, not(feature = "compile")))]
    pub(crate) fn all_of(&self, component: &str) -> io::Result<Vec<PathBuf>> {
        let whole = |path: &PathBuf| {
            let name = rest_of_name(path, Kept::Code, component).and_then(|rest| rest.rsplit_once('-'));
            name.is_some_and(|(_, digest)| digest_of_file(path).is_ok_and(|found| found == digest))
        };
        Ok(self.files()?.into_iter().filter(whole).collect())
    }

    /// A file to compile into; it goes away unless it is put.
    pub(crate) fn file_under_way(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(UNDER_WAY).tempfile_in(&self.folder)
    }

    /// Keeps a finished file under its key. Code makes room where the folder has grown past its limit; a manifest is small,
    /// and waits for the next code with that, so that it does not push out the code that it belongs to.
    pub(crate) fn put(&self, kept: Kept, key: &str, file: NamedTempFile) -> io::Result<PathBuf> {
        let digest = digest_of_file(file.path())?;
        let path = self.folder.join(format!("{key}-{digest}{}", kept.suffix()));
        file.persist(&path)?;
        if kept == Kept::Code {
            self.make_room(&path)?;
            self.sweep(&path);
        }
        Ok(path)
    }

    /// Removes what a host that was killed while it compiled has left: files under way that are much older than one
    /// that was finished just now. A failure does not matter, the next time comes.
    fn sweep(&self, newest: &Path) {
        let Some(now) = entry(newest.to_owned()).map(|entry| entry.used.0) else { return };
        for file in self.folder.read_dir().into_iter().flatten().flatten() {
            let under_way = file.file_name().to_str().is_some_and(|name| name.starts_with(UNDER_WAY));
            let began = entry(file.path()).map_or(now, |entry| entry.used.0);
            if under_way && now.saturating_sub(began) > UNDER_WAY_SECONDS_MAX {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// Removes what was not used for longest until the rest fits; `keep` stays in any case.
    fn make_room(&self, keep: &Path) -> io::Result<()> {
        let mut entries: Vec<Entry> = self.files()?.into_iter().filter_map(entry).collect();
        entries.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
        let mut total: u64 = entries.iter().map(|entry| entry.size).sum();
        for entry in entries {
            if total <= self.limit {
                break;
            }
            // Another host on the same folder may have been faster.
            if entry.path != keep && std::fs::remove_file(&entry.path).is_ok() {
                total = total.saturating_sub(entry.size);
            }
        }
        Ok(())
    }

    /// All that is finished.
    fn files(&self) -> io::Result<Vec<PathBuf>> {
        self.files_named(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            [Kept::Code, Kept::Manifest].iter().any(|kept| name.ends_with(kept.suffix()))
        })
    }

    /// This user's files with such names.
    fn files_named(&self, is_meant: impl Fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for file in self.folder.read_dir()? {
            let file = file?;
            let path = file.path();
            // The name first: the rest is a question to the kernel for each.
            if is_meant(&path) && file.metadata().is_ok_and(|found| found.is_file() && is_ours(&found)) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.symlink_metadata().ok()?;
    let (place, changed) = ((found.dev(), found.ino()), (found.ctime(), found.ctime_nsec()));
    Some(Stamp { place, size: found.size(), changed })
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

fn is_ours_alone(metadata: &Metadata) -> bool {
    is_ours(metadata) && metadata.mode() & 0o077 == 0
}

/// The digest that a file's name notes, where the file holds that of this key, and not of a longer one.
fn digest_in_name<'a>(path: &'a Path, kept: Kept, key: &str) -> Option<&'a str> {
    rest_of_name(path, kept, key).filter(|rest| !rest.contains('-'))
}

/// What stands in a file's name behind the beginning of its key.
fn rest_of_name<'a>(path: &'a Path, kept: Kept, key: &str) -> Option<&'a str> {
    path.file_name()?.to_str()?.strip_suffix(kept.suffix())?.strip_prefix(key)?.strip_prefix('-')
}

fn entry(path: PathBuf) -> Option<Entry> {
    let metadata = path.symlink_metadata().ok()?;
    Some(Entry { size: metadata.size(), used: (metadata.mtime(), metadata.mtime_nsec()), path })
}

fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        digest.update(bytes);
    }
    Ok(hex(&digest.finalize()))
}

/// Notes that a file was used. It only steers what goes first when room is short, so a failure does not matter.
fn touch(path: &Path) {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    };
    let _ = File::open(path).is_ok_and(|file| rustix::fs::futimens(&file, &times).is_ok());
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn put(cache: &Cache, key: &str, content: &[u8]) -> io::Result<PathBuf> {
        let mut file = cache.file_under_way()?;
        file.write_all(content)?;
        cache.put(Kept::Code, key, file)
    }

    #[test]
    fn what_was_put_is_found_by_its_key_alone() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let path = put(&cache, "a-1", b"code")?;
        assert_eq!(cache.get(Kept::Code, "a-1")?.as_ref(), Some(&path));
        assert_eq!(cache.get(Kept::Code, "a")?, None);
        assert_eq!(cache.get(Kept::Code, "a-2")?, None);
        assert_eq!(cache.get(Kept::Manifest, "a-1")?, None);
        assert_eq!(cache.get(Kept::Code, "a-1")?, Some(path), "whoever asks for another leaves it alone");
        Ok(())
    }

    #[test]
    fn code_and_manifest_of_one_key_are_two_files() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let code = put(&cache, "a", b"code")?;
        let mut file = cache.file_under_way()?;
        file.write_all(b"{}")?;
        let manifest = cache.put(Kept::Manifest, "a", file)?;
        assert_eq!(cache.get(Kept::Code, "a")?, Some(code.clone()));
        assert_eq!(cache.get(Kept::Manifest, "a")?, Some(manifest));
        assert_eq!(cache.all_of("a-1")?, Vec::<PathBuf>::new());
        assert_ne!(code.extension(), Some("manifest".as_ref()));
        Ok(())
    }

    #[test]
    fn what_was_compiled_elsewhere_is_found_by_its_component_if_it_is_whole() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let (one, two) = (put(&cache, "a-1", b"code")?, put(&cache, "a-2", b"other code")?);
        put(&cache, "b-1", b"code")?;
        assert_eq!(cache.all_of("a")?, [one.clone(), two.clone()]);
        std::fs::write(&one, b"evil")?;
        assert_eq!(cache.all_of("a")?, [two]);
        assert!(one.exists(), "whoever installed it may want to see it");
        Ok(())
    }

    #[test]
    fn a_damaged_file_is_removed_and_not_used() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let path = put(&cache, "a", b"code")?;
        std::fs::write(&path, b"evil")?;
        assert_eq!(cache.get(Kept::Code, "a")?, None);
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn what_was_whole_is_read_again_once_it_is_not_as_it_was() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let path = put(&cache, "a", b"code")?;
        for _ in 0..3 {
            assert_eq!(cache.get(Kept::Code, "a")?.as_ref(), Some(&path));
        }
        // As long as it was, and in its place.
        let times = path.metadata()?;
        std::fs::write(&path, b"evil")?;
        File::open(&path)?.set_modified(times.modified()?)?;
        assert_eq!(cache.get(Kept::Code, "a")?, None);
        Ok(())
    }

    #[test]
    fn a_folder_that_others_can_read_is_refused() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let refused = Cache::open(folder.path(), 100);
        assert!(refused.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied));
        Ok(())
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_newest_stays() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 10)?;
        let age = |path: &Path, seconds: i64| {
            let then = Timespec { tv_sec: seconds, tv_nsec: 0 };
            rustix::fs::futimens(
                File::open(path)?,
                &Timestamps { last_access: then, last_modification: then },
            )?;
            io::Result::Ok(())
        };
        age(&put(&cache, "a", b"12345")?, 1)?;
        age(&put(&cache, "b", b"12345")?, 2)?;
        cache.get(Kept::Code, "a")?;
        put(&cache, "c", b"1")?;
        assert!(
            cache.get(Kept::Code, "b")?.is_none()
                && cache.get(Kept::Code, "a")?.is_some()
                && cache.get(Kept::Code, "c")?.is_some()
        );
        put(&cache, "d", b"more than fits")?;
        assert!(cache.get(Kept::Code, "d")?.is_some() && cache.get(Kept::Code, "a")?.is_none());
        Ok(())
    }

    #[test]
    fn what_a_killed_host_left_behind_is_swept_up() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 100)?;
        let (_, left) = cache.file_under_way()?.keep()?;
        let (_, young) = cache.file_under_way()?.keep()?;
        let then = Timespec { tv_sec: 1, tv_nsec: 0 };
        rustix::fs::futimens(File::open(&left)?, &Timestamps { last_access: then, last_modification: then })?;
        put(&cache, "a", b"code")?;
        assert!(!left.exists() && young.exists());
        Ok(())
    }

    #[test]
    fn a_file_under_way_that_is_dropped_leaves_nothing() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let cache = Cache::open(&folder.path().join("compiled"), 10)?;
        drop(cache.file_under_way()?);
        assert_eq!(folder.path().join("compiled").read_dir()?.count(), 0);
        Ok(())
    }
}
