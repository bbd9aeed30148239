//! Runs reconciler components under limits.
//!
//! [`Runtime::load`] turns the bytes of a component into a [`Plugin`]: it refuses what is no plugin, compiles it (in
//! a child process, into a private cache) and asks it to describe itself. [`Plugin`] is a
//! [`Guest`](evenkeel_core::guest::Guest): each call has a fresh instance, which ends with the call.
//!
//! Nothing that a guest says is trusted: time, memory, stack and the size of its reply are limited, and a guest that
//! oversteps costs its own pass only.

// What compiles and what keeps it has no use without a compiler, and is small: it is not taken apart for that.
#![cfg_attr(not(feature = "compile"), allow(dead_code, unused_imports))]

mod cache;
mod call;
mod compile;
mod convert;
mod engine;
mod examine;
mod generated;
mod limits;
mod load;
mod panic;
mod plugin;
mod swap;
mod ticker;

pub use compile::{CompileLimits, Compiler, compile_main};
pub use limits::Limits;
pub use load::{LoadError, Runtime, RuntimeError, RuntimeOptions};
pub use plugin::Plugin;

/// The interface that a plugin exports, with the version that this host serves.
pub const GUEST_INTERFACE: &str = "evenkeel:reconciler/guest@0.1.0";
