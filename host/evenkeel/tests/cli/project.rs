//! `evenkeel new`: the project that it makes builds, passes its tests and its scenarios, and is swapped hot.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{code, program, stderr, stdout};

/// A project as `evenkeel new` makes it, with its component.
pub struct Project {
    pub folder: PathBuf,
    pub component: PathBuf,
}

/// What cargo makes of it, kept between runs: most of it is other people's crates.
pub fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("greeter-target")
}

fn run(args: &[&str], folder: &Path) -> String {
    let output =
        program(args, folder).env("CARGO_TARGET_DIR", target()).output().expect("the program starts");
    assert_eq!(code(&output), 0, "evenkeel {}:\n{}{}", args.join(" "), stdout(&output), stderr(&output));
    stdout(&output)
}

/// The project, made and built once for all tests.
pub fn greeter() -> &'static Project {
    static PROJECT: OnceLock<Project> = OnceLock::new();
    PROJECT.get_or_init(|| {
        let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = here.join("greeter");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("an earlier run's");
        }
        run(&["new", "greeter"], here);
        let component = PathBuf::from(run(&["build"], &folder).trim());
        assert!(component.is_file(), "{}", component.display());
        Project { folder, component }
    })
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn its_own_tests_pass() {
    let project = greeter();
    let output = Command::new("cargo")
        .args(["test", "--quiet"])
        .current_dir(&project.folder)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_TERM_COLOR", "never")
        // Nobody looks at a debugger here, and it takes a third of the build.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("cargo starts");
    let told = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success() && told.contains("1 passed") && !told.contains("warning"), "{told}");
}

#[test]
fn its_scenarios_pass() {
    let told = run(&["test", "."], &greeter().folder);
    assert!(told.contains("1 passed, 0 failed"), "{told}");
}

#[test]
fn what_has_not_changed_is_not_built_again() {
    let told = run(&["build", "--output", "json"], &greeter().folder);
    assert!(told.contains("\"cached\": true"), "{told}");
}

#[test]
fn a_running_sandbox_loads_it_and_says_so() {
    let project = greeter();
    let here = super::folder();
    let plugins = here.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    fs::copy(&project.component, plugins.join("greeter.wasm")).expect("a copy");
    let mut child = program(&["sandbox", "--plugins", "plugins"], here.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let told: Vec<String> = lines.map_while(Result::ok).take(1).collect();
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    assert_eq!(told, ["  loaded greeter from greeter.wasm"]);
    assert!(here.path().join(".evenkeel/kubeconfig").is_file());
}
