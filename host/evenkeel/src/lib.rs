//! The Evenkeel host and its command line.

// What cannot be written is an error, not a panic: see `evenkeel_agent::console`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod build;
pub mod cli;
pub mod output;
pub mod telemetry;
