//! Config files: how two specs differ, what differs on disk, and what is written for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::device::{Device, InlineFile};
use crate::flow::{Flow, Halt, Short};
use crate::words::{
    AskFiles, Code, Error, Expect, FileKind, FileOp, FileSeen, FilesSeen, RestoreFile, Spec, WriteFile,
};

/// How a config file differs between two specs, by path.
pub type Changes = Vec<(String, FileOp)>;

/// How config files of two specs differ: content, mode and owner.
pub fn changes(from: &Device, to: &Device) -> Changes {
    let (old, new) = (from.files(), to.files());
    let paths: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    let change = |path: &str| match (old.get(path), new.get(path)) {
        (None, Some(_)) => Some(FileOp::Created),
        (Some(_), None) => Some(FileOp::Removed),
        (Some(old), Some(new)) if is_other(old, new) => Some(FileOp::Updated),
        (Some(_), Some(_)) | (None, None) => None,
    };
    paths.into_iter().filter_map(|path| Some((path.to_owned(), change(path)?))).collect()
}

fn is_other(old: &InlineFile, new: &InlineFile) -> bool {
    old.sha256 != new.sha256
        || old.mode() != new.mode()
        || old.user() != new.user()
        || old.group() != new.group()
}

/// The same seen from the other side.
pub fn reversed(changes: &Changes) -> Changes {
    let turn = |op: &FileOp| match op {
        FileOp::Created => FileOp::Removed,
        FileOp::Updated => FileOp::Updated,
        FileOp::Removed => FileOp::Created,
    };
    changes.iter().map(|(path, op)| (path.clone(), turn(op))).collect()
}

fn ask(files: &BTreeMap<&str, &InlineFile>) -> AskFiles {
    let paths = files.keys().map(|&path| path.to_owned()).collect();
    let users: BTreeSet<String> = files.values().map(|file| file.user()).collect();
    let groups: BTreeSet<String> = files.values().map(|file| file.group()).collect();
    AskFiles { paths, users: users.into_iter().collect(), groups: groups.into_iter().collect() }
}

/// Puts the question for some config files, which is read later.
pub fn put(flow: &Flow<'_>, files: &BTreeMap<&str, &InlineFile>) {
    if !files.is_empty() {
        flow.put("files", &ask(files));
    }
}

/// What is on disk of some config files, and who their owners are.
pub fn look(flow: &Flow<'_>, files: &BTreeMap<&str, &InlineFile>) -> Result<FilesSeen, Halt> {
    if files.is_empty() {
        return Ok(FilesSeen::default());
    }
    flow.knows_the_disk()?;
    flow.look("files", &ask(files))
}

/// Whether a path is as a spec says.
pub fn is_as_wanted(file: &InlineFile, seen: &FilesSeen) -> bool {
    let Some(there) = seen.files.get(&file.path) else { return false };
    let number = |name: &str, known: &BTreeMap<String, Option<u32>>| known.get(name).copied().flatten();
    there.exists
        && there.kind == FileKind::File
        && there.sha256 == file.sha256
        && there.mode == file.mode()
        && number(&file.user(), &seen.users).is_none_or(|uid| uid == there.uid)
        && number(&file.group(), &seen.groups).is_none_or(|gid| gid == there.gid)
}

/// The digest under which the backup store has what is at a path now; none where nothing is there.
fn kept_as(there: Option<&FileSeen>) -> Option<String> {
    there.filter(|there| there.exists).map(|there| there.sha256.clone())
}

/// Writes files of a spec that differ on disk, in order of their paths; the first that fails ends it. What was there before
/// a path became ours is noted in the state first, and kept by the provider.
pub fn write(flow: &mut Flow<'_>, spec: Spec, prefix: &str) -> Result<Result<(), (String, Error)>, Halt> {
    let device = device_of(flow, spec).clone();
    let files = device.files();
    let seen = look(flow, &files)?;
    let owned: BTreeSet<String> = flow.current.files().keys().map(|&path| path.to_owned()).collect();
    let mut writes = Vec::new();
    let mut noted = false;
    for (path, file) in &files {
        let there = seen.files.get(*path);
        if is_as_wanted(file, &seen) {
            // It may have been there, just so, before it was ours: then it stays when it is no longer.
            if flow.state.managed(path).is_none() {
                flow.state.manage(path, kept_as(there));
                noted = true;
            }
            continue;
        }
        if there.is_some_and(|there| there.kind == FileKind::Dir && there.exists) {
            let error = Error { code: Code::Invalid, message: "a directory is in the way".to_owned() };
            return Ok(Err(((*path).to_owned(), error)));
        }
        let before = kept_as(there);
        // What is at a path of current is of a spec and not of before, whoever changed it since.
        // Where current was lost and is empty, all that is managed is of it.
        let is_ours =
            (owned.contains(*path) || flow.current.version == "0") && flow.state.managed(path).is_some();
        if !is_ours && flow.state.managed(path).is_none_or(|managed| managed.backup != before) {
            flow.state.manage(path, before.clone());
            noted = true;
        }
        let expect = match before {
            Some(digest) => Expect::Sha256(digest),
            None => Expect::Absent,
        };
        writes.push((path, write_file(spec, file, Some(expect), true)));
    }
    if noted {
        flow.write_state(&format!("{prefix}managed"))?;
    }
    let operations: Vec<_> = writes
        .iter()
        .map(|(path, arguments)| Short {
            operation: "write-file",
            key: flow.key(&format!("{prefix}write-file/{path}")),
            arguments: json!(arguments),
        })
        .collect();
    for outcome in act_in_order(flow, &operations)? {
        if let (path, Err(error)) = outcome {
            return Ok(Err((path, error)));
        }
    }
    Ok(Ok(()))
}

/// A path, and what came of its operation.
type OfPath = (String, Result<(), Error>);

/// Does short operations on files one round after another would be slow: all of them in one, and the first failure counts.
fn act_in_order(flow: &Flow<'_>, operations: &[Short]) -> Result<Vec<OfPath>, Halt> {
    let path = |short: &Short| {
        short.arguments.get("path").and_then(|path| path.as_str()).unwrap_or_default().to_owned()
    };
    let outcomes = flow.act(operations)?;
    Ok(operations.iter().map(path).zip(outcomes).collect())
}

fn device_of<'f>(flow: &'f Flow<'_>, spec: Spec) -> &'f Device {
    match spec {
        Spec::Desired => &flow.desired,
        Spec::Current => &flow.current,
    }
}

/// The operation's arguments for a file of a spec.
pub fn write_file(spec: Spec, file: &InlineFile, expect: Option<Expect>, backup: bool) -> WriteFile {
    WriteFile {
        spec,
        path: file.path.clone(),
        sha256: file.sha256.clone(),
        mode: file.mode(),
        user: file.user(),
        group: file.group(),
        expect,
        backup,
    }
}

/// Puts back what was at paths before they were ours, in order; each is forgotten once it is done. All are tried; those that
/// failed are told.
pub fn restore(flow: &mut Flow<'_>, paths: &[String], prefix: &str) -> Result<Vec<(String, Error)>, Halt> {
    let operations: Vec<_> = paths
        .iter()
        .map(|path| {
            let backup = flow.state.managed(path).and_then(|managed| managed.backup.clone());
            Short {
                operation: "restore-file",
                key: flow.key(&format!("{prefix}restore-file/{path}")),
                arguments: json!(RestoreFile { path: path.clone(), backup }),
            }
        })
        .collect();
    let update = flow.state.update.clone();
    let on_target = update.map(|update| crate::boot::is_on_target(flow, &update)).transpose()?;
    let mut failed = Vec::new();
    for (path, outcome) in act_in_order(flow, &operations)? {
        match outcome {
            Ok(()) => flow.state.let_go(&path, on_target == Some(true)),
            Err(error) => failed.push((path, error)),
        }
    }
    if failed.len() < paths.len() {
        flow.write_state(&format!("{prefix}restored"))?;
    }
    Ok(failed)
}

/// Paths that are ours and that a spec does not name.
pub fn dropped(flow: &Flow<'_>, device: &Device) -> Vec<String> {
    let files = device.files();
    let managed = flow.state.managed.iter().map(|managed| &managed.path);
    managed.filter(|path| !files.contains_key(path.as_str())).cloned().collect()
}

/// Whether systemd has to read its units again after these changes.
pub fn change_units(changes: &Changes) -> bool {
    const UNIT_FOLDERS: [&str; 3] =
        ["/etc/systemd/", "/etc/containers/systemd/", "/usr/local/etc/containers/systemd/"];
    changes.iter().any(|(path, _)| UNIT_FOLDERS.iter().any(|folder| path.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn device(files: serde_json::Value) -> Device {
        Device::read(&json!({"spec": {"config": [{"inline": files}]}})).expect("a device")
    }

    #[test]
    fn mode_and_owner_alone_are_a_change_too() {
        let old = device(json!([
            {"path": "/same", "sha256": "x"}, {"path": "/mode", "sha256": "x"}, {"path": "/owner", "sha256": "x"},
            {"path": "/content", "sha256": "x"}, {"path": "/gone", "sha256": "x"},
        ]));
        let new = device(json!([
            {"path": "/same", "sha256": "x", "mode": 0o644, "user": "root"}, {"path": "/mode", "sha256": "x", "mode": 0o600},
            {"path": "/owner", "sha256": "x", "user": "bin"}, {"path": "/content", "sha256": "y"},
            {"path": "/new", "sha256": "x"},
        ]));
        let found = changes(&old, &new);
        let updated = |path: &str| (path.to_owned(), FileOp::Updated);
        let expected = vec![
            updated("/content"),
            ("/gone".to_owned(), FileOp::Removed),
            updated("/mode"),
            ("/new".to_owned(), FileOp::Created),
            updated("/owner"),
        ];
        assert_eq!(found, expected);
        assert_eq!(changes(&new, &old), reversed(&found));
    }
}
