//! The Evenkeel host and its command line.

pub mod build;
pub mod cli;
pub mod output;
pub mod telemetry;
