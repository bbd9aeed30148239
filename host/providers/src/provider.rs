//! What a provider is: it answers questions, carries operations out, and tells when an answer may have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, ObjectRef, Operation};
use tokio::time::Instant;

use crate::changes::Changes;
use crate::traffic::{CallObserver, CallReport, CallResult, FarEnd};

/// What a question or an operation resolves to.
pub type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Who asks or acts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// The plugin, by its name in the manifest.
    pub plugin: String,
    /// The primary of the pass.
    pub object: ObjectRef,
    /// The primary's UID; none where it is gone.
    pub uid: Option<String>,
}

/// A system outside Kubernetes that plugins may ask and have do things.
///
/// A failure (`Err`) is for what the plugin did wrong, or where the provider itself is not there. What the outside
/// world does, unreachable systems included, is an answer, so that a plugin can put it into a status.
pub trait Provider: Send + Sync {
    /// Answers a question. It is asked anew in each pass that puts it.
    fn answer<'a>(&'a self, caller: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json>;

    /// Carries an operation out. One with a key that it has seen from this caller is not started twice.
    fn perform<'a>(
        &'a self,
        caller: &'a Caller,
        operation: &'a Operation,
    ) -> ProviderFuture<'a, Option<Json>>;

    /// The answer to a question as far as it is known to hold still, without asking anybody; none where somebody would
    /// have to be asked.
    fn standing(&self, query: &ExternalQuery) -> Option<Json> {
        let _ = query;
        None
    }

    /// What is known of the answer to a question is to be looked at anew: something may have been missed.
    fn doubt(&self, query: &ExternalQuery) {
        let _ = query;
    }

    /// Where it tells which questions may be answered otherwise now; none where it never tells, and passes that
    /// wait for something have to look again by themselves.
    fn changes(&self) -> Option<&Changes> {
        None
    }

    /// Nobody waits for another answer to this question any more.
    fn forget(&self, query: &ExternalQuery) {
        let _ = query;
    }

    /// Whether nothing has happened that it knows of and has not told yet. Virtual time stands still until then.
    fn idle(&self) -> bool {
        true
    }

    /// The questions and operations that it knows, for whoever counts: a plugin may ask for anything.
    fn calls(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an answer says that the outside world could not be asked, or would not.
    fn is_trouble(&self, answer: &str) -> bool {
        let _ = answer;
        false
    }

    /// The systems that it speaks to, as they stand now.
    fn far_ends(&self) -> Vec<FarEnd> {
        Vec::new()
    }
}

/// The providers of a host, by name.
#[derive(Clone, Default)]
pub struct Providers {
    named: BTreeMap<String, Arc<dyn Provider>>,
    on_call: Option<CallObserver>,
}

impl Providers {
    /// Adds a provider; one of the same name is replaced.
    pub fn with(mut self, name: &str, provider: Arc<dyn Provider>) -> Self {
        self.named.insert(name.to_owned(), provider);
        self
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.named.keys().map(String::as_str).collect()
    }

    /// Tells of every call that has ended.
    pub fn observed_by(mut self, on_call: CallObserver) -> Self {
        self.on_call = Some(on_call);
        self
    }

    /// Puts a question; a provider that the host lacks is a denial.
    pub async fn answer(&self, caller: &Caller, query: &ExternalQuery) -> Result<Json, Failure> {
        let (provider, began) = (self.get(&query.provider)?, Instant::now());
        let answer = provider.answer(caller, query).await;
        self.ended((&query.provider, &query.question), provider, answer.as_deref(), began);
        answer
    }

    /// Has an operation carried out; a provider that the host lacks is a denial.
    pub async fn perform(&self, caller: &Caller, operation: &Operation) -> Result<Option<Json>, Failure> {
        let (provider, began) = (self.get(&operation.provider)?, Instant::now());
        let outcome = provider.perform(caller, operation).await;
        let said = outcome.as_ref().map(|answer| answer.as_deref().unwrap_or_default());
        self.ended((&operation.provider, &operation.operation), provider, said, began);
        outcome
    }

    /// The answer to a question as far as it is known to hold still; none where somebody would have to be asked.
    pub fn standing(&self, query: &ExternalQuery) -> Option<Json> {
        self.named.get(&query.provider)?.standing(query)
    }

    /// What is known of the answer to a question is to be looked at anew: something may have been missed.
    pub fn doubt(&self, query: &ExternalQuery) {
        if let Some(provider) = self.named.get(&query.provider) {
            provider.doubt(query);
        }
    }

    /// The systems that they speak to, by provider.
    pub fn far_ends(&self) -> Vec<(&str, FarEnd)> {
        let mut all = Vec::new();
        for (name, provider) in &self.named {
            all.extend(provider.far_ends().into_iter().map(|end| (name.as_str(), end)));
        }
        all
    }

    fn ended(
        &self,
        (provider, call): (&str, &str),
        of: &Arc<dyn Provider>,
        said: Result<&str, &Failure>,
        began: Instant,
    ) {
        let Some(on_call) = &self.on_call else { return };
        // The name came from a plugin.
        let call = of.calls().iter().copied().find(|known| *known == call).unwrap_or("other");
        let result = match said {
            Ok(answer) if of.is_trouble(answer) => CallResult::Trouble,
            Ok(_) => CallResult::Ok,
            Err(_) => CallResult::Failed,
        };
        on_call(&CallReport { provider, call, result, took: began.elapsed() });
    }

    /// Nobody waits for another answer to this question any more.
    pub fn forget(&self, query: &ExternalQuery) {
        if let Some(provider) = self.named.get(&query.provider) {
            provider.forget(query);
        }
    }

    /// Whether none of them has something to tell.
    pub fn idle(&self) -> bool {
        self.named
            .values()
            .all(|provider| provider.idle() && provider.changes().is_none_or(|changes| changes.is_empty()))
    }

    /// Waits until one of them has something to tell, and hands out all that it has; never returns where none tells.
    /// Nothing is lost where the future is dropped; the providers are not idle before it is handed out.
    pub async fn told(&self, take: impl FnOnce(&BTreeSet<ExternalQuery>)) {
        let telling: Vec<_> = self.named.values().filter_map(|provider| provider.changes()).collect();
        if telling.is_empty() {
            return std::future::pending().await;
        }
        let waiting = telling.iter().map(|changes| Box::pin(changes.some()));
        let (_, which, _) = futures::future::select_all(waiting).await;
        if let Some(changes) = telling.get(which) {
            changes.hand_out(take);
        }
    }

    fn get(&self, name: &str) -> Result<&Arc<dyn Provider>, Failure> {
        self.named
            .get(name)
            .ok_or_else(|| Failure::new(FailureKind::Denied, format!("no such provider: {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::contract::Gvk;

    use super::*;

    #[tokio::test]
    async fn a_provider_that_the_host_lacks_is_a_denial_that_names_it() {
        let query =
            ExternalQuery { provider: "vsphere".into(), question: "vm".into(), arguments: "{}".into() };
        let object = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), "b");
        let caller = Caller { plugin: "p".into(), object, uid: None };
        let failure = Providers::default().answer(&caller, &query).await.expect_err("no provider");
        assert_eq!(failure, Failure::new(FailureKind::Denied, "no such provider: \"vsphere\""));
    }
}
