//! Scripts of commands in `tests/cli/*.txt`, each with the transcript that it must give in `*.golden`.
//!
//! A script has comments (`# …`), files (`file NAME:` and indented lines), and commands (`$ evenkeel …`). `greeter.wasm` is
//! the component of the project that `evenkeel new greeter` makes. `UPDATE_EXPECT=1` writes the transcripts anew.

use std::fs;
use std::path::Path;

use super::{code, evenkeel, folder, project, root, stderr, stdout};

fn check(script: &str) {
    let file = root().join("tests/cli").join(script);
    let text = fs::read_to_string(file.with_extension("txt")).expect("a script");
    let here = folder();
    if text.contains("greeter.wasm") {
        fs::copy(&project::greeter().component, here.path().join("greeter.wasm")).expect("a copy");
    }
    let transcript = play(&text, here.path());
    expect_test::expect_file![file.with_extension("golden")].assert_eq(&transcript);
}

/// Runs a script and tells what came of it.
fn play(script: &str, here: &Path) -> String {
    let mut transcript = String::new();
    let mut lines = script.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("file ").and_then(|rest| rest.strip_suffix(':')) {
            let mut content = String::new();
            while let Some(inner) = lines.next_if(|next| next.starts_with("  ") || next.is_empty()) {
                content.push_str(inner.strip_prefix("  ").unwrap_or_default());
                content.push('\n');
            }
            let path = here.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        } else if let Some(command) = line.strip_prefix("$ evenkeel") {
            let args: Vec<&str> = command.split_whitespace().collect();
            let output = evenkeel(&args, here);
            transcript.push_str(&format!("{line}\n{}", redacted(&stdout(&output))));
            for line in redacted(&stderr(&output)).lines() {
                transcript.push_str(&format!("! {line}\n"));
            }
            transcript.push_str(&format!("[exit {}]\n\n", code(&output)));
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "no line of a script: {line}");
            if line.starts_with('#') {
                transcript.push_str(&format!("{line}\n"));
            }
        }
    }
    transcript
}

/// The text without what differs between two runs: digests, sizes, times.
fn redacted(text: &str) -> String {
    let mut redacted = String::new();
    for line in text.split_inclusive('\n') {
        let mut line = line.to_owned();
        for (before, after) in [
            ("sha256:", ""),
            (" in ", " ms"),
            ("\"micros\": ", ""),
            ("\"bytes\": ", ""),
            ("size    ", " KiB"),
            ("time=\"", "\""),
        ] {
            let Some(start) = line.find(before).map(|at| at + before.len()) else { continue };
            let length = line[start..]
                .find(|c: char| !c.is_ascii_hexdigit() && c != '.')
                .unwrap_or(line.len() - start);
            if length > 0 && line[start + length..].starts_with(after) {
                line.replace_range(start..start + length, "…");
            }
        }
        redacted.push_str(&line);
    }
    redacted
}

#[test]
fn help() {
    check("help");
}

#[test]
fn mistakes() {
    check("mistakes");
}

#[test]
fn a_plugin_is_looked_at() {
    check("plugin");
}

#[test]
fn scenarios() {
    check("scenarios");
}

#[test]
fn one_pass() {
    check("render");
}

#[test]
fn every_script_is_played() {
    let source = include_str!("golden.rs");
    for entry in fs::read_dir(root().join("tests/cli")).expect("scripts") {
        let path = entry.expect("a readable entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(source.contains(&format!("check(\"{stem}\")")), "{} is played by no test", path.display());
    }
}

#[test]
fn what_differs_between_two_runs_is_taken_out() {
    let text = "  digest  sha256:0123abcd\n  size    12 KiB\n1 passed, 0 failed in 20 ms\n\"micros\": 17,\nin a word\n time=\"0.02\"\n";
    assert_eq!(
        redacted(text),
        "  digest  sha256:…\n  size    … KiB\n1 passed, 0 failed in … ms\n\"micros\": …,\nin a word\n time=\"…\"\n"
    );
}
