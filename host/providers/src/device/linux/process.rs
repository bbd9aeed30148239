//! Programs: run in a process group of their own, for a limited time, with what they print limited.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// Where programs without a slash are looked for, and what they find in `PATH`.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Between asking a group to end and ending it.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is waited for after everything that could write it was ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether what was ended is gone. The waits between two looks double from a millisecond: a second in
/// all, as what hangs in the kernel may outlast any patience.
const LOOKS_MAX: u32 = 11;
/// The exit code of what took too long, as `timeout` has it.
pub(super) const TIMED_OUT: i32 = 124;

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) argv: Vec<String>,
    /// All of its environment.
    pub(super) env: BTreeMap<String, String>,
    pub(super) folder: PathBuf,
    pub(super) timeout: Duration,
    /// Bytes of each stream that are kept.
    pub(super) keep: Keep,
}

/// Which part of what a program prints is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The last bytes: what went wrong stands there.
    Tail(usize),
    /// All, and it fails if there is more than this.
    All(usize),
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    /// What it exited with; 128 and the signal's number for one that was ended by a signal, 124 for a timeout.
    pub(super) code: i32,
    pub(super) timed_out: bool,
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
}

impl Ran {
    pub(super) fn succeeded(&self) -> bool {
        self.code == 0
    }

    /// What it printed, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The last line that it had to say for itself, cut to a sentence.
    pub(super) fn complaint(&self) -> String {
        let err = String::from_utf8_lossy(&self.err);
        let out = String::from_utf8_lossy(&self.out);
        let last =
            |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let line = last(&err).or_else(|| last(&out)).unwrap_or_default();
        line.chars().filter(|one| !one.is_control()).take(200).collect()
    }
}

/// A program that runs. What is left of it when this is dropped is ended.
pub(super) struct Running {
    child: Child,
    end: End,
    group: Pid,
    reaped: bool,
}

/// The end of a process: it can still be waited for then, so until that its number means it and nobody else.
struct End(Option<JoinHandle<()>>);

impl End {
    fn of(pid: Pid) -> Self {
        Self(Some(tokio::task::spawn_blocking(move || {
            // Without reaping it. An error means that somebody did: it has ended.
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        })))
    }

    async fn comes(&mut self) {
        if let Some(waiting) = &mut self.0 {
            let _ = waiting.await;
            self.0 = None;
        }
    }
}

impl Program {
    /// Starts it. Call it inside a tokio runtime.
    pub(super) fn start(&self) -> io::Result<Running> {
        let (program, arguments) =
            self.argv.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&child);
        Ok(Running { child, end: End::of(group), group, reaped: false })
    }

    /// Runs it to its end.
    pub(super) async fn run(&self) -> io::Result<Ran> {
        self.start()?.finish(self.timeout, self.keep).await
    }
}

impl Running {
    /// The leader of its group.
    pub(super) fn pid(&self) -> Pid {
        self.group
    }

    /// Waits for its end. What it leaves behind in its group ends with it: whoever wants a service has systemd.
    pub(super) async fn finish(mut self, timeout: Duration, keep: Keep) -> io::Result<Ran> {
        let out = self.child.stdout.take().map(tokio::process::ChildStdout::from_std).transpose()?;
        let err = self.child.stderr.take().map(tokio::process::ChildStderr::from_std).transpose()?;
        let reading = async { tokio::join!(read(out, keep), read(err, keep)) };
        tokio::pin!(reading);
        let mut read = None;
        let timed_out = {
            let ends = tokio::time::timeout(timeout, self.end.comes());
            tokio::pin!(ends);
            loop {
                tokio::select! {
                    ended = &mut ends => break ended.is_err(),
                    streams = &mut reading, if read.is_none() => read = Some(streams),
                }
            }
        };
        // The leader is not reaped yet, so the number still means this group.
        if timed_out {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(GRACE, self.end.comes()).await;
        }
        self.signal(Signal::KILL);
        self.end.comes().await;
        let status = self.child.wait()?;
        self.reaped = true;
        for wait in waits() {
            if is_gone(self.group) {
                break;
            }
            tokio::time::sleep(wait).await;
        }
        let (out, err) = match read {
            Some(streams) => streams,
            None => tokio::time::timeout(DRAIN, reading).await.unwrap_or_default(),
        };
        if let Keep::All(limit) = keep
            && (out.len() > limit || err.len() > limit)
        {
            return Err(io::Error::other(format!("it printed more than {limit} bytes")));
        }
        Ok(Ran { code: if timed_out { TIMED_OUT } else { code(status) }, timed_out, out, err })
    }

    fn signal(&self, signal: Signal) {
        // Nobody may be left in it.
        let _ = rustix::process::kill_process_group(self.group, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
            waits().take_while(|_| !is_gone(self.group)).for_each(std::thread::sleep);
        }
    }
}

/// A signal is under way when `kill` returns, and only the leader is a child that can be waited for.
fn waits() -> impl Iterator<Item = Duration> {
    (1..LOOKS_MAX).map(|look| Duration::from_millis(1 << (look - 1)))
}

/// Whether nobody of a group goes on. Its leader is reaped, so it may be another group's number by now: look, and no more.
fn is_gone(group: Pid) -> bool {
    if rustix::process::test_kill_process_group(group).is_err() {
        return true;
    }
    // Somebody is left, be it as a zombie: PID 1 of a container may never reap it, and it does nothing any more.
    let everybody = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    !everybody.filter_map(|entry| Stat::of(entry.file_name().to_str()?)).any(|one| one.goes_on_in(group))
}

/// What the kernel tells of a process in `/proc/<pid>/stat`, from its state on.
struct Stat(String);

impl Stat {
    /// None where it is gone, or is no process.
    fn of(pid: &str) -> Option<Self> {
        pid.parse::<u32>().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold blanks and brackets.
        Some(Self(stat.rsplit_once(')')?.1.to_owned()))
    }

    fn field(&self, number: usize) -> Option<&str> {
        self.0.split_whitespace().nth(number)
    }

    /// It runs or sleeps; what has ended and waits to be reaped does not.
    fn goes_on(&self) -> bool {
        self.field(0).is_some_and(|state| !matches!(state, "Z" | "X"))
    }

    fn goes_on_in(&self, group: Pid) -> bool {
        self.goes_on()
            && self.field(2).and_then(|group| group.parse().ok()) == Some(group.as_raw_nonzero().get())
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, keep: Keep) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let limit = match keep {
        Keep::Tail(limit) => limit,
        // One more, so that it is seen.
        Keep::All(limit) => limit.saturating_add(1),
    };
    let (mut kept, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        // What cannot be read any more is as good as its end.
        let read = stream.read(&mut buffer).await.unwrap_or_default();
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { return kept };
        match keep {
            Keep::Tail(_) => {
                kept.extend_from_slice(bytes);
                let over = kept.len().saturating_sub(limit);
                kept.drain(..over);
            }
            Keep::All(_) => {
                let room = limit.saturating_sub(kept.len());
                kept.extend(bytes.iter().take(room));
            }
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// The kernel's ticks since the boot at which a process started; none where it is gone.
pub(super) fn started(pid: Pid) -> Option<u64> {
    Stat::of(&pid.as_raw_nonzero().to_string())?.field(19)?.parse().ok()
}

/// The file that a word of a command line means: below `root` first, then on the machine; none where there is none.
pub(super) fn find(root: &Path, word: &str) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if word.contains('/') {
        vec![PathBuf::from(word)]
    } else {
        PATH.split(':').map(|folder| Path::new(folder).join(word)).collect()
    };
    let below = candidates.iter().map(|path| root.join(path.strip_prefix("/").unwrap_or(path)));
    let machine = candidates.iter().filter(|path| path.is_absolute()).cloned();
    below.chain(machine).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A program by its name, for tools of ours.
pub(super) fn tool(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = program.as_ref().to_string_lossy();
    find(Path::new("/"), &program)
}

#[cfg(test)]
mod tests;
