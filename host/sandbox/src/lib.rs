//! An in-memory Kubernetes API, faithful to kube-apiserver 1.35.
//!
//! [`Sandbox`] holds a cluster's objects. [`Sandbox::service`] is a [`tower::Service`] over HTTP requests, which
//! `kube::Client::new` takes as it is; [`Sandbox::serve`] puts the same service behind a TLS listener for kubectl. The
//! controllers of a control plane that clients rely on (garbage collection, namespaces, custom resources) run within the
//! request that gives them work, so that the same requests always make the same history.
//!
//! It is for tests, demos and simulations. Everybody may do everything, and nothing runs a pod.

mod api;
mod apply;
mod audit;
mod body;
mod convert;
mod discovery;
mod durable;
mod error;
mod faults;
mod identity;
mod json;
mod lifecycle;
mod list;
mod listen;
mod negotiate;
mod openapi;
mod patch;
mod protobuf;
mod request;
mod resources;
mod review;
mod sandbox;
pub mod schema;
mod selector;
mod service;
mod services;
mod show;
mod signal;
pub mod standins;
mod store;
mod table;
mod turn;
mod verbs;
mod watch;

pub use audit::WriteRecord;
pub use body::ApiBody;
pub use durable::OpenError;
pub use error::{ApiError, Cause, Details};
pub use faults::{Aim, Effect, Fault, Faults};
pub use listen::{ListenError, ListenOptions, Listening};
pub use sandbox::{Cut, PutError, Sandbox, SandboxOptions};
pub use service::{ApiService, ReadBody};

/// Where the time comes from.
pub type Clock = std::sync::Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
