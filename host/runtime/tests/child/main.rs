//! Compiling in a child process. This program is its own child: with the hidden subcommand it compiles.

#[path = "../runtime/guests.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod guests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel_runtime::{CompileLimits, Compiler, LoadError, Runtime, RuntimeOptions, compile_main};
use guests::{Guest, request, that};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("__compile") {
        return compile_main(arguments);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        a_child_compiles_what_this_process_runs().await;
        what_the_child_refuses_is_refused_with_its_reason().await;
        a_child_that_takes_too_much_is_stopped().await;
        a_program_that_is_not_there_is_an_error().await;
    });
    println!("4 tests of the compiling child passed");
    ExitCode::SUCCESS
}

async fn load(wasm: &[u8], exe: Option<PathBuf>, limits: CompileLimits) -> Result<(), LoadError> {
    let exe = exe.unwrap_or_else(|| std::env::current_exe().expect("this program"));
    let compiler = Compiler::ChildProcess { exe };
    let options =
        RuntimeOptions { compiler, compile_limits: limits, concurrency: 2, ..RuntimeOptions::default() };
    let plugin = Runtime::new(options).expect("the runtime starts").load(wasm).await?;
    assert!(plugin.reconcile(&request()).await.is_ok());
    Ok(())
}

async fn a_child_compiles_what_this_process_runs() {
    let outcome = load(&that("").build(), None, CompileLimits::default()).await;
    assert!(outcome.is_ok(), "{outcome:?}");
}

async fn what_the_child_refuses_is_refused_with_its_reason() {
    let mut wasm = Guest::default().build();
    // A section of an unknown kind after all others: whole in form, and not valid.
    wasm.extend([0x7f, 0]);
    let outcome = load(&wasm, None, CompileLimits::default()).await;
    assert!(matches!(&outcome, Err(LoadError::Invalid { reason }) if !reason.is_empty()), "{outcome:?}");
}

async fn a_child_that_takes_too_much_is_stopped() {
    let wasm = that("").build();
    let tight = |limits: CompileLimits| load(&wasm, None, limits);
    for limits in [
        CompileLimits { time: Duration::ZERO, ..CompileLimits::default() },
        CompileLimits { output: 100, ..CompileLimits::default() },
        CompileLimits { memory: 1 << 20, ..CompileLimits::default() },
    ] {
        let outcome = tight(limits).await;
        assert!(matches!(outcome, Err(LoadError::Compile(_))), "{limits:?}: {outcome:?}");
    }
}

async fn a_program_that_is_not_there_is_an_error() {
    let outcome =
        load(&that("").build(), Some("/nonexistent/evenkeel".into()), CompileLimits::default()).await;
    assert!(matches!(outcome, Err(LoadError::Compile(_))), "{outcome:?}");
}
