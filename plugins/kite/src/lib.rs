//! Kite: users, namespaces, virtual machines and their disks.

pub mod api;
pub mod config;
pub mod names;
