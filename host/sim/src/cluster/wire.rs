//! The way to a real API server, in real time.
//!
//! The host of a scenario lives on virtual time, where an hour passes at once; connections must not notice, or their time-outs
//! would all fire. So they live on a runtime of their own, and only messages go between the two.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

/// Pieces of an answer that may wait to be read.
const FRAMES_MAX: usize = 1024;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection failed.
    #[error("the cluster cannot be reached")]
    Connection(#[source] Box<kube::Error>),
    /// The answer broke off, or the way was closed.
    #[error("the answer of the cluster broke off: {0}")]
    Broken(String),
    /// What came is no JSON.
    #[error("the cluster's answer is no JSON")]
    Decode(#[source] serde_json::Error),
    /// The server refused.
    #[error("the cluster answered {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
}

/// An answer whose body comes in pieces; it ends where the pieces do.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) frames: mpsc::Receiver<Result<Bytes, String>>,
}

impl Reply {
    /// The whole body.
    pub(super) async fn whole(&mut self) -> Result<Bytes, WireError> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.frames.recv().await {
            all.extend_from_slice(&frame.map_err(WireError::Broken)?);
        }
        Ok(all.freeze())
    }
}

/// Connections to one cluster. To be dropped outside of asynchronous code.
pub(super) struct Wire {
    client: kube::Client,
    runtime: Option<Runtime>,
}

impl Wire {
    pub(super) fn open(mut config: kube::Config) -> Result<Self, super::ClusterError> {
        // Whoever asks tries again by itself, as the scenario wants it.
        config.default_retry = false;
        // Watches are ended by the server or by us.
        config.read_timeout = None;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cluster")
            .enable_all()
            .build()
            .map_err(super::ClusterError::Runtime)?;
        let client = {
            let _inside = runtime.enter();
            kube::Client::try_from(config).map_err(|cause| super::ClusterError::Client(Box::new(cause)))?
        };
        Ok(Self { client, runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        let Some(runtime) = &self.runtime else { unreachable!("it is taken out where this is dropped") };
        runtime
    }

    /// Does something in real time, from synchronous code.
    pub(super) fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime().block_on(what)
    }

    /// Lets real time pass.
    pub(super) async fn pause(&self, by: Duration) {
        // Made over there: a timer belongs to the clock of where it is made. That it was cancelled means that the way is closed:
        // then nobody waits for anything.
        let _ = self.runtime().spawn(async move { tokio::time::sleep(by).await }).await;
    }

    /// Sends a request; the reply is there as soon as its head is.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Reply, WireError> {
        let (head, arrived) = oneshot::channel();
        self.runtime().spawn(forward(self.client.clone(), request, head));
        arrived.await.map_err(|_| WireError::Broken("the way is closed".to_owned()))?
    }

    /// A request that must succeed; its answer as JSON, null where it is empty.
    pub(super) async fn json(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, WireError> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(http::header::CONTENT_TYPE, content_type)
            .header(http::header::USER_AGENT, "evenkeel-test")
            .body(body)
            .map_err(|error| WireError::Broken(error.to_string()))?;
        let mut reply = self.send(request).await?;
        let body = reply.whole().await?;
        if !reply.status.is_success() {
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            let message = said["message"].as_str().map(str::to_owned);
            let message = message.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
            return Err(WireError::Refused { code: reply.status.as_u16(), message });
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(WireError::Decode)
    }

    /// Reads JSON; none where there is nothing.
    pub(super) async fn get(&self, target: &str) -> Result<Option<Value>, WireError> {
        match self.json("GET", target, "application/json", &Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(WireError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Carries one request over and its answer back, until whoever asked is gone.
async fn forward(
    client: kube::Client,
    request: Request<Bytes>,
    head: oneshot::Sender<Result<Reply, WireError>>,
) {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => {
            let _ = head.send(Err(WireError::Connection(Box::new(error))));
            return;
        }
    };
    let (frames, receiver) = mpsc::channel(FRAMES_MAX);
    let (parts, mut body) = response.into_parts();
    let reply = Reply { status: parts.status, headers: parts.headers, frames: receiver };
    if head.send(Ok(reply)).is_err() {
        return;
    }
    loop {
        let frame = tokio::select! {
            biased; // The same order in each run.
            () = frames.closed() => return,
            frame = body.frame() => frame,
        };
        let piece = match frame {
            None => return,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Ok(data),
                Err(_) => continue,
            },
            Some(Err(error)) => Err(error.to_string()),
        };
        let last = piece.is_err();
        if frames.send(piece).await.is_err() || last {
            return;
        }
    }
}
