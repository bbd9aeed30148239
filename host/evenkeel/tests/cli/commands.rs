//! The commands as a person types them: what they print, and how they end.

use std::process::Command;

use super::{code, evenkeel, folder, stderr, stdout};

const COMMANDS: [&str; 12] = [
    "demo",
    "sandbox",
    "run",
    "test",
    "render",
    "explain",
    "new",
    "build",
    "check",
    "inspect",
    "scaffold",
    "completions",
];

#[test]
fn every_command_has_help_with_examples() {
    let here = folder();
    let all = stdout(&evenkeel(&["--help"], here.path()));
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command}")), "{command} is not in the overview:\n{all}");
        let output = evenkeel(&[command, "--help"], here.path());
        assert_eq!(code(&output), 0);
        let help = stdout(&output);
        assert!(help.contains("Examples:\n"), "{command} has no examples:\n{help}");
    }
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
fn completions_are_there_for_each_shell() {
    let here = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = evenkeel(&["completions", shell], here.path());
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains("evenkeel"), "{shell}");
    }
}
