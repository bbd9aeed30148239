//! Requests to the API server and what can become of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::contract::Gvk;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::fence::Fence;
use crate::limits;

/// Plain JSON.
pub(crate) const JSON: &str = "application/json";
/// A list of metadata alone; a server that cannot falls back to whole objects, which holds metadata too.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// Metadata of one object alone, also in a watch.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Why a request gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// The API server refused it.
    #[error("the API server answered {code}{}: {}", reason(status), status.message)]
    Status {
        /// HTTP status code.
        code: u16,
        /// What it said.
        status: Box<Status>,
        /// It asked to wait this long.
        retry_after: Option<Duration>,
    },
    /// Nothing came in time; whether it was done is not known.
    #[error("the API server did not answer within {within:?}")]
    Timeout {
        /// How long was waited.
        within: Duration,
    },
    /// The server was not reached, or the connection broke; whether it was done is not known.
    #[error("the connection to the API server failed")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// More came than is taken.
    #[error("the API server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// What came is not what the API promises.
    #[error("the API server's answer is not valid")]
    Decode(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The request cannot be written down.
    #[error("the request is not valid")]
    Request(#[source] http::Error),
    /// Another host may act now, so that this one does not write.
    #[error("this host does not hold the Lease{}", if *begun { ": the write was given up on its way" } else { "" })]
    NotLeading {
        /// Whether it may have been done all the same.
        begun: bool,
    },
}

fn reason(status: &Status) -> String {
    if status.reason.is_empty() { String::new() } else { format!(" {}", status.reason) }
}

impl RestError {
    /// The HTTP status code, where there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            RestError::Status { code, .. } => Some(*code),
            RestError::Timeout { .. }
            | RestError::Connection(_)
            | RestError::TooLarge { .. }
            | RestError::Decode(_)
            | RestError::Request(_)
            | RestError::NotLeading { .. } => None,
        }
    }
}

/// The API server's `Status` object, the parts that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// For a person.
    pub message: String,
    /// For a program.
    pub reason: String,
    /// HTTP status code, 0 where it is not given.
    pub code: u16,
    /// More, by reason.
    pub details: Option<StatusDetails>,
}

/// More about a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    /// What it is about.
    pub name: String,
    /// What it is about.
    pub kind: String,
    /// What it is about.
    pub uid: String,
    /// Each single reason.
    pub causes: Option<Vec<StatusCause>>,
    /// The time to wait.
    pub retry_after_seconds: Option<u64>,
}

/// One of several reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// For a program.
    pub reason: String,
    /// For a person.
    pub message: String,
    /// The field at fault.
    pub field: String,
}

impl Status {
    /// Its causes.
    pub fn causes(&self) -> &[StatusCause] {
        self.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default()
    }
}

/// One request in words.
#[derive(Clone)]
pub(crate) struct Call {
    /// `get`, `list`, `watch`, `create`, `apply`, `patch`, `delete`: for metrics.
    pub(crate) verb: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Bytes,
    /// The user in whose name it is sent; none for the host's own.
    pub(crate) user: Option<String>,
}

impl Call {
    /// A read.
    pub(crate) fn read(verb: &'static str, path: String, accept: &'static str) -> Self {
        Call {
            verb,
            method: Method::GET,
            path,
            query: vec![],
            content_type: JSON,
            accept,
            body: Bytes::new(),
            user: None,
        }
    }

    /// A write with a body.
    pub(crate) fn write(verb: &'static str, method: Method, path: String, body: Bytes) -> Self {
        Call { verb, method, path, query: vec![], content_type: JSON, accept: JSON, body, user: None }
    }

    /// With one more query parameter.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// In the name of a user.
    pub(crate) fn in_name_of(mut self, user: Option<&str>) -> Self {
        self.user = user.map(str::to_owned);
        self
    }

    /// Whether it changes something at the API server.
    fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch" | "review")
    }

    fn request(self) -> Result<Request<Body>, RestError> {
        let mut uri = self.path;
        for (position, (name, value)) in self.query.iter().enumerate() {
            uri.push(if position == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            encode(value, &mut uri);
        }
        let mut request = Request::builder().method(self.method).uri(uri).header(header::ACCEPT, self.accept);
        if self.verb == "watch" {
            // Newer API servers compress each event by itself, which the client's decoder cannot read.
            request = request.header(header::ACCEPT_ENCODING, "identity");
        }
        if let Some(user) = &self.user {
            // The API server adds the groups of a service account by itself.
            request = request.header("impersonate-user", user);
        }
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, self.content_type);
        }
        request.body(Body::from(self.body)).map_err(RestError::Request)
    }
}

/// Told of every request that ended: for metrics.
pub type RequestObserver = Arc<dyn Fn(&RequestReport) + Send + Sync>;

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestReport {
    /// `get`, `list`, `watch`, `create`, `apply`, `patch` or `delete`.
    pub verb: &'static str,
    /// HTTP status code; none where no answer came.
    pub code: Option<u16>,
    /// Until the answer's head came.
    pub elapsed: Duration,
}

/// The client, with limits and counters.
pub(crate) struct Rest {
    client: kube::Client,
    /// Sends the writes.
    writer: kube::Client,
    within: Duration,
    observer: Option<RequestObserver>,
    /// In front of every write.
    fence: Option<Arc<Fence>>,
    counts: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

impl Rest {
    pub(crate) fn new(client: kube::Client, within: Duration, observer: Option<RequestObserver>) -> Self {
        let writer = client.clone();
        Rest { client, writer, within, observer, fence: None, counts: Mutex::new(BTreeMap::new()) }
    }

    /// Sends writes for as long only as this is open, and by this client, if it is another one.
    pub(crate) fn behind(mut self, fence: Option<Arc<Fence>>, writer: Option<kube::Client>) -> Self {
        self.fence = fence;
        if let Some(writer) = writer {
            self.writer = writer;
        }
        self
    }

    /// Requests so far by verb and status code, 0 where no answer came.
    pub(crate) fn counts(&self) -> BTreeMap<(&'static str, u16), u64> {
        lock(&self.counts).clone()
    }

    /// Sends it and reads the answer whole.
    pub(crate) async fn text(&self, call: Call) -> Result<String, RestError> {
        let within = self.within;
        let Some(fence) = self.fence.as_ref().filter(|_| call.writes()) else {
            let answer = timeout(within, self.text_unlimited(call)).await;
            return answer.unwrap_or(Err(RestError::Timeout { within }));
        };
        let Some(allowed) = fence.allows() else { return Err(RestError::NotLeading { begun: false }) };
        let within = within.min(allowed);
        match timeout(within, fence.escort(self.text_unlimited(call))).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(RestError::NotLeading { begun: true }),
            Err(_) => Err(RestError::Timeout { within }),
        }
    }

    /// Sends a write, as [`Rest::text`] does.
    ///
    /// An API server that has just started knows no roles yet, and forbids everything. So what is forbidden counts as
    /// forbidden only by a server that says of itself that it is ready, and that forbids it once more then.
    pub(crate) async fn written(&self, call: Call) -> Result<String, RestError> {
        let again = call.clone();
        match self.text(call).await {
            Err(RestError::Status { code: 403, status, .. }) => {
                if self.is_ready().await {
                    self.text(again).await
                } else {
                    Err(not_ready(*status))
                }
            }
            answer => answer,
        }
    }

    /// Whether the API server says that it is ready, which everybody may ask where roles are as Kubernetes makes them.
    async fn is_ready(&self) -> bool {
        self.text(Call::read("get", "/readyz".into(), "*/*")).await.is_ok()
    }

    /// Nothing where the API server says that it is ready.
    ///
    /// # Errors
    /// If it does not, as of a server that cannot serve yet.
    pub(crate) async fn expect_ready(&self) -> Result<(), RestError> {
        if self.is_ready().await {
            return Ok(());
        }
        Err(not_ready(Status { message: "what anybody may do".into(), ..Status::default() }))
    }

    async fn text_unlimited(&self, call: Call) -> Result<String, RestError> {
        let response = self.send(call).await?;
        let body = collect(response.into_body()).await?;
        String::from_utf8(body.into()).map_err(|cause| RestError::Decode(cause.into()))
    }

    /// Sends it and hands out the body while it comes.
    pub(crate) async fn stream(&self, call: Call) -> Result<Body, RestError> {
        let within = self.within;
        match timeout(within, self.send(call)).await {
            Ok(answer) => Ok(answer?.into_body()),
            Err(_) => Err(RestError::Timeout { within }),
        }
    }

    async fn send(&self, call: Call) -> Result<Response<Body>, RestError> {
        let verb = call.verb;
        let client = if call.writes() { &self.writer } else { &self.client };
        let request = call.request()?;
        let started = Instant::now();
        let answer = client.send(request).await;
        let code = answer.as_ref().ok().map(|response| response.status().as_u16());
        *lock(&self.counts).entry((verb, code.unwrap_or(0))).or_default() += 1;
        if let Some(observer) = &self.observer {
            observer(&RequestReport { verb, code, elapsed: started.elapsed() });
        }
        let response = answer.map_err(|cause| RestError::Connection(cause.into()))?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }
}

/// What a server that is not ready forbade.
fn not_ready(status: Status) -> RestError {
    let message = format!("the API server is not ready, and forbids it: {}", status.message);
    let status = Status { message, reason: "ServiceUnavailable".into(), code: 503, details: status.details };
    RestError::Status { code: 503, status: Box::new(status), retry_after: None }
}

async fn refusal(response: Response<Body>) -> RestError {
    let code = response.status();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse().ok())
        .map(Duration::from_secs);
    match collect(response.into_body()).await {
        Ok(body) => RestError::from_refusal(code, &body, retry_after),
        Err(error) => error,
    }
}

impl RestError {
    /// From an answer that is no success; its body may be anything.
    fn from_refusal(code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| Status {
            message: String::from_utf8_lossy(body).trim().chars().take(limits::MESSAGE_CHARS_MAX).collect(),
            ..Status::default()
        });
        Self::from_status(code.as_u16(), status, retry_after)
    }

    /// From a `Status` object, as a watch also sends it.
    pub(crate) fn from_status(code: u16, status: Status, retry_after: Option<Duration>) -> Self {
        let told = status.details.as_ref().and_then(|details| details.retry_after_seconds);
        let retry_after =
            retry_after.or_else(|| told.filter(|seconds| *seconds > 0).map(Duration::from_secs));
        RestError::Status { code, status: Box::new(status), retry_after }
    }
}

async fn collect(body: Body) -> Result<Bytes, RestError> {
    let limit = limits::ANSWER_BYTES_MAX;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(cause) if cause.is::<LengthLimitError>() => Err(RestError::TooLarge { limit }),
        Err(cause) => Err(RestError::Connection(cause)),
    }
}

/// Locks; a panic of another holder leaves plain data behind, which is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The path of a group and version.
pub(crate) fn group_path(group: &str, version: &str) -> String {
    let mut path = String::from(if group.is_empty() { "/api/" } else { "/apis/" });
    if !group.is_empty() {
        encode(group, &mut path);
        path.push('/');
    }
    encode(version, &mut path);
    path
}

/// The path of a collection, or of an object in it, or of a part of that.
pub(crate) fn resource_path(
    gvk: &Gvk,
    plural: &str,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = group_path(&gvk.group, &gvk.version);
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        encode(namespace, &mut path);
    }
    for part in [Some(plural), name, subresource].into_iter().flatten() {
        path.push('/');
        encode(part, &mut path);
    }
    path
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // Writing to a string cannot fail.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_scope_and_subresource_and_escape_names() {
        let core = Gvk::new("", "v1", "ConfigMap");
        let crd = Gvk::new("kite.dev", "v1alpha1", "KiteUser");
        for (path, want) in [
            (resource_path(&core, "configmaps", Some("a"), None, None), "/api/v1/namespaces/a/configmaps"),
            (resource_path(&core, "configmaps", None, None, None), "/api/v1/configmaps"),
            (
                resource_path(&crd, "kiteusers", None, Some("x"), Some("status")),
                "/apis/kite.dev/v1alpha1/kiteusers/x/status",
            ),
            (
                resource_path(&crd, "kiteusers", None, Some("a/../b:c"), None),
                "/apis/kite.dev/v1alpha1/kiteusers/a%2F..%2Fb%3Ac",
            ),
        ] {
            assert_eq!(path, want);
        }
    }

    /// Sends a write to a server that forbids the first few, and answers `/readyz` with this code.
    async fn forbidden(times: usize, readyz: u16) -> (Result<String, RestError>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            let mut asked = lock(&log);
            let earlier = asked.iter().filter(|other| **other == path).count();
            let code = match path.as_str() {
                "/readyz" => readyz,
                _ if earlier < times => 403,
                _ => 200,
            };
            asked.push(path);
            let answer = Response::builder().status(code).body(Body::from(b"done".to_vec()));
            std::future::ready(answer)
        });
        let rest = Rest::new(kube::Client::new(service, "default"), Duration::from_secs(5), None);
        let call = Call::write("apply", Method::PATCH, "/write".into(), Bytes::new());
        let answer = rest.written(call).await;
        let asked = lock(&asked).clone();
        (answer, asked)
    }

    #[tokio::test]
    async fn what_a_server_forbids_before_it_is_ready_is_to_be_tried_again() {
        let code = |answer: Result<String, RestError>| answer.map_err(|error| error.code());
        let (answer, asked) = forbidden(9, 500).await;
        assert_eq!((code(answer), asked), (Err(Some(503)), vec!["/write".to_owned(), "/readyz".to_owned()]));
        let (answer, _) = forbidden(1, 200).await;
        assert_eq!(code(answer), Ok("done".to_owned()), "it became ready in between");
        let (answer, asked) = forbidden(9, 200).await;
        assert_eq!((code(answer), asked.len()), (Err(Some(403)), 3), "it means it");
        let (answer, asked) = forbidden(0, 200).await;
        assert_eq!((code(answer), asked.len()), (Ok("done".to_owned()), 1));
    }

    #[test]
    fn a_refusal_that_is_no_status_keeps_its_text() {
        let error = RestError::from_refusal(StatusCode::NOT_FOUND, b"404 page not found\n", None);
        assert_eq!(error.to_string(), "the API server answered 404: 404 page not found");
    }

    #[test]
    fn the_time_to_wait_comes_from_the_header_or_the_details() {
        let body = br#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":7}}"#;
        let wait = |header| match RestError::from_refusal(StatusCode::TOO_MANY_REQUESTS, body, header) {
            RestError::Status { retry_after, .. } => retry_after,
            other => panic!("{other}"),
        };
        assert_eq!(wait(None), Some(Duration::from_secs(7)));
        assert_eq!(wait(Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
    }
}
