//! The agent on real folders, as a process.

mod machine;
mod os;
mod power;
mod rest;
mod story;
