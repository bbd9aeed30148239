//! The decisions of the Evenkeel host, without IO.
//!
//! Everything here is a function of its arguments: no clock but the one handed in, no randomness but from a seed.

// A test may index what it has just made.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

pub mod admit;
pub mod breaker;
pub mod canonical;
pub mod contract;
pub mod deps;
pub mod fingerprint;
pub mod footprint;
pub mod grant;
pub mod guest;
pub mod labels;
pub mod lease;
pub mod limits;
pub mod manifest;
pub mod memo;
pub mod names;
pub mod noop;
pub mod object;
pub mod pass;
pub mod pointer;
pub mod query;
pub mod queue;
pub mod record;
pub mod retry;
pub mod rights;
pub mod selector;
pub mod target;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod view;
