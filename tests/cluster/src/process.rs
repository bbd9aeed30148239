//! A child process that does not outlive its use.

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest until a killed program is gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// What is run, so that it can be run again.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's file.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it has besides those of this process.
    pub environment: Vec<(String, String)>,
    /// Where its output goes; it is added to.
    pub log: PathBuf,
    /// After this it is killed, whoever forgot it.
    pub limit: Duration,
}

/// A program that runs in a process group of its own, writes to a log, and is killed when this is dropped. Should this
/// process itself be killed, the time limit ends the program.
#[derive(Debug)]
pub struct Process {
    program: Program,
    child: Child,
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
        Process::of(Program {
            path: program.to_owned(),
            arguments: arguments.to_vec(),
            environment: Vec::new(),
            log: log.to_owned(),
            limit,
        })
    }

    /// Starts a program that is described whole.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn of(program: Program) -> anyhow::Result<Process> {
        let child = spawn(&program)?;
        Ok(Process { program, child })
    }

    /// The process group, which is what a person ends by hand.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its output so far, of all its lives.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.program.log).unwrap_or_default()
    }

    /// The end of its log, to say why it failed.
    pub fn last_words(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Stops it where it stands: it answers nothing, and its connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on after [`Process::freeze`].
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end; whether it does is for it to say.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it on the spot, as a machine that loses its power does.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().ok();
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills it, and runs the program again once nothing of it is left that might hold a file or a port.
    ///
    /// # Errors
    /// As [`Process::start`], and where it does not go.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.kill();
        // Its parent is gone, which watched its time; the program itself may take a moment longer.
        let gone = async {
            while self.group().is_some_and(|group| test_kill_process_group(group).is_ok()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(GONE_MAX, gone).await.context("a killed program does not go")?;
        self.child = spawn(&self.program)?;
        Ok(())
    }

    /// Waits until it has ended; its exit code, if it ended by itself.
    ///
    /// # Errors
    /// Where it still runs after `patience`.
    pub async fn ended(&mut self, patience: Duration) -> anyhow::Result<Option<i32>> {
        let ends = async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    return Ok(status.code());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(patience, ends).await.context("it does not end")?
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // It may have ended by itself; then there is nobody to tell.
            kill_process_group(group, signal).ok();
        }
    }
}

fn spawn(program: &Program) -> anyhow::Result<Child> {
    let Program { path, arguments, environment, log, limit } = program;
    let file = File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("cannot write {}", log.display()))?;
    Command::new("timeout")
        .args(["--signal", "KILL", &limit.as_secs().to_string()])
        .arg(path)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", path.display()))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
