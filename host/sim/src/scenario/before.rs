//! What happens just before a certain write: the user's requests that a scenario puts between a pass and what it sends.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use evenkeel_sandbox::ApiBody;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt};

use super::aim::Aim;
use super::server::Way;
use super::step::WriteName;
use super::user::UserRequest;

/// Requests that wait for their moment, shared by the scenario and the host's way to the API server.
#[derive(Clone, Debug, Default)]
pub(super) struct Ambushes(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    ambushes: Vec<Ambush>,
    /// What the API server refused, in words.
    refused: Vec<String>,
}

#[derive(Debug)]
struct Ambush {
    write: WriteName,
    /// The kind as it stands in paths.
    plural: Option<String>,
    requests: Vec<UserRequest>,
    /// What the scenario knows it by.
    mark: usize,
}

impl Ambushes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These requests come before the next write of that name.
    pub(super) fn lay(
        &self,
        write: WriteName,
        plural: Option<String>,
        requests: Vec<UserRequest>,
        mark: usize,
    ) {
        self.waiting().ambushes.push(Ambush { write, plural, requests, mark });
    }

    /// The marks of those whose write did not come yet.
    pub(super) fn idle(&self) -> Vec<usize> {
        self.waiting().ambushes.iter().map(|ambush| ambush.mark).collect()
    }

    /// What the API server refused since the last look.
    pub(super) fn refused(&self) -> Vec<String> {
        std::mem::take(&mut self.waiting().refused)
    }

    /// The requests that come before this one; they do so once.
    fn sprung<B>(&self, request: &Request<B>) -> Vec<UserRequest> {
        let mut waiting = self.waiting();
        if waiting.ambushes.is_empty() {
            return Vec::new();
        }
        let Some(aim) = Aim::of(request) else { return Vec::new() };
        let Some(verb) = aim.write() else { return Vec::new() };
        let hit = waiting.ambushes.iter().position(|ambush| {
            let is = |wanted: Option<&str>, actual: &str| wanted.is_none_or(|wanted| wanted == actual);
            is(ambush.write.verb.as_deref().map(word), verb)
                && is(ambush.plural.as_deref(), aim.plural)
                && is(ambush.write.name.as_deref(), aim.name)
        });
        hit.map(|at| waiting.ambushes.remove(at).requests).unwrap_or_default()
    }
}

/// The word of a write as a request tells it: what changes finalizers is a patch there.
fn word(verb: &str) -> &str {
    match verb {
        "add-finalizer" | "remove-finalizer" => "patch",
        other => other,
    }
}

/// The host's way to the API server, with what comes before a write put in between.
#[derive(Clone)]
pub(super) struct Ambushed {
    service: Way,
    ambushes: Ambushes,
}

impl Ambushed {
    pub(super) fn new(service: Way, ambushes: Ambushes) -> Self {
        Self { service, ambushes }
    }
}

impl Service<Request<kube::client::Body>> for Ambushed {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (service, ambushes) = (self.service.clone(), self.ambushes.clone());
        let before = ambushes.sprung(&request);
        Box::pin(async move {
            for user in before {
                if let Some(refusal) = refusal(service.clone(), &user).await {
                    ambushes.waiting().refused.push(format!("{} {}: {refusal}", user.method, user.target));
                }
            }
            service.oneshot(request).await
        })
    }
}

/// Sends a user's request; what the server says where it refuses it.
async fn refusal(service: Way, user: &UserRequest) -> Option<String> {
    let request = Request::builder()
        .method(user.method)
        .uri(&user.target)
        .header(http::header::CONTENT_TYPE, user.content_type)
        .header(http::header::USER_AGENT, "user")
        .body(kube::client::Body::from(user.body.clone()));
    let request = match request {
        Ok(request) => request,
        Err(error) => return Some(error.to_string()),
    };
    let Ok(response) = service.oneshot(request).await;
    if response.status().is_success() {
        return None;
    }
    let status = response.status();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Some(error.to_string()),
    };
    let said: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let message = said.as_ref().and_then(|status| status.get("message")).and_then(|text| text.as_str());
    Some(message.map_or_else(|| status.to_string(), str::to_owned))
}
