//! Runs a command for so long and no longer.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a command may take to end by itself once it is asked to.
const END_MAX: Duration = Duration::from_secs(10);
/// Lines of a complaint that are told on.
const LINES_TOLD: usize = 12;

/// What a command prints; what it complains of, where it fails or takes longer than `limit`.
pub(super) fn said(command: &mut Command, limit: Duration) -> Result<String, String> {
    let output = output(command, limit)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = complaint.lines().collect();
    Err(lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n"))
}

fn output(command: &mut Command, limit: Duration) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts itself (a downloader, a package manager) ends with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let output = collect(&mut child);
        let _ = sender.send(output);
    });
    let finished = receiver.recv_timeout(limit).map_err(|_| {
        for signal in [Signal::TERM, Signal::KILL] {
            if let Some(group) = group {
                let _ = kill_process_group(group, signal);
            }
            if receiver.recv_timeout(END_MAX).is_ok() {
                break;
            }
        }
        format!("{program} did not end within {} s, and was stopped", limit.as_secs())
    })?;
    let _ = reader.join();
    finished.map_err(|error| format!("cannot read what {program} says: {error}"))
}

/// Reads both pipes to their end, side by side: a full one would hold the command up.
fn collect(child: &mut Child) -> io::Result<Output> {
    let mut pipe = child.stderr.take();
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.as_mut().map_or(Ok(0), |pipe| pipe.read_to_end(&mut bytes)).map(|_| bytes)
    });
    let mut stdout = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_end(&mut stdout)?;
    }
    let stderr = errors.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    Ok(Output { status: child.wait()?, stdout, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_command_prints_is_its_answer() {
        assert_eq!(said(&mut sh("echo yes; echo no >&2"), LONG), Ok("yes\n".to_owned()));
    }

    #[test]
    fn a_command_that_fails_tells_what_it_complained_of_last() {
        let line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo $i >&2; done; exit 3";
        let complaint = said(&mut sh(line), LONG).expect_err("it fails");
        assert!(complaint.starts_with("2\n") && complaint.ends_with("\n13"), "{complaint}");
    }

    #[test]
    fn a_program_that_is_not_there_says_so() {
        let error = said(&mut Command::new("/no/such/program"), LONG).expect_err("it is not there");
        assert!(error.starts_with("cannot start /no/such/program: "), "{error}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_stopped_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let line = format!("sleep 600 & echo $! > {}; wait", file.display());
        let error = said(&mut sh(&line), Duration::from_millis(300)).expect_err("it is stopped");
        assert_eq!(error, "sh did not end within 0 s, and was stopped");
        let pid: i32 = std::fs::read_to_string(file).expect("a pid").trim().parse().expect("a number");
        // A signal is under way when `kill` returns. Then it may wait for its parent to take note of its end, but runs no more.
        let goes_on = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
        };
        let patience = (0..100).take_while(|_| goes_on());
        patience.for_each(|_| thread::park_timeout(Duration::from_millis(20)));
        assert!(!goes_on(), "{pid} goes on");
    }
}
