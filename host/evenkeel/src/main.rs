//! The `evenkeel` command: everything is in the library.

/// A pass, a look and an event are thousands of small blocks that come on one thread and go on another: a fifth to a third of the
/// host's own processor time was the system's allocator (`tests/bench`, `events`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    evenkeel::cli::main()
}
