//! The journal on disk: JSON-lines files in a directory that one host owns.
//!
//! A thread of its own writes, so that a slow disk delays no pass; what it cannot take in time is dropped and
//! counted. A line that a crash tore is left where it is and skipped on reading.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use evenkeel_core::record::PassRecord;

use super::{FileOptions, JournalError};
use crate::limits::{JOURNAL_LINE_BYTES_MAX, JOURNAL_QUEUE_MAX};

const LOCK: &str = "lock";
const CURRENT: &str = "passes.jsonl";

/// The writing end.
#[derive(Debug)]
pub(super) struct JournalFile {
    lines: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    dropped: Arc<AtomicU64>,
    /// Held for as long as the host lives; the lock goes with it.
    _lock: File,
}

enum Message {
    Line(Arc<PassRecord>),
    Flush(SyncSender<()>),
}

impl JournalFile {
    /// Takes the directory, or says who has it.
    pub(super) fn open(options: &FileOptions) -> Result<Self, JournalError> {
        let directory = options.directory.clone();
        let cannot = |cause| JournalError::Directory { directory: directory.clone(), cause };
        fs::create_dir_all(&directory).map_err(cannot)?;
        let lock = lock(&directory)?;
        let out = Files::open(options).map_err(cannot)?;
        let (lines, inbox) = sync_channel(JOURNAL_QUEUE_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let writer = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || write_all(out, &inbox, &lost))
            .map_err(cannot)?;
        Ok(Self { lines: Some(lines), writer: Some(writer), dropped, _lock: lock })
    }

    /// Hands a record over; never waits.
    pub(super) fn append(&self, record: Arc<PassRecord>) {
        let Some(lines) = &self.lines else { return };
        match lines.try_send(Message::Line(record)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns once all that was handed over is with the operating system.
    pub(super) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if let Some(lines) = &self.lines
            && lines.send(Message::Flush(done)).is_ok()
        {
            // An error means that the writer is gone: there is nothing left to wait for.
            let _ = wait.recv();
        }
    }

    /// Records that were not written.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so; the host goes down all the same.
            let _ = writer.join();
        }
    }
}

fn lock(directory: &Path) -> Result<File, JournalError> {
    let cannot = |cause| JournalError::Directory { directory: directory.to_owned(), cause };
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(directory.join(LOCK))
        .map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut owner = String::new();
            // Only for the message: an unreadable lock file is locked all the same.
            let _ = (&mut file).take(32).read_to_string(&mut owner);
            let owner = owner.trim().to_owned();
            return Err(JournalError::Locked { directory: directory.to_owned(), owner });
        }
        Err(fs::TryLockError::Error(cause)) => return Err(cannot(cause)),
    }
    file.set_len(0).map_err(cannot)?;
    writeln!(file, "{}", std::process::id()).map_err(cannot)?;
    Ok(file)
}

fn write_all(mut out: Files, inbox: &Receiver<Message>, dropped: &AtomicU64) {
    let mut trouble = Trouble::default();
    let mut next = inbox.recv().ok();
    while let Some(message) = next {
        let following = inbox.try_recv().ok();
        match message {
            Message::Line(record) => {
                let line = serde_json::to_vec(&*record).map_err(io::Error::from);
                let mut written = line.and_then(|line| out.write(line));
                // Before it waits nothing is kept back: whoever reads finds all, and who kills the host loses none of it.
                if following.is_none() {
                    written = written.and_then(|()| out.hand_over());
                }
                if written.is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
                trouble.tell(&written);
            }
            Message::Flush(done) => {
                if let Err(cause) = out.flush() {
                    tracing::warn!(%cause, "the journal could not be flushed");
                }
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
        next = following.or_else(|| inbox.recv().ok());
    }
    if let Err(cause) = out.flush() {
        tracing::warn!(%cause, "the journal could not be flushed");
    }
}

/// Records in a row that could not be written. It is told of when that begins and when it is over: a full disk would
/// else be filled up by the log.
#[derive(Debug, Default)]
struct Trouble {
    lost: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Begins,
    Over { lost: u64 },
}

impl Trouble {
    fn tell(&mut self, written: &io::Result<()>) {
        match (self.next(written.is_ok()), written) {
            (Some(Word::Over { lost }), _) => tracing::warn!(lost, "the journal is written again"),
            (Some(Word::Begins), Err(cause)) => {
                tracing::warn!(%cause, "the journal cannot be written, passes go on unrecorded");
            }
            (Some(Word::Begins) | None, _) => {}
        }
    }

    fn next(&mut self, written: bool) -> Option<Word> {
        if written {
            let lost = std::mem::take(&mut self.lost);
            return (lost > 0).then_some(Word::Over { lost });
        }
        self.lost += 1;
        (self.lost == 1).then_some(Word::Begins)
    }
}

/// The current file and its older ones, `passes.1.jsonl` the youngest of them.
struct Files {
    directory: PathBuf,
    current: BufWriter<File>,
    written: u64,
    file_bytes_max: u64,
    files_max: u32,
}

impl Files {
    fn open(options: &FileOptions) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(options.directory.join(CURRENT))?;
        let written = end_torn_line(&mut file)?;
        Ok(Self {
            directory: options.directory.clone(),
            current: BufWriter::new(file),
            written,
            file_bytes_max: options.file_bytes_max,
            files_max: options.files_max.max(1),
        })
    }

    fn write(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.written > 0 && self.written.saturating_add(length) > self.file_bytes_max {
            self.rotate()?;
        }
        self.current.write_all(&line)?;
        self.written = self.written.saturating_add(length);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.current.flush()?;
        for number in (1..self.files_max).rev() {
            let from =
                if number == 1 { self.directory.join(CURRENT) } else { older(&self.directory, number - 1) };
            match fs::rename(&from, older(&self.directory, number)) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(cause),
            }
        }
        self.current = BufWriter::new(File::create(self.directory.join(CURRENT))?);
        self.written = 0;
        Ok(())
    }

    /// To the operating system, not yet to the disk.
    fn hand_over(&mut self) -> io::Result<()> {
        self.current.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()?;
        self.current.get_ref().sync_data()
    }
}

fn older(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("passes.{number}.jsonl"))
}

/// Gives a line that a crash tore its end, so that the next record starts on a line of its own.
fn end_torn_line(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(0);
    }
    file.seek(SeekFrom::Start(length - 1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    file.write_all(b"\n")?;
    Ok(length + 1)
}

/// Reads a directory's records, oldest first, and calls `each` with them; lines that are no record are counted.
///
/// Needs no lock: a host may be writing. Memory is that of one line.
pub fn read(directory: &Path, mut each: impl FnMut(PassRecord)) -> Result<Skipped, JournalError> {
    let cannot = |cause| JournalError::Directory { directory: directory.to_owned(), cause };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let name = name.to_string_lossy();
        if let Some(number) = name.strip_prefix("passes.").and_then(|rest| rest.strip_suffix(".jsonl"))
            && let Ok(number) = number.parse::<u32>()
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut paths: Vec<_> = numbers.into_iter().map(|number| older(directory, number)).collect();
    paths.push(directory.join(CURRENT));
    let mut skipped = Skipped::default();
    for path in paths {
        match File::open(&path) {
            Ok(file) => read_file(file, &mut each, &mut skipped).map_err(cannot)?,
            // Rotated away while we looked.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(cannot(cause)),
        }
    }
    Ok(skipped)
}

/// Lines of a journal that were no record: torn by a crash, or of another version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub lines: u64,
}

fn read_file(file: File, each: &mut impl FnMut(PassRecord), skipped: &mut Skipped) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let taken = (&mut reader).take(JOURNAL_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(());
        }
        match serde_json::from_slice(&line) {
            Ok(record) => each(record),
            Err(_) => skipped.lines += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_written_is_told_of_twice_however_long_it_lasts() {
        let mut trouble = Trouble::default();
        let words: Vec<_> =
            [true, false, false, false, true, true].into_iter().map(|ok| trouble.next(ok)).collect();
        let over = Some(Word::Over { lost: 3 });
        assert_eq!(words, [None, Some(Word::Begins), None, None, over, None]);
    }
}
