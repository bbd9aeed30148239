//! The `evenkeel` command: everything is in the library.

fn main() -> std::process::ExitCode {
    evenkeel::cli::main()
}
