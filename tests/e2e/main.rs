//! The program as operators run it: real processes on a real control plane, and what happens when machines die.
//!
//! Skipped aloud where no control plane was built: `cargo run -p evenkeel-test-cluster -- build`.

mod api;
mod availability;
mod connections;
mod control_plane;
mod explain;
mod guide;
mod host;
mod kite;
mod memory;
mod processes;
mod proxy;
mod rights;
mod start;
mod world;
