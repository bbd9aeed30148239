//! The way to systems outside Kubernetes: what a provider is, and the providers that come with the host.
//!
//! A plugin names a provider, a question or an operation, and arguments in JSON; it holds no connection and sees no
//! credentials. Beside each provider stands its twin: the same code on a simulated far end, for scenarios and demos.

pub mod changes;
pub mod config;
pub mod device;
pub mod machine;
pub mod provider;
pub mod traffic;
pub mod twins;
pub mod vsphere;

pub use changes::Changes;
pub use provider::{Caller, Provider, ProviderFuture, Providers};
