//! The way to systems outside Kubernetes.

pub use evenkeel_providers::{Caller, Changes, Provider, ProviderFuture, Providers};
