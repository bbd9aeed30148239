//! A real Kubernetes control plane for tests.
//!
//! [`Parts`] builds etcd, kube-apiserver, kube-controller-manager and kubectl once from the Go module proxy, into
//! `target/kubernetes`. [`ControlPlane`] starts them on loopback with RBAC on, and ends them when it is dropped. [`Client`]
//! speaks to any API server over TLS, with nothing in between that could tidy an answer up.

pub mod audit;
mod client;
mod control_plane;
mod parts;
mod process;

pub use client::{Answer, Client, Lines};
pub use control_plane::{ControlPlane, PlaneOptions, User};
pub use parts::{DEMAND, Parts, parts_or_skip};
pub use process::{Process, Program};
