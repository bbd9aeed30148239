//! The sandbox held to the real kube-apiserver.
//!
//! A [`Case`] is a sequence of requests. [`Arena`] holds both servers with the same definitions in place; it sends each request
//! to both, takes out of the answers what must differ (see `normal`), and stops at the first difference. Cases are written by
//! hand (`cases/*.yaml`), or made from a seed and, where they show a difference, shrunk to a few requests.

mod arena;
mod case;
mod chance;
mod client_go;
pub mod generate;
mod kubectl;
mod normal;
mod server;
mod shrink;
pub mod speed;
mod substitute;

pub use arena::{Arena, Difference};
pub use case::{Case, Step, hand_written};
pub use client_go::{Examples, compare_client_go};
pub use kubectl::compare_kubectl;
pub use shrink::shrink;
