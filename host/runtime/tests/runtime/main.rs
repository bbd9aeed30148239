//! The runtime against guests that behave, and against all that do not.

mod calls;
mod compiled;
mod guests;
mod refused;

use std::sync::Arc;

use evenkeel_runtime::{Limits, LoadError, Plugin, Runtime, RuntimeOptions};

/// A runtime that compiles in this process.
fn runtime(limits: Limits) -> Runtime {
    let options = RuntimeOptions { limits, concurrency: 8, ..RuntimeOptions::default() };
    Runtime::new(options).expect("the runtime starts")
}

/// Loads a guest with the limits given.
async fn load(guest: &guests::Guest, limits: Limits) -> Result<Arc<Plugin>, LoadError> {
    runtime(limits).load(&guest.build()).await
}

/// The whole chain of an error, as a log shows it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
