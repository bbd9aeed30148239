//! What the passes saw, decided and did: a ring in memory, and files where a data directory is given.
//!
//! `explain`, `replay` and `diff` read it. Data of Secrets is struck out before a record gets here.

mod file;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::record::PassRecord;
use tokio::sync::broadcast;

use self::file::JournalFile;
pub use self::file::{Skipped, read};
use crate::limits::{JOURNAL_BYTES, JOURNAL_FILE_BYTES, JOURNAL_FILES, JOURNAL_SUBSCRIBERS_LAG_MAX};
use crate::status::JournalStatus;

/// How much of the past is kept.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Bytes of records kept in memory, about; the oldest go first.
    pub bytes_max: usize,
    /// Where it is kept on disk too, if at all.
    pub file: Option<FileOptions>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { bytes_max: JOURNAL_BYTES, file: None }
    }
}

/// The journal on disk.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// A directory that no other host uses.
    pub directory: PathBuf,
    /// Bytes after which a new file is begun.
    pub file_bytes_max: u64,
    /// Files kept, the current one included.
    pub files_max: u32,
}

impl FileOptions {
    /// Files of the usual size and number in a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), file_bytes_max: JOURNAL_FILE_BYTES, files_max: JOURNAL_FILES }
    }
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Two hosts on one directory would tear each other's files.
    #[error("another host uses the data directory {} (process {owner})", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The other's process id, as far as known.
        owner: String,
    },
    /// The operating system refused.
    #[error("cannot use the data directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What it said.
        #[source]
        cause: std::io::Error,
    },
}

/// The journal of a running host; a cheap clone.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    ring: Mutex<Ring>,
    bytes_max: usize,
    file: Option<JournalFile>,
    live: broadcast::Sender<Arc<PassRecord>>,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<(usize, Arc<PassRecord>)>,
    bytes: usize,
}

impl Journal {
    /// Opens it; takes the data directory where one is given.
    pub fn open(options: &JournalOptions) -> Result<Self, JournalError> {
        let file = options.file.as_ref().map(JournalFile::open).transpose()?;
        let (live, _) = broadcast::channel(JOURNAL_SUBSCRIBERS_LAG_MAX);
        Ok(Self(Arc::new(Inner { ring: Mutex::default(), bytes_max: options.bytes_max, file, live })))
    }

    /// Keeps a record; never waits.
    pub fn append(&self, record: PassRecord) {
        let bytes = record.bytes();
        let record = Arc::new(record);
        {
            let mut ring = self.ring();
            ring.bytes += bytes;
            ring.records.push_back((bytes, Arc::clone(&record)));
            while ring.bytes > self.0.bytes_max && ring.records.len() > 1 {
                if let Some((gone, _)) = ring.records.pop_front() {
                    ring.bytes -= gone;
                }
            }
        }
        if let Some(file) = &self.0.file {
            file.append(Arc::clone(&record));
        }
        // No subscriber is no error.
        let _ = self.0.live.send(record);
    }

    /// Every record in memory, oldest first.
    pub fn records(&self) -> Vec<Arc<PassRecord>> {
        self.ring().records.iter().map(|(_, record)| Arc::clone(record)).collect()
    }

    /// The records in memory that a condition picks, oldest first.
    pub fn select(&self, pick: impl Fn(&PassRecord) -> bool) -> Vec<Arc<PassRecord>> {
        self.ring().records.iter().map(|(_, record)| record).filter(|record| pick(record)).cloned().collect()
    }

    /// Every record from now on; one who lags misses the oldest.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<PassRecord>> {
        self.0.live.subscribe()
    }

    /// Returns once everything so far is on disk, where it is kept there.
    pub fn flush(&self) {
        if let Some(file) = &self.0.file {
            file.flush();
        }
    }

    /// How full it is.
    pub fn status(&self) -> JournalStatus {
        let ring = self.ring();
        let dropped = self.0.file.as_ref().map_or(0, JournalFile::dropped);
        JournalStatus { records: ring.records.len(), bytes: ring.bytes, dropped }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // The ring is sound between any two statements, so a panic elsewhere does not spoil it.
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
