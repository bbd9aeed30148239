//! An in-memory Kubernetes API.

pub mod schema;
