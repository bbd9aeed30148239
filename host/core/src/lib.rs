//! The decisions of the Evenkeel host, without IO.

pub mod contract;
pub mod guest;
