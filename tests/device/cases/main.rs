//! The agent on real folders, as a process.

mod machine;
mod power;
mod rest;
mod story;
