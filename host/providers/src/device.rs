//! The provider `device`: the machine that the host runs on, its files, hooks, images, applications, OS and reboots.

pub mod application;
pub mod hooks;
pub mod linux;
pub mod management;
pub mod seal;
pub mod simulated;
pub mod window;

pub use evenkeel_device_words as words;
pub use words::NAME;
