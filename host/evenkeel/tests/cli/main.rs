//! The program as a person types it.

mod commands;

use std::path::Path;
use std::process::{Command, Output};

fn evenkeel(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}
