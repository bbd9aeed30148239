//! The tower service: takes the body in, lets the API answer, never fails.

use crate::body::ApiBody;
use crate::error::ApiError;
use crate::sandbox::Inner;
use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Longest body that is read, as on the real server.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// The API as a [`tower::Service`].
#[derive(Clone)]
pub struct ApiService {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiService")
    }
}

impl ApiService {
    pub(crate) fn new(inner: Arc<Inner>) -> ApiService {
        ApiService { inner }
    }

    /// Answers a request whose body is at hand.
    pub fn answer(&self, request: Request<Bytes>) -> Response<ApiBody> {
        crate::api::answer(&self.inner, request)
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ApiBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let (parts, body) = request.into_parts();
        Box::pin(async move {
            let body = match (ReadBody { body: Box::pin(body), read: BytesMut::new() }).await {
                Ok(body) => body,
                Err(error) => return Ok(crate::api::refusal(&error)),
            };
            Ok(crate::api::answer(&inner, Request::from_parts(parts, body)))
        })
    }
}

/// Reads a body to its end, up to the limit.
pub struct ReadBody<B> {
    body: Pin<Box<B>>,
    read: BytesMut,
}

impl<B> std::fmt::Debug for ReadBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadBody").field("read", &self.read.len()).finish()
    }
}

impl<B: Body> Future for ReadBody<B> {
    type Output = Result<Bytes, ApiError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.body.as_mut().poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(std::mem::take(&mut self.read).freeze())),
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Err(ApiError::bad_request(
                        "the body of the request could not be read",
                    )));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if self.read.len() + data.remaining() > BODY_MAX {
                        let message = format!("Request entity is too large: limit is {BODY_MAX}");
                        return Poll::Ready(Err(ApiError::new(413, "RequestEntityTooLarge", message)));
                    }
                    self.read.extend_from_slice(&collect(data));
                }
            }
        }
    }
}

fn collect(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}
