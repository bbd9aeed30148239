//! Scenario files: given objects, steps, expectations.

pub(crate) mod aim;
mod before;
mod beginning;
mod checked;
pub mod duration;
pub mod expect;
pub mod expected;
pub mod file;
pub mod kinds;
mod laid;
mod log;
pub mod report;
pub mod run;
mod server;
pub mod step;
mod story;
pub mod update;
pub mod user;
mod verify;
pub mod world;
mod yaml;
