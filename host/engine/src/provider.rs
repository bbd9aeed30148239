//! The way to systems outside Kubernetes.

pub use evenkeel_providers::traffic::{CallObserver, CallReport, CallResult, Count, FarEnd};
pub use evenkeel_providers::{Caller, Changes, Provider, ProviderFuture, Providers};
