//! The Evenkeel host and its command line.

/// The command line: a file a subcommand.
pub mod cli {
    /// Parses the arguments and runs the subcommand; the exit code is 0 fine, 1 found something, 2 could not do it.
    pub fn main() -> std::process::ExitCode {
        std::process::ExitCode::from(2)
    }
}
