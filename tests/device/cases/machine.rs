//! A device below a temporary folder, and the agent that keeps it.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest that one run of the agent may take before the power is cut anyway.
pub const RUN_MAX: Duration = Duration::from_secs(60);
/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How a run of the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The spec is in effect.
    Updated,
    /// It has failed, and what was before is in effect.
    Failed,
    /// The power went.
    Cut,
    /// It did not end in time: it waits for something.
    Waits,
    /// The machine goes down.
    Reboots,
}

/// The component that decides, built once.
pub fn component() -> &'static Path {
    static COMPONENT: OnceLock<PathBuf> = OnceLock::new();
    COMPONENT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/device-update");
        let built = evenkeel::build::build_plugin(&folder, false, &mut |step| eprintln!("build: {step}"));
        built.expect("the plugin builds").component
    })
}

/// A device.
pub struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    /// With nothing on it.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// The same as another one, with all of its files.
    pub fn copy_of(other: &Self) -> Self {
        let copy = Self::new();
        let status = Command::new("cp")
            .args(["-a", "--"])
            .arg(other.root().join("."))
            .arg(copy.root())
            .status()
            .expect("cp runs");
        assert!(status.success());
        copy
    }

    /// What stands for `/`.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a file there, as an administrator would.
    pub fn put(&self, path: &str, text: &str, mode: u32) {
        let path = self.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    /// A file's text; "" where it is not there.
    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path.trim_start_matches('/'))).unwrap_or_default()
    }

    /// Files below `/etc` and `/usr`, with mode, owner and content; links by where they lead.
    pub fn tree(&self) -> BTreeMap<String, String> {
        let (mut found, mut open) = (BTreeMap::new(), vec![self.root().join("etc"), self.root().join("usr")]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(self.root()).expect("below").display().to_string();
                let metadata = std::fs::symlink_metadata(&path).expect("metadata");
                let content = if metadata.is_dir() {
                    open.push(path);
                    "folder".to_owned()
                } else {
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned()
                };
                let (mode, uid, gid) = (metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
                found.insert(name, format!("{mode:o} {uid}:{gid} {content}"));
            }
        }
        found
    }

    /// What a restart after a power cut finds: every file but the journal, which nobody reads, and the store, of which the
    /// agent said how far it was. A process that is gone is another one each time, and counts for the same; what was not put in
    /// its place yet is removed unread.
    pub fn as_found(&self, said: &str) -> String {
        let store = said.lines().find(|line| line.starts_with("steps of the store: ")).expect("it is told");
        let (mut found, mut open) = (BTreeMap::new(), vec![self.root().to_owned()]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.ends_with("var/lib/evenkeel") {
                    continue;
                }
                let metadata = std::fs::symlink_metadata(&path).expect("metadata");
                let mut content =
                    String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
                if metadata.is_dir() {
                    open.push(path.clone());
                }
                if path.ends_with("operations.log") {
                    let another = |line: &&str| !line.contains("\"line\":\"group\"");
                    let groups = content.lines().filter(|line| !another(line)).count();
                    content = content.lines().filter(another).collect::<Vec<_>>().join("\n");
                    content += &format!("\n{groups} processes");
                }
                let name = path.strip_prefix(self.root()).expect("below").display().to_string();
                let owner = (metadata.mode(), metadata.uid(), metadata.gid());
                let unfinished = name.ends_with(".tmp");
                found.insert(name, if unfinished { String::new() } else { format!("{owner:?} {content}") });
            }
        }
        format!("{store}\n{found:#?}")
    }

    /// Every state file that is there can be read as a whole.
    pub fn state_files_are_whole(&self) -> Result<(), String> {
        for name in ["desired.json", "current.json", "rollback.json", "update-state.json"] {
            let path = self.root().join("var/lib/flightctl").join(name);
            match std::fs::read(&path) {
                Ok(bytes) => {
                    serde_json::from_slice::<Value>(&bytes)
                        .map_err(|error| format!("{name} is no JSON: {error}"))?;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        Ok(())
    }

    /// A member of a state file.
    pub fn state(&self, file: &str, pointer: &str) -> Value {
        let text = self.text(&format!("var/lib/flightctl/{file}"));
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        value.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Writes the file that says what the device is to be.
    pub fn spec(&self, text: &str) -> PathBuf {
        let path = self.root().join("device.yaml");
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn command(&self, cut: u64, ahead_seconds: i64, manner: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-test-device"));
        command
            .arg(self.root())
            .arg(self.root().join("device.yaml"))
            .arg(component())
            .arg(cache())
            .args([&cut.to_string(), &ahead_seconds.to_string(), manner])
            .arg(self.root().join("usr/bin/reboot"))
            .stdin(Stdio::null());
        command
    }

    /// Starts an agent that stays, and that ends with what this gives.
    pub fn stay(&self) -> Staying {
        Staying(self.command(0, 0, "stay").stderr(Stdio::null()).spawn().expect("the agent starts"))
    }

    /// Every file with when it was changed and its size, to the nanosecond.
    pub fn stamps(&self) -> BTreeMap<PathBuf, (i64, i64, u64)> {
        let (mut found, mut open) = (BTreeMap::new(), vec![self.root().to_owned()]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
                if metadata.is_dir() {
                    open.push(path.clone());
                }
                found.insert(path, (metadata.ctime(), metadata.ctime_nsec(), metadata.size()));
            }
        }
        found
    }

    /// Runs the agent until it is done, or the power goes at the n-th step; what it said.
    pub fn run(&self, cut: u64, ahead_seconds: i64) -> (Ended, String) {
        self.run_for(cut, ahead_seconds, RUN_MAX)
    }

    /// The same with a limit after which the power goes.
    pub fn run_for(&self, cut: u64, ahead_seconds: i64, limit: Duration) -> (Ended, String) {
        let mut child = self
            .command(cut, ahead_seconds, "once")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let mut pipe = child.stderr.take().expect("a pipe");
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut waited = Duration::ZERO;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a status") {
                break Some(status);
            }
            if waited >= limit {
                child.kill().expect("it is ours");
                child.wait().expect("it ends");
                break None;
            }
            std::thread::park_timeout(LOOK);
            waited += LOOK;
        };
        let said = reader.join().expect("it is read");
        let ended = match status.map(|status| status.code()) {
            Some(Some(0)) => Ended::Updated,
            Some(Some(1)) if said.contains("failed: ") => Ended::Failed,
            Some(Some(3)) => Ended::Cut,
            Some(Some(4)) | None => Ended::Waits,
            Some(Some(5)) => Ended::Reboots,
            other => panic!("the agent ended with {other:?}: {said}"),
        };
        (ended, said)
    }
}

/// An agent that runs; it is ended with this.
pub struct Staying(Child);

impl Staying {
    /// The memory that it holds, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }

    /// Processor time that it has used, in ticks of 10 ms.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it runs");
        let rest = stat.rsplit_once(')').expect("a name").1;
        rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        // Not by a program: a small system has no `kill` besides that of its shells.
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::HUP).expect("it runs");
    }

    /// Whether it goes on.
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().expect("a status").is_none()
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where compiled plugins are kept, for all devices.
fn cache() -> PathBuf {
    static CACHE: OnceLock<tempfile::TempDir> = OnceLock::new();
    // One that the agent makes itself: it has to be its own alone.
    CACHE.get_or_init(|| tempfile::tempdir().expect("a folder")).path().join("compiled")
}
