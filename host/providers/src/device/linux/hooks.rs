//! Hook files of the device, and the programs that they name.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::Duration;

use evenkeel_core::contract::{Failure, FailureKind};

use super::process::{self, Keep, PATH, Program};
use super::root::{DevicePath, Root};
use super::trouble::{invalid, not_found, with_file};
use crate::device::hooks::{self, FILE_BYTES_MAX, Machine};
use crate::device::seal;
use crate::device::words::{Hook, HookFile, HooksSeen, Origin, RunHook};

const VENDOR: &str = "/usr/lib/flightctl/hooks.d";
const LOCAL: &str = "/etc/flightctl/hooks.d";

/// Bytes of output that are kept of each stream.
const TAIL_BYTES: usize = 4096;
/// Values of variables that are shorter stand in any output by chance.
const SECRET_BYTES_MIN: usize = 3;

/// The folders that files of a hook are in: the vendor's, then the local one.
pub(super) fn folders(hook: Hook) -> [String; 2] {
    let name = match hook {
        Hook::BeforeUpdating => "beforeupdating",
        Hook::AfterUpdating => "afterupdating",
        Hook::BeforeRebooting => "beforerebooting",
        Hook::AfterRebooting => "afterrebooting",
    };
    [VENDOR, LOCAL].map(|base| format!("{base}/{name}"))
}

/// The files of a hook: the vendor's, with those of the same name below `/etc` in their place, by name.
pub(super) fn see(root: &Root, hook: Hook) -> Result<HooksSeen, Failure> {
    let mut found: BTreeMap<String, Origin> = BTreeMap::new();
    let [vendor, local] = folders(hook);
    for (folder, origin) in [(&vendor, Origin::Vendor), (&local, Origin::Local)] {
        let names = root.names(folder).map_err(|error| with_file("list", folder, &error))?;
        found.extend(names.into_iter().filter(|name| name.ends_with(".yaml")).map(|name| (name, origin)));
    }
    let executable = |word: &str| process::find(root.path(), word).is_some();
    let folder = |path: &str| root.folder(path).is_ok();
    let machine = Machine { executable: &executable, folder: &folder };
    let files = found.into_iter().map(|(name, origin)| {
        let path = format!("{}/{name}", if origin == Origin::Vendor { &vendor } else { &local });
        match read(root, &path) {
            Ok(bytes) => hooks::file(&name, origin, &bytes, &machine),
            Err(error) => HookFile {
                path: name,
                origin,
                sha256: String::new(),
                error: Some(error),
                actions: Vec::new(),
            },
        }
    });
    Ok(HooksSeen { files: files.collect() })
}

fn read(root: &Root, path: &str) -> Result<Vec<u8>, String> {
    let parsed = DevicePath::parse(path).map_err(|error| error.to_string())?;
    let plain = |error: io::Error| with_file("read", path, &error).message.to_string();
    let file = root.file(&parsed).map_err(plain)?;
    if !file.metadata().map_err(plain)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that it is seen.
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(plain)?;
    Ok(bytes)
}

/// The program of an action, as it is to be run; with the values of its variables, which no log shows.
pub(super) fn program_of(root: &Root, wanted: &RunHook) -> Result<(Program, Vec<String>), Failure> {
    let conflict = || {
        let message = format!("the hook file {} is not what it was when this was decided", wanted.file);
        Failure::new(FailureKind::Conflict, message)
    };
    if wanted.file.contains('/') {
        return Err(invalid(format!("{:?} is no name of a hook file", wanted.file)));
    }
    let [vendor, local] = folders(wanted.hook);
    let bytes =
        [local, vendor].iter().find_map(|folder| read(root, &format!("{folder}/{}", wanted.file)).ok());
    let bytes = bytes.filter(|bytes| seal::sha256(bytes) == wanted.sha256).ok_or_else(conflict)?;
    let variables = hooks::variables(&bytes, wanted.index);
    let variables =
        variables.map_err(|error| invalid(format!("{}: {error}", wanted.file)))?.ok_or_else(conflict)?;
    let secrets = variables.values().filter(|value| value.len() >= SECRET_BYTES_MIN).cloned().collect();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH.to_owned()),
        ("FLIGHTCTL_AGENT_PID".to_owned(), std::process::id().to_string()),
    ]);
    env.extend(variables);
    env.extend(wanted.env.clone());
    let word = wanted.argv.first().cloned().unwrap_or_default();
    let found = process::find(root.path(), &word)
        .ok_or_else(|| not_found(format!("there is no program {word:?}")))?;
    let mut argv = wanted.argv.clone();
    if let Some(first) = argv.first_mut() {
        *first = found.to_string_lossy().into_owned();
    }
    let folder = wanted.work_dir.as_deref().unwrap_or("/");
    if root.folder(folder).is_err() {
        return Err(not_found(format!("the folder {folder} is not there")));
    }
    let timeout = Duration::from_millis(wanted.timeout_ms);
    let program = Program { argv, env, folder: root.outside(folder), timeout, keep: Keep::Tail(TAIL_BYTES) };
    Ok((program, secrets))
}

/// What a hook printed, with values of its variables struck out: for a log that operators read.
pub(super) fn strike_out(text: &[u8], secrets: &[String]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    secrets.iter().fold(text, |text, secret| text.replace(secret.as_str(), "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_takes_the_place_of_the_vendors_of_the_same_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("usr/lib/flightctl/hooks.d/afterupdating/00-default.yaml", "- run: /bin/true\n");
        write("usr/lib/flightctl/hooks.d/afterupdating/50-x.yaml", "- run: /bin/false\n");
        write("etc/flightctl/hooks.d/afterupdating/50-x.yaml", "- run: /bin/sh\n- run: nobody-has-this\n");
        write("etc/flightctl/hooks.d/afterupdating/notes.txt", "no hook");
        let root = Root::open(folder.path()).expect("a root");
        let seen = see(&root, Hook::AfterUpdating).expect("seen");
        let lines: Vec<String> = seen
            .files
            .iter()
            .flat_map(|file| {
                let actions = file.actions.iter();
                actions.map(move |one| format!("{} {:?} {}", file.path, file.origin, one.executable.found))
            })
            .collect();
        assert_eq!(lines, ["00-default.yaml Vendor true", "50-x.yaml Local true", "50-x.yaml Local false"]);
        assert_eq!(see(&root, Hook::BeforeUpdating).expect("seen").files, []);
    }

    #[test]
    fn values_of_variables_are_struck_out_of_what_is_printed() {
        assert_eq!(strike_out(b"token=hunter2\n", &["hunter2".to_owned()]), "token=***\n");
    }
}
