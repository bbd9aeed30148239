//! The host as operators see it, on an embedded Kubernetes.

mod container;
mod deploy;
mod failover;
mod metrics;
mod plugin;
mod servers;
mod traces;
