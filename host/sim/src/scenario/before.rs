//! What happens just before a certain write: the user's requests that a scenario puts between a pass and what it sends.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use evenkeel_sandbox::{ApiBody, ApiService};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use tower::{Service, ServiceExt};

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
}

impl Ambushes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These requests come before the next write of that name.
    pub(super) fn lay(&self, write: WriteName, plural: Option<String>, requests: Vec<UserRequest>) {
        self.waiting().ambushes.push(Ambush { write, plural, requests });
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
        let hit = waiting.ambushes.iter().position(|ambush| {
            let is = |wanted: Option<&str>, actual: &str| wanted.is_none_or(|wanted| wanted == actual);
            is(ambush.write.verb.as_deref().map(word), aim.verb)
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

/// A write as its request names it.
struct Aim<'a> {
    verb: &'a str,
    plural: &'a str,
    /// Empty in a creation, whose body has it.
    name: &'a str,
}

impl<'a> Aim<'a> {
    fn of<B>(request: &'a Request<B>) -> Option<Self> {
        let mut parts = request.uri().path().trim_matches('/').split('/');
        match parts.next()? {
            "api" => parts.next()?,
            _ => parts.nth(1)?,
        };
        let rest: Vec<&str> = parts.collect();
        let rest = match rest.as_slice() {
            // A Namespace itself is in no namespace.
            ["namespaces", _, resource, below @ ..] if !["status", "finalize"].contains(resource) => {
                (*resource, below)
            }
            [resource, below @ ..] => (*resource, below),
            [] => return None,
        };
        let (plural, below) = rest;
        let status = below.get(1).is_some_and(|subresource| *subresource == "status");
        let content = request.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let apply = content.is_some_and(|content| content.starts_with("application/apply-patch"));
        let verb = match (request.method(), apply, status) {
            (&Method::POST, ..) => "create",
            (&Method::PUT, ..) => "update",
            (&Method::DELETE, ..) => "delete",
            (&Method::PATCH, true, false) => "apply",
            (&Method::PATCH, true, true) => "apply-status",
            (&Method::PATCH, false, _) => "patch",
            _ => return None,
        };
        Some(Self { verb, plural, name: below.first().copied().unwrap_or_default() })
    }
}

/// The host's way to the API server, with what comes before a write put in between.
#[derive(Clone)]
pub(super) struct Ambushed {
    service: ApiService,
    ambushes: Ambushes,
}

impl Ambushed {
    pub(super) fn new(service: ApiService, ambushes: Ambushes) -> Self {
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
async fn refusal(service: ApiService, user: &UserRequest) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, target: &str, content_type: &str, expected: &str) {
        let request =
            Request::builder().method(method).uri(target).header("content-type", content_type).body(());
        let request = request.expect("a request");
        let told = Aim::of(&request)
            .map_or("no write".to_owned(), |aim| format!("{} {} {}", aim.verb, aim.plural, aim.name));
        assert_eq!(told.trim_end(), expected, "{method} {target}");
    }

    #[test]
    fn a_write_is_told_by_its_request() {
        let (json, merge, apply) =
            ("application/json", "application/merge-patch+json", "application/apply-patch+yaml");
        check("POST", "/api/v1/namespaces?fieldManager=a", json, "create namespaces");
        check("POST", "/apis/apps/v1/namespaces/a/deployments", json, "create deployments");
        check("PATCH", "/apis/example.com/v1/things/b?force=true", apply, "apply things b");
        check("PATCH", "/apis/example.com/v1/namespaces/a/things/b/status", apply, "apply-status things b");
        check("PATCH", "/api/v1/namespaces/a", merge, "patch namespaces a");
        check("PATCH", "/api/v1/namespaces/a/status", apply, "apply-status namespaces a");
        check("DELETE", "/api/v1/namespaces/a/secrets/b", json, "delete secrets b");
        check("GET", "/api/v1/namespaces/a/secrets/b", json, "no write");
    }
}
