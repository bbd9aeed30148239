//! The host as operators see it, on an embedded Kubernetes.

mod deploy;
mod failover;
mod metrics;
mod plugin;
mod servers;
