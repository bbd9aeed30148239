//! The way to systems outside Kubernetes: one trait, one entry per provider's name.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, Operation};

/// What a question to a provider resolves to.
pub type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// A system outside Kubernetes that plugins may ask and have do things.
pub trait Provider: Send + Sync {
    /// Answers a question. It is asked anew in each pass that puts it.
    fn answer<'a>(&'a self, query: &'a ExternalQuery) -> ProviderFuture<'a, Json>;

    /// Carries an operation out. One with a key that it has seen before is not started twice.
    fn perform<'a>(&'a self, operation: &'a Operation) -> ProviderFuture<'a, Option<Json>>;
}

/// The providers of a host, by name.
#[derive(Clone, Default)]
pub struct Providers(BTreeMap<String, Arc<dyn Provider>>);

impl Providers {
    /// Adds a provider; one of the same name is replaced.
    pub fn with(mut self, name: &str, provider: Arc<dyn Provider>) -> Self {
        self.0.insert(name.to_owned(), provider);
        self
    }

    /// Puts a question; a provider that the host lacks is a denial.
    pub async fn answer(&self, query: &ExternalQuery) -> Result<Json, Failure> {
        self.named(&query.provider)?.answer(query).await
    }

    /// Has an operation carried out; a provider that the host lacks is a denial.
    pub async fn perform(&self, operation: &Operation) -> Result<Option<Json>, Failure> {
        self.named(&operation.provider)?.perform(operation).await
    }

    fn named(&self, name: &str) -> Result<&Arc<dyn Provider>, Failure> {
        self.0
            .get(name)
            .ok_or_else(|| Failure::new(FailureKind::Denied, format!("no such provider: {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_provider_that_the_host_lacks_is_a_denial_that_names_it() {
        let query =
            ExternalQuery { provider: "vsphere".into(), question: "vm".into(), arguments: "{}".into() };
        let failure = Providers::default().answer(&query).await.expect_err("no provider");
        assert_eq!(failure, Failure::new(FailureKind::Denied, "no such provider: \"vsphere\""));
    }
}
