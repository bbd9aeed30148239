//! An in-memory Kubernetes API.
