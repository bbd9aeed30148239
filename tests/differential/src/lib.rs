//! The sandbox held to the real kube-apiserver.
//!
//! A [`Case`] is a sequence of requests. [`Arena`] holds both servers with the same definitions in place; it sends each request
//! to both, takes out of the answers what must differ (see `normal`), and stops at the first difference. Cases are written by
//! hand (`cases/*.yaml`), or made from a seed and, where they show a difference, shrunk to a few requests.

mod arena;
mod case;
mod chance;
pub mod generate;
mod kubectl;
mod normal;
mod server;
mod shrink;
mod substitute;

pub use arena::{Arena, Difference};
pub use case::{Case, Step, hand_written};
pub use kubectl::compare_kubectl;
pub use shrink::shrink;
