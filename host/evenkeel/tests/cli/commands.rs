//! The commands as a person types them: what they print, and how they end.

use std::process::Command;

use clap::{Command as Clap, CommandFactory};
use evenkeel::cli::Cli;

use super::{code, evenkeel, folder, program, stderr, stdout};

/// Every command that a person may type, as its words, with its examples.
pub fn commands() -> Vec<(Vec<String>, String)> {
    fn walk(command: &Clap, words: &[String], found: &mut Vec<(Vec<String>, String)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            let after = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
            found.push((words.clone(), after));
            walk(inner, &words, found);
        }
    }
    let mut found = Vec::new();
    walk(&Cli::command(), &[], &mut found);
    found
}

#[test]
fn every_command_has_help_with_examples() {
    let commands = commands();
    assert!(commands.len() >= 15, "{commands:?}");
    let without: Vec<_> = commands
        .iter()
        .filter(|(_, after)| !after.starts_with("Examples:\n  "))
        .map(|(words, _)| words.join(" "))
        .collect();
    assert!(without.is_empty(), "without examples: {without:?}");
}

#[test]
fn the_overview_names_every_command() {
    let here = folder();
    let output = evenkeel(&["--help"], here.path());
    assert_eq!(code(&output), 0);
    for (words, _) in commands().iter().filter(|(words, _)| words.len() == 1) {
        assert!(stdout(&output).contains(&format!("\n  {} ", words[0])), "{words:?}\n{}", stdout(&output));
    }
}

#[test]
fn no_line_of_the_help_is_torn() {
    // A terminal of a hundred columns: an example that is wrapped cannot be copied.
    let long: Vec<String> = commands()
        .into_iter()
        .flat_map(|(_, after)| after.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.len() > 100)
        .collect();
    assert!(long.is_empty(), "too long for a line: {long:#?}");
}

#[test]
fn a_usage_error_is_told_on_stderr_with_exit_code_2() {
    let here = folder();
    for args in [&["nonsense"][..], &["test"], &["new"], &["explain", "KiteUser"], &["demo", "--port", "x"]] {
        let output = evenkeel(args, here.path());
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(
            stdout(&output).is_empty() && stderr(&output).contains("--help"),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn what_cannot_be_done_says_what_is_wrong_and_what_to_do() {
    let here = folder();
    for (args, words) in [
        (&["inspect", "missing.wasm"][..], "there is no missing.wasm"),
        (&["test", "missing.wasm"], "there is no missing.wasm"),
        (&["explain", "KiteUser", "ann"], "there is no journal"),
        (&["run", "--plugins", ".", "--kubeconfig", "missing"], "cannot use the kubeconfig missing"),
        (&["new", "Not-A-Name"], "is no plugin name"),
        (&["build", "."], "has no Cargo.toml"),
    ] {
        let output = evenkeel(args, here.path());
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_file_that_is_no_component_is_found_to_be_wrong() {
    let here = folder();
    let mut module = b"\0asm".to_vec();
    module.extend([1, 0, 0, 0]);
    std::fs::write(here.path().join("module.wasm"), module).expect("a file");
    std::fs::write(here.path().join("text.wasm"), "hello, this is no component").expect("a file");
    for (file, words) in
        [("module.wasm", "module, not a component"), ("text.wasm", "no WebAssembly component")]
    {
        let output = evenkeel(&["check", file], here.path());
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_waited_for_with_a_readable_word() {
    let here = folder();
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                      users: [{name: a, user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
    std::fs::write(here.path().join("kubeconfig"), kubeconfig).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["run", "--plugins", ".", "--kubeconfig", "kubeconfig"])
        .current_dir(here.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pipe = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    // A library may log a line of its own before ours.
    let told = std::io::BufRead::lines(pipe)
        .take(5)
        .map_while(Result::ok)
        .any(|line| line.contains("https://127.0.0.1:1") && line.contains("does not answer"));
    assert!(told, "nothing says what is waited for");
    assert!(child.try_wait().expect("a status").is_none(), "it goes on waiting");
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn a_second_host_on_one_data_directory_is_told_which_one_uses_it() {
    let here = folder();
    let mut first = program(&["sandbox"], here.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut told = String::new();
    let mut pipe = std::io::BufReader::new(first.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut pipe, &mut told).expect("a line");
    assert!(told.starts_with("An embedded Kubernetes listens"), "{told}");
    let kubeconfig =
        || std::fs::read_to_string(here.path().join(".evenkeel/kubeconfig")).expect("a kubeconfig");
    let before = kubeconfig();
    let second = evenkeel(&["sandbox"], here.path());
    assert_eq!(kubeconfig(), before, "it still leads to the first one");
    first.kill().expect("it is ours");
    first.wait().expect("it ends");
    assert_eq!(code(&second), 2, "{}", stdout(&second));
    let words = format!("another host uses the data directory .evenkeel/journal (process {})", first.id());
    assert!(stderr(&second).contains(&words), "{}", stderr(&second));
}

#[test]
fn completions_are_there_for_each_shell() {
    let here = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = evenkeel(&["completions", shell], here.path());
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("evenkeel"), "{shell}");
    }
}
