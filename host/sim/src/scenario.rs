//! Scenario files: given objects, steps, expectations.

pub mod duration;
pub mod expect;
pub mod file;
pub mod kinds;
pub mod report;
pub mod run;
mod story;
pub mod update;
mod verify;
pub mod world;
