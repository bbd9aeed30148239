//! The provider `device`: the machine that the host runs on, its files, hooks, images, applications, OS and reboots.

pub mod seal;
pub mod words;

pub use words::NAME;
