//! Turns a component into native code, by preference in a child process.
//!
//! A compiler fed with foreign bytes is the likeliest part to run wild: in time, in memory, or by a bug of its own. So
//! it works in a short-lived child of this program, with limits and without environment; and the memory that a large
//! component takes to compile goes back to the system.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal};
#[cfg(feature = "compile")]
use sha2::{Digest, Sha256};
use wasmtime::Engine;

#[cfg(feature = "compile")]
use crate::cache::hex;
use crate::engine;

/// The hidden subcommand by which the child is started; its arguments go to [`compile_main`].
pub(crate) const SUBCOMMAND: &str = "__compile";

/// Where components are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// In this process: for tests and one-off commands.
    InProcess,
    /// In a child process, started as `exe __compile …`.
    ChildProcess {
        /// This very program: another version would make code that does not fit.
        exe: PathBuf,
    },
}

/// What compiling one component may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Processor time of the child.
    pub cpu: Duration,
    /// From its start to its end.
    pub time: Duration,
    /// Address space of the child, in bytes.
    pub memory: u64,
    /// The largest compiled component, in bytes.
    pub output: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(120),
            time: Duration::from_secs(300),
            memory: 4 << 30,
            output: 512 << 20,
        }
    }
}

/// Why a component was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The bytes are no valid component.
    #[error("{reason}")]
    Invalid {
        /// What the compiler found.
        reason: String,
    },
    /// The compiler used up what it may use.
    #[error("the compiler was stopped: {reason}")]
    Stopped {
        /// What it used up.
        reason: &'static str,
    },
    /// The compiler ended in another way.
    #[error("the compiler ended with {status}: {said}")]
    Crashed {
        /// How it ended.
        status: ExitStatus,
        /// The last that it said.
        said: String,
    },
    /// This host has none.
    #[error(
        "this host has no compiler, and what was compiled of the plugin elsewhere is not in its folder, or of another host"
    )]
    Absent,
    /// It could not be run.
    #[error("the compiler could not be run")]
    Io(#[from] io::Error),
}

/// Names the code that an engine runs: version, target and settings.
#[cfg(feature = "compile")]
pub(crate) fn compatibility(engine: &Engine) -> String {
    use std::hash::Hash;
    let mut hasher = Sha256Hasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hex(hasher.0.finalize().get(..8).unwrap_or_default())
}

/// The same in every process, as the standard library's hasher is not promised to be.
#[cfg(feature = "compile")]
struct Sha256Hasher(Sha256);

#[cfg(feature = "compile")]
impl std::hash::Hasher for Sha256Hasher {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// Compiles `wasm` into the file `output`.
pub(crate) fn compile(
    compiler: &Compiler,
    limits: &CompileLimits,
    engine: &Engine,
    wasm: &[u8],
    input: &Path,
    output: &Path,
) -> Result<(), CompileError> {
    if !cfg!(feature = "compile") {
        return Err(CompileError::Absent);
    }
    match compiler {
        Compiler::InProcess => {
            let code = precompile(engine, wasm)?;
            Ok(std::fs::write(output, code)?)
        }
        Compiler::ChildProcess { exe } => {
            std::fs::write(input, wasm)?;
            in_child(exe, limits, input, output)
        }
    }
}

#[cfg(not(feature = "compile"))]
fn precompile(_: &Engine, _: &[u8]) -> Result<Vec<u8>, CompileError> {
    Err(CompileError::Absent)
}

#[cfg(feature = "compile")]
fn precompile(engine: &Engine, wasm: &[u8]) -> Result<Vec<u8>, CompileError> {
    engine.precompile_component(wasm).map_err(|error| CompileError::Invalid { reason: format!("{error:#}") })
}

fn in_child(exe: &Path, limits: &CompileLimits, input: &Path, output: &Path) -> Result<(), CompileError> {
    let mut child = Command::new(exe)
        .arg(SUBCOMMAND)
        .arg(input)
        .arg(output)
        .args([limits.cpu.as_secs().max(1), limits.memory, limits.output].map(|limit| limit.to_string()))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let Some(said) = listen(&mut child, limits.time) else {
        // It may have ended by itself this very moment.
        let _ = child.kill();
        child.wait()?;
        return Err(CompileError::Stopped { reason: "it took too long" });
    };
    verdict(child.wait()?, said)
}

/// What the child says until it closes its standard error, which is when it ends; none where that takes too long.
fn listen(child: &mut Child, time: Duration) -> Option<String> {
    const SAID_MAX: u64 = 16 << 10;
    let mut stderr = child.stderr.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // What is past the limit is read too, or the child would wait for its reader.
        let _ = stderr.by_ref().take(SAID_MAX).read_to_end(&mut said);
        let _ = io::copy(&mut stderr, &mut io::sink());
        let _ = sender.send(String::from_utf8_lossy(&said).trim().to_owned());
    });
    receiver.recv_timeout(time).ok()
}

/// The child's exit code for bytes that are no valid component.
const INVALID: u8 = 65;

fn verdict(status: ExitStatus, said: String) -> Result<(), CompileError> {
    use std::os::unix::process::ExitStatusExt;
    let signal = |wanted: Signal| status.signal() == Some(wanted.as_raw());
    match status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(INVALID) => Err(CompileError::Invalid { reason: said }),
        None if signal(Signal::XCPU) || signal(Signal::KILL) => {
            Err(CompileError::Stopped { reason: "it used too much processor time" })
        }
        None if signal(Signal::XFSZ) => {
            Err(CompileError::Stopped { reason: "the compiled code is too large" })
        }
        // An allocation that the limit refuses ends the child.
        None if signal(Signal::ABORT) && said.contains("allocation") => {
            Err(CompileError::Stopped { reason: "it used too much memory" })
        }
        _ => Err(CompileError::Crashed { status, said }),
    }
}

/// The compiling child: what the hidden subcommand `__compile` does with the arguments after it.
pub fn compile_main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    match child(arguments.into_iter().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ CompileError::Invalid { .. }) => {
            eprintln!("{error}");
            ExitCode::from(INVALID)
        }
        Err(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            eprintln!("{error}{cause}");
            ExitCode::from(2)
        }
    }
}

fn child(arguments: Vec<String>) -> Result<(), CompileError> {
    let [input, output, cpu, memory, size] = <[String; 5]>::try_from(arguments).map_err(|_| {
        io::Error::other("it is started by the host: input, output, seconds, memory and size")
    })?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| io::Error::other("a limit is no number"));
    limit(number(&cpu)?, number(&memory)?, number(&size)?)?;
    let engine =
        engine::for_compiling().map_err(|error| io::Error::other(format!("cannot set up: {error:#}")))?;
    let code = precompile(&engine, &std::fs::read(input)?)?;
    Ok(std::fs::write(output, code)?)
}

/// Binds this process: it ends with its parent, yields to the reconcilers, and cannot take more than it may.
fn limit(cpu: u64, memory: u64, size: u64) -> io::Result<()> {
    let set = |resource, most| {
        // Lowering a limit below the hard one is always allowed; a lower hard one stays.
        let hard = rustix::process::getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        rustix::process::setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })
    };
    set(Resource::Cpu, cpu)?;
    set(Resource::As, memory)?;
    set(Resource::Fsize, size)?;
    set(Resource::Core, 0)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Politeness only.
    let _ = rustix::process::nice(10);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_without_its_arguments_says_so() {
        assert_eq!(compile_main(["x".to_owned()]), ExitCode::from(2));
    }

    #[test]
    fn how_the_child_ended_is_told_apart() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |raw: i32, said: &str| match verdict(ExitStatus::from_raw(raw), said.to_owned()) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(ended(0, ""), "fine");
        assert_eq!(ended(65 << 8, "bad type at 7"), "bad type at 7");
        assert_eq!(ended(9, ""), "the compiler was stopped: it used too much processor time");
        assert_eq!(
            ended(6, "memory allocation of 8 bytes failed"),
            "the compiler was stopped: it used too much memory"
        );
        assert_eq!(
            ended(11, "oh"),
            "the compiler ended with signal: 11 (SIGSEGV) (core dumped): oh".replace(" (core dumped)", "")
        );
    }
}
