//! A child process that does not outlive its use.

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A program that runs in a process group of its own, writes to a log, and is killed when this is dropped. Should this
/// process itself be killed, the time limit ends the program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// Where it cannot be run, or its log cannot be written.
    pub fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        limit: Duration,
    ) -> anyhow::Result<Process> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new("timeout")
            .args(["--signal", "KILL", &limit.as_secs().to_string()])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Process { child, log: log.to_owned() })
    }

    /// The process group, which is what a person ends by hand.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of its log, to say why it failed.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself; then there is nobody to tell.
            kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}
