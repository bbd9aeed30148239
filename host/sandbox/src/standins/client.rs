//! The few requests that stand-ins make.

use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

/// A pinned future, as services of boxed type return.
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An API to act against: the sandbox's service, or that of a real cluster.
pub trait Service: Send + Sync + 'static {
    /// Sends a request; none if there was no answer.
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<Option<Answer>>;
}

/// An answer whose body is still to be read.
pub struct Answer {
    status: u16,
    body: Pin<Box<dyn Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Send>>,
    rest: BytesMut,
}

impl<S, B> Service for S
where
    S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn send(&self, request: Request<Full<Bytes>>) -> BoxFuture<Option<Answer>> {
        let service = self.clone();
        Box::pin(async move {
            let response = tower::ServiceExt::oneshot(service, request).await.ok()?;
            let status = response.status().as_u16();
            let body = response.into_body().map_err(Into::into);
            Some(Answer { status, body: Box::pin(body), rest: BytesMut::new() })
        })
    }
}

impl Answer {
    /// Whether the request was carried out.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The whole body as JSON.
    pub(super) async fn json(mut self) -> Value {
        let mut all = BytesMut::new();
        while let Some(Ok(frame)) = self.body.frame().await {
            if let Some(data) = frame.data_ref() {
                all.extend_from_slice(data);
            }
        }
        serde_json::from_slice(&all).unwrap_or_default()
    }

    /// The next line of a watch as JSON; none at its end.
    pub(super) async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                if let Ok(value) = serde_json::from_slice(&line) {
                    return Some(value);
                }
                continue;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.rest.extend_from_slice(data);
            }
        }
    }
}

/// Builds a request; the user agent tells stand-ins from the system under test in the audit log.
pub(super) fn request(method: Method, path: &str, content_type: &str, body: &Value) -> Request<Full<Bytes>> {
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::new(Full::new(bytes));
    *request.method_mut() = method;
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    let headers = request.headers_mut();
    headers.insert(http::header::ACCEPT, http::HeaderValue::from_static("application/json"));
    headers.insert(http::header::USER_AGENT, http::HeaderValue::from_static("evenkeel-stand-ins"));
    if let Ok(value) = http::HeaderValue::from_str(content_type) {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    request
}
