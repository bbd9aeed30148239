//! The program as a person types it, the documents, and the projects that it makes.

mod commands;
mod docs;
mod golden;
mod project;
mod streams;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// The program with these arguments, in a folder, as it prints where there is no terminal: without colours, unasked.
fn program(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("EVENKEEL_LOG")
        .env_remove("EVENKEEL_DATA_DIR")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    // What the outer cargo says of itself must not reach an inner one.
    command.env_remove("CARGO_TARGET_DIR");
    command
}

fn evenkeel(args: &[&str], folder: &Path) -> Output {
    program(args, folder).output().expect("the program starts")
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
