//! Long operations on record: begun, and what came of them, over any crash.
//!
//! A file of lines that only grows. A line is on the disk before what it announces: an operation that has begun and has no
//! outcome when the file is opened is *lost*, and is never begun again under its key. What a power cut left of a last line is
//! cut off; a line that is spoilt anywhere else is left out, with a copy of the file kept aside.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::atomic::{self, Content};
use super::folder;
use super::steps::Steps;
use crate::device::words::{Error, OperationSeen, OperationState};

const FILE: &str = "operations.log";

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended {
    /// Of a hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// None where it took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Error>,
}

impl Ended {
    /// It took effect.
    pub(super) fn well() -> Self {
        Self { exit_code: None, error: None }
    }

    /// It did not.
    pub(super) fn badly(error: Error) -> Self {
        Self { exit_code: None, error: Some(error) }
    }
}

/// A process group that an operation started, so that what outlives the host can be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    /// Its leader.
    pub(super) pid: i32,
    /// When the leader started, in the kernel's ticks since the boot: another process of the same number has another.
    pub(super) started: u64,
    /// In which boot.
    pub(super) boot_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
enum Line {
    Begun { key: String, operation: String, at: String },
    Group { key: String, group: Group },
    Ended { key: String, ended: Ended },
}

impl Line {
    fn key(&self) -> &str {
        match self {
            Self::Begun { key, .. } | Self::Group { key, .. } | Self::Ended { key, .. } => key,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    /// Its place among all: later ones are higher.
    order: u64,
    operation: String,
    at: String,
    group: Option<Group>,
    ended: Option<Ended>,
    /// Whether it goes on in this process.
    running: bool,
}

/// What is done with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It is on record: do it.
    New,
    /// Its key was seen before: nothing is to be done.
    Seen,
}

/// The record.
pub(super) struct Ledger {
    folder: OwnedFd,
    file: File,
    entries: BTreeMap<String, Entry>,
    next: u64,
    /// A line could not be written whole: the file has to be written anew before the next one.
    torn: bool,
    steps: Steps,
}

impl Ledger {
    /// Opens it, in a folder of ours. A file that is spoilt is kept aside, and told: the second is its copy's name.
    pub(super) fn open(folder: OwnedFd, steps: Steps) -> io::Result<(Self, Option<String>)> {
        let text = folder::read(&folder, FILE)?.unwrap_or_default();
        let (mut entries, mut next, mut spoilt) = (BTreeMap::new(), 0, false);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice::<Line>(line) {
                Ok(read) if line.ends_with(b"\n") => take(&mut entries, &mut next, read),
                _ if !line.ends_with(b"\n") => {} // Cut off: nothing rests on it.
                _ => spoilt = true,
            }
        }
        let aside = if spoilt { Some(folder::keep_aside(&folder, FILE)?) } else { None };
        let file = open(&folder)?;
        let mut ledger = Self { folder, file, entries, next, torn: false, steps };
        if spoilt || !(text.is_empty() || text.ends_with(b"\n")) {
            ledger.rewrite()?;
        }
        Ok((ledger, aside))
    }

    /// Puts an operation on record, unless its key is there already.
    ///
    /// # Errors
    /// If it cannot be written; the operation is not on record then, and must not begin.
    pub(super) fn begin(&mut self, key: &str, operation: &str, at: &str) -> io::Result<Begin> {
        if self.entries.contains_key(key) {
            return Ok(Begin::Seen);
        }
        let (key, operation, at) = (key.to_owned(), operation.to_owned(), at.to_owned());
        self.append(Line::Begun { key: key.clone(), operation, at })?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.running = true;
        }
        self.steps.made("operation begun");
        Ok(Begin::New)
    }

    /// The operation runs as this process group.
    pub(super) fn group(&mut self, key: &str, group: Group) -> io::Result<()> {
        self.append(Line::Group { key: key.to_owned(), group })
    }

    /// The operation is over. Where that cannot be written it still counts until the next start: then it is lost.
    pub(super) fn end(&mut self, key: &str, ended: Ended) {
        let line = Line::Ended { key: key.to_owned(), ended: ended.clone() };
        if let Err(error) = self.append(line) {
            tracing::warn!(key, %error, "the end of an operation could not be put on record");
            if let Some(entry) = self.entries.get_mut(key) {
                entry.ended = Some(ended);
            }
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.running = false;
        }
        self.steps.made("operation ended");
    }

    /// How an operation stands.
    pub(super) fn see(&self, key: &str) -> OperationSeen {
        let Some(entry) = self.entries.get(key) else { return OperationSeen::default() };
        let state = match &entry.ended {
            Some(Ended { error: None, .. }) => OperationState::Succeeded,
            Some(Ended { error: Some(_), .. }) => OperationState::Failed,
            None if entry.running => OperationState::Running,
            None => OperationState::Lost,
        };
        OperationSeen {
            state,
            started_at: Some(entry.at.clone()),
            exit_code: entry.ended.as_ref().and_then(|ended| ended.exit_code),
            error: entry.ended.as_ref().and_then(|ended| ended.error.clone()),
        }
    }

    /// Process groups of operations that are lost.
    pub(super) fn lost_groups(&self) -> Vec<Group> {
        let lost = self.entries.values().filter(|entry| entry.ended.is_none() && !entry.running);
        lost.filter_map(|entry| entry.group.clone()).collect()
    }

    /// Forgets what no plugin asks any more, now that no update is under way: operations of updates that are over; of the
    /// steady state all but the last of each; of boots all but this one.
    pub(super) fn compact(&mut self, boot_id: &str) -> io::Result<()> {
        let mut latest: BTreeMap<String, u64> = BTreeMap::new();
        for (key, entry) in &self.entries {
            if let Some(of) = steady(key) {
                let order = latest.entry(of.to_owned()).or_default();
                *order = entry.order.max(*order);
            }
        }
        let stays = |key: &str, entry: &Entry| {
            let second = key.split('/').nth(1).unwrap_or_default();
            if entry.running {
                return true;
            }
            if let Some(of) = steady(key) {
                return latest.get(of) == Some(&entry.order);
            }
            if second == "after-rebooting" {
                return key.split('/').nth(2) == Some(boot_id);
            }
            // An operation of a version.
            second.parse::<u64>().is_err()
        };
        let before = self.entries.len();
        self.entries.retain(|key, entry| stays(key, entry));
        if self.entries.len() == before { Ok(()) } else { self.rewrite() }
    }

    fn append(&mut self, line: Line) -> io::Result<()> {
        if self.torn {
            self.rewrite()?;
        }
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        self.torn = written.is_err();
        written?;
        take(&mut self.entries, &mut self.next, line);
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let mut entries: Vec<(&String, &Entry)> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.order);
        let mut text = Vec::new();
        for (key, entry) in entries {
            for line in lines(key, entry) {
                serde_json::to_writer(&mut text, &line)?;
                text.push(b'\n');
            }
        }
        let content = Content::File { bytes: &text, mode: 0o600 };
        atomic::put(self.folder.as_fd(), FILE, &content, None, &self.steps)?;
        self.file = open(&self.folder)?;
        self.torn = false;
        Ok(())
    }
}

/// The thing that an operation of the steady state was about; none for another operation.
fn steady(key: &str) -> Option<&str> {
    let (of, _) = key.rsplit_once('@')?;
    (key.split('/').nth(1) == Some("steady")).then_some(of)
}

fn lines(key: &str, entry: &Entry) -> Vec<Line> {
    let (key, operation, at) = (key.to_owned(), entry.operation.clone(), entry.at.clone());
    let mut lines = vec![Line::Begun { key: key.clone(), operation, at }];
    if let Some(group) = entry.group.clone().filter(|_| entry.ended.is_none()) {
        lines.push(Line::Group { key: key.clone(), group });
    }
    if let Some(ended) = entry.ended.clone() {
        lines.push(Line::Ended { key, ended });
    }
    lines
}

fn take(entries: &mut BTreeMap<String, Entry>, next: &mut u64, line: Line) {
    let key = line.key().to_owned();
    match line {
        Line::Begun { operation, at, .. } => {
            let entry = Entry { order: *next, operation, at, group: None, ended: None, running: false };
            *next += 1;
            entries.insert(key, entry);
        }
        Line::Group { group, .. } => {
            if let Some(entry) = entries.get_mut(&key) {
                entry.group = Some(group);
            }
        }
        Line::Ended { ended, .. } => {
            if let Some(entry) = entries.get_mut(&key) {
                entry.ended = Some(ended);
            }
        }
    }
}

fn open(folder: &OwnedFd) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(folder, FILE, flags, Mode::RUSR | Mode::WUSR)?;
    fs::fsync(folder)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::device::words::Code;

    fn ledger(folder: &Path) -> (Ledger, Option<String>) {
        let folder = fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        Ledger::open(folder, Steps::default()).expect("it opens")
    }

    fn state(ledger: &Ledger, key: &str) -> OperationState {
        ledger.see(key).state
    }

    #[test]
    fn what_had_no_outcome_when_the_host_died_is_lost_and_never_begun_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut first, _) = ledger(folder.path());
        for key in ["u/6/1/a", "u/6/1/b", "u/6/1/c"] {
            assert_eq!(first.begin(key, "run-hook", "t").expect("on record"), Begin::New);
        }
        first.end("u/6/1/a", Ended::well());
        let error = Error { code: Code::Invalid, message: "exit 1".to_owned() };
        first.end("u/6/1/b", Ended { exit_code: Some(1), error: Some(error) });
        assert_eq!(state(&first, "u/6/1/c"), OperationState::Running);
        drop(first);
        let (mut second, aside) = ledger(folder.path());
        assert_eq!(aside, None);
        let states = ["a", "b", "c", "d"].map(|name| state(&second, &format!("u/6/1/{name}")));
        use OperationState::{Failed, Lost, Succeeded, Unknown};
        assert_eq!(states, [Succeeded, Failed, Lost, Unknown]);
        assert_eq!(second.see("u/6/1/b").exit_code, Some(1));
        assert_eq!(second.begin("u/6/1/c", "run-hook", "t").expect("seen"), Begin::Seen);
        assert_eq!(state(&second, "u/6/1/c"), Lost);
    }

    #[test]
    fn a_last_line_that_was_cut_off_counts_for_nothing_wherever_it_was_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        let (mut first, _) = ledger(folder.path());
        first.begin("u/6/1/a", "run-hook", "t").expect("on record");
        let before = std::fs::metadata(&file).expect("a file").len();
        first.end("u/6/1/a", Ended::well());
        let text = std::fs::read(&file).expect("a file");
        for cut in usize::try_from(before).expect("small")..text.len() {
            std::fs::write(&file, text.get(..cut).expect("shorter")).expect("a file");
            let (mut again, aside) = ledger(folder.path());
            assert_eq!((state(&again, "u/6/1/a"), aside), (OperationState::Lost, None), "cut at {cut}");
            // What is written after it can be read.
            again.begin("u/6/1/b", "run-hook", "t").expect("on record");
            assert_eq!(state(&ledger(folder.path()).0, "u/6/1/b"), OperationState::Lost);
        }
    }

    #[test]
    fn a_line_that_is_spoilt_is_left_out_and_the_file_kept_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut first, _) = ledger(folder.path());
        first.begin("u/6/1/a", "run-hook", "t").expect("on record");
        first.begin("u/6/1/b", "run-hook", "t").expect("on record");
        first.end("u/6/1/b", Ended::well());
        let file = folder.path().join(FILE);
        let text = std::fs::read_to_string(&file).expect("text").replacen("begun", "\0\0\0\0\0", 1);
        std::fs::write(&file, text).expect("a file");
        let (second, aside) = ledger(folder.path());
        assert_eq!(aside.as_deref(), Some("operations.log.corrupt-1"));
        assert_eq!(state(&second, "u/6/1/b"), OperationState::Succeeded);
        assert_eq!(ledger(folder.path()).1, None, "what was written anew is whole");
    }

    #[test]
    fn with_no_update_under_way_only_what_may_be_asked_again_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut ledger, _) = ledger(folder.path());
        for key in [
            "u/6/1/before-updating/a.yaml#0",
            "u/steady/app@1",
            "u/steady/app@2",
            "u/steady/other@7",
            "u/after-rebooting/b1/a.yaml#0",
            "u/after-rebooting/b2/a.yaml#0",
            "u/decommission",
        ] {
            ledger.begin(key, "run-hook", "t").expect("on record");
            ledger.end(key, Ended::well());
        }
        ledger.begin("u/7/1/prune", "prune", "t").expect("on record");
        ledger.compact("b2").expect("it is written");
        let known: Vec<&str> = ledger.entries.keys().map(String::as_str).collect();
        assert_eq!(
            known,
            [
                "u/7/1/prune",
                "u/after-rebooting/b2/a.yaml#0",
                "u/decommission",
                "u/steady/app@2",
                "u/steady/other@7"
            ]
        );
    }
}
