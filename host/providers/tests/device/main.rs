//! The provider `device` on real folders and with real programs.

mod applications;
mod disk;
mod machine;
mod operations;
mod podman;
