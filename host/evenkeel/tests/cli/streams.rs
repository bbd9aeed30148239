//! Where results and notes go: to a disk that is full, or to a reader that has gone.

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use super::{code, commands, evenkeel, folder, program, project, stderr, stdout};

/// Every command that prints a result. `TURN` is another word each time, `PROJECT` the folder of the greeter's crate.
const PRINTING: [&str; 20] = [
    "--help",
    "--version",
    "inspect greeter.wasm",
    "inspect greeter.wasm --output json",
    "check greeter.wasm",
    "check greeter.wasm --output json",
    "render greeter.wasm namespace.yaml",
    "render greeter.wasm namespace.yaml --output json",
    "explain Namespace team-a",
    "explain Namespace team-a --output json",
    "test greeter.wasm PROJECT/scenarios",
    "test greeter.wasm PROJECT/scenarios --output json",
    "test greeter.wasm PROJECT/scenarios --output junit",
    "new greeter --path TURN",
    "build PROJECT",
    "scaffold crds greeter.wasm --output json",
    "scaffold rbac greeter.wasm",
    "scaffold plugin greeter.wasm",
    "sandbox",
    "completions bash",
];

/// They print by the same means, and need a cluster, a machine or a minute.
const ELSEWHERE: [&str; 4] = ["demo", "run", "agent", "plugin"];

/// A folder with the greeter, an object that it looks after, and a journal that has a pass.
fn prepared() -> tempfile::TempDir {
    let here = folder();
    fs::copy(&project::greeter().component, here.path().join("greeter.wasm")).expect("a copy");
    let namespace =
        "{apiVersion: v1, kind: Namespace, metadata: {name: team-a, labels: {greeter.example/greet: Ada}}}";
    fs::write(here.path().join("namespace.yaml"), namespace).expect("a file");
    let output = evenkeel(&["render", "greeter.wasm", "namespace.yaml", "--output", "json"], here.path());
    let pass: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("a record");
    fs::create_dir_all(here.path().join(".evenkeel/journal")).expect("a folder");
    fs::write(here.path().join(".evenkeel/journal/passes.jsonl"), format!("{pass}\n")).expect("a journal");
    here
}

fn run(command: &str, turn: &str, here: &Path, out: impl Into<std::process::Stdio>) -> Output {
    let crate_of_it = project::greeter().folder.display().to_string();
    let words = command.split(' ').map(|word| word.replace("TURN", turn).replace("PROJECT", &crate_of_it));
    let words: Vec<String> = words.collect();
    let mut program = program(&words.iter().map(String::as_str).collect::<Vec<_>>(), here);
    program.env("CARGO_TARGET_DIR", project::target()).stdout(out).output().expect("the program starts")
}

/// A pipe that nobody reads.
fn closed() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer
}

#[test]
fn a_full_disk_is_an_error_and_a_reader_that_has_gone_is_a_quiet_end() {
    let here = prepared();
    for command in PRINTING {
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let output = run(command, "full", here.path(), full);
        assert_eq!(code(&output), 2, "{command}: {}", stderr(&output));
        for words in ["error: cannot write to standard output\n", "because No space left on device"] {
            assert!(stderr(&output).contains(words), "{command}: {}", stderr(&output));
        }
        let output = run(command, "gone", here.path(), closed());
        // What is built, and that there is nothing to print, is said on stderr.
        let told = stderr(&output);
        let is_note = |line: &&str| line.starts_with("build: ") || line.contains(" brings no ");
        let told: Vec<&str> = told.lines().filter(|line| !is_note(line)).collect();
        assert_eq!((code(&output), told), (0, vec![]), "{command}");
    }
}

#[test]
fn no_command_that_prints_is_forgotten() {
    for (words, _) in commands::commands() {
        let words = words.join(" ");
        let known = PRINTING
            .iter()
            .chain(&ELSEWHERE)
            .any(|line| format!("{line} ").starts_with(&format!("{words} ")))
            || ELSEWHERE.iter().any(|group| words.starts_with(&format!("{group} ")));
        assert!(known, "is {words} quiet where nobody reads?");
    }
}

#[test]
fn notes_that_nobody_reads_stop_nothing() {
    let here = prepared();
    for (command, expected) in [
        ("scaffold crds greeter.wasm", 0),
        ("explain Namespace team-b", 1),
        ("inspect missing.wasm", 2),
        ("nonsense", 2),
        ("inspect greeter.wasm --log trace", 0),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = program(&words, here.path()).stderr(closed()).output().expect("the program starts");
        assert_eq!(code(&output), expected, "{command}: {}", stdout(&output));
    }
}
