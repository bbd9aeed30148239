//! The file: read whole once, then only appended to, now and then written anew.

use super::line::{Transaction, seal, unseal};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What the first line says.
const HEADER: &[u8] = b"{\"evenkeel-sandbox\":1}";
/// The file is written anew when it has this many times the bytes of what it holds …
const GROWTH: u64 = 4;
/// … but not while it is small.
const SMALL: u64 = 4 << 20;

/// Why a file of a sandbox cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused to read or write.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// Another process has it open.
    #[error("{path} is open in another process")]
    Locked {
        /// The file.
        path: String,
    },
    /// It was not made by a sandbox, or by a newer one.
    #[error("{path} is not the file of a sandbox, or of a newer version")]
    Foreign {
        /// The file.
        path: String,
    },
    /// A line in the middle is not what was written.
    #[error("{path} is damaged in line {line}")]
    Damaged {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// It holds objects of a kind that is not served.
    #[error("the file holds objects of {resource}, which is not served")]
    Unserved {
        /// `group/plural`.
        resource: String,
    },
}

/// The open file.
pub(super) struct Log {
    file: File,
    path: PathBuf,
    /// Bytes that are in it, and how many were when it was written anew.
    bytes: u64,
    whole: u64,
}

impl Log {
    /// Opens a file, or makes it, and reads what is in it.
    pub(super) fn open(path: &Path) -> Result<(Log, Vec<Transaction>), OpenError> {
        let io = |what| move |cause| OpenError::Io { what, path: path.display().to_string(), cause };
        let mut file =
            private().read(true).write(true).create(true).truncate(false).open(path).map_err(io("open"))?;
        lock(&file, path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(io("read"))?;
        let transactions = read(&text, path)?;
        let bytes = text.len() as u64;
        Ok((Log { file, path: path.to_owned(), bytes, whole: bytes }, transactions))
    }

    /// Appends a line and forces it to the disk.
    pub(super) fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.file.write_all(line)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Whether most of it is of no use any more.
    pub(super) fn is_mostly_old(&self) -> bool {
        self.bytes > SMALL && self.bytes > self.whole.saturating_mul(GROWTH)
    }

    /// Puts a new file in the place of this one that holds only `line`.
    pub(super) fn rewrite(&mut self, line: &[u8]) -> Result<(), OpenError> {
        let fresh = self.path.with_extension("new");
        let io = |what, path: &Path| {
            let path = path.display().to_string();
            move |cause| OpenError::Io { what, path, cause }
        };
        let mut file =
            private().write(true).create(true).truncate(true).open(&fresh).map_err(io("make", &fresh))?;
        lock(&file, &fresh)?;
        let mut text = seal(HEADER);
        text.extend_from_slice(line);
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io("write", &fresh))?;
        std::fs::rename(&fresh, &self.path).map_err(io("replace", &self.path))?;
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Without this the name may still stand for the old file after a crash.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("write", folder))?;
        file.seek(SeekFrom::End(0)).map_err(io("write", &self.path))?;
        self.file = file;
        self.bytes = text.len() as u64;
        self.whole = self.bytes;
        Ok(())
    }
}

/// Secrets are in it: only its owner may read it.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn lock(file: &File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.display().to_string() }),
        Err(TryLockError::Error(cause)) => {
            Err(OpenError::Io { what: "lock", path: path.display().to_string(), cause })
        }
    }
}

/// The transactions of a file. What a crash cut off at the end is left out; nothing was answered for it.
fn read(text: &[u8], path: &Path) -> Result<Vec<Transaction>, OpenError> {
    let mut transactions = Vec::new();
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let last = !line.ends_with(b"\n");
        let whole = line.strip_suffix(b"\n").and_then(unseal);
        if number == 0 {
            match whole {
                Some(HEADER) => continue,
                // A crash right after the file was made.
                None if last && seal(HEADER).starts_with(line) => return Ok(transactions),
                _ => return Err(OpenError::Foreign { path: path.display().to_string() }),
            }
        }
        match whole.and_then(|text| serde_json::from_slice(text).ok()) {
            Some(transaction) => transactions.push(transaction),
            None if last => break,
            None => return Err(OpenError::Damaged { path: path.display().to_string(), line: number + 1 }),
        }
    }
    Ok(transactions)
}
