//! Scenario files: given objects, steps, expectations.

pub mod duration;
pub mod expect;
pub mod file;
pub mod kinds;
pub mod report;
pub mod run;
pub mod world;
