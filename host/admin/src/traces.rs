//! Traces: a span a pass, sent to a collector by OTLP over HTTP with JSON.
//!
//! The protocol is small, and what goes out is what the journal keeps anyway, so this is written out here: the libraries for
//! it bring gRPC's code generators, or a second HTTP client, into a build that has one already. Collectors run beside the
//! host, on its node or in its Pod, so it speaks plain HTTP.

mod span;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::record::PassRecord;
use http::header::{CONTENT_TYPE, HOST};
use http::{StatusCode, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use self::span::Ids;

/// Spans that go out together, at most; the usual batch of OpenTelemetry's own exporters.
const BATCH: usize = 512;
/// How long a span waits for others.
const WAIT: Duration = Duration::from_secs(5);
/// How long a collector may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Where collectors take spans.
const PATH: &str = "/v1/traces";

/// Why there is no such collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address.
    #[error("{0:?} is no address of a collector, as in http://localhost:4318")]
    Address(String),
    /// It is not plain HTTP.
    #[error("{0:?}: spans are sent over plain HTTP, to a collector beside the host")]
    Scheme(String),
}

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: String,
    path: String,
}

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;

    /// From an address such as `http://localhost:4318`, to which the path of the protocol is added.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let address = || EndpointError::Address(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| address())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some(_) => return Err(EndpointError::Scheme(text.to_owned())),
            None => return Err(address()),
        }
        let host = uri.host().ok_or_else(address)?;
        let port = uri.port_u16().unwrap_or(4318);
        let path = uri.path().trim_end_matches('/');
        Ok(Self { authority: format!("{host}:{port}"), path: format!("{path}{PATH}") })
    }
}

/// Who the spans are of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its version.
    pub version: String,
    /// Which of several, as in a Pod's name; "" for the only one.
    pub instance: String,
}

/// Sends spans until it is dropped.
pub struct Exporting {
    task: JoinHandle<()>,
}

impl Drop for Exporting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends a span for each record from now on. Where the collector does not keep up, spans are lost and the host is not
/// delayed. `seed` makes the identifiers differ from those of every other process.
pub fn export(
    records: Receiver<Arc<PassRecord>>,
    endpoint: Endpoint,
    service: Service,
    seed: u64,
) -> Exporting {
    Exporting { task: tokio::spawn(run(records, endpoint, service, Ids::of(seed))) }
}

async fn run(mut records: Receiver<Arc<PassRecord>>, endpoint: Endpoint, service: Service, mut ids: Ids) {
    let mut failing = false;
    loop {
        let Some(batch) = gather(&mut records).await else { return };
        let spans = batch.iter().map(|record| span::of(record, &mut ids)).collect();
        let sent = timeout(ANSWER_WITHIN, send(&endpoint, span::request(&service, spans))).await;
        let trouble = match sent {
            Ok(Ok(status)) if status.is_success() => None,
            Ok(Ok(status)) => Some(format!("it answered {status}")),
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some("it does not answer".to_owned()),
        };
        // Said once, and once more when it is over: a collector that is away would fill the log otherwise.
        match (&trouble, failing) {
            (Some(trouble), false) => {
                tracing::warn!(collector = endpoint.authority, trouble, "spans are lost");
            }
            (None, true) => tracing::info!(collector = endpoint.authority, "spans are sent again"),
            (Some(_), true) | (None, false) => {}
        }
        failing = trouble.is_some();
    }
}

/// The next batch: what comes within a while of the first; none where no more will come.
async fn gather(records: &mut Receiver<Arc<PassRecord>>) -> Option<Vec<Arc<PassRecord>>> {
    let mut batch = Vec::new();
    let over = sleep(Duration::MAX);
    tokio::pin!(over);
    loop {
        tokio::select! {
            next = records.recv() => match next {
                Ok(record) => {
                    if batch.is_empty() {
                        over.set(sleep(WAIT));
                    }
                    batch.push(record);
                    if batch.len() >= BATCH {
                        return Some(batch);
                    }
                }
                Err(RecvError::Lagged(lost)) => tracing::debug!(lost, "passes came faster than spans go"),
                Err(RecvError::Closed) => return (!batch.is_empty()).then_some(batch),
            },
            () = &mut over => return Some(batch),
        }
    }
}

async fn send(
    endpoint: &Endpoint,
    body: String,
) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(&endpoint.authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = http::Request::post(&endpoint.path)
        .header(HOST, &endpoint.authority)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await;
    connection.abort();
    Ok(answer?.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_an_address_of_plain_http() {
        for (text, want) in [
            ("http://localhost:4318", "localhost:4318 /v1/traces"),
            ("http://collector", "collector:4318 /v1/traces"),
            ("http://127.0.0.1:80/otlp/", "127.0.0.1:80 /otlp/v1/traces"),
        ] {
            let endpoint: Endpoint = text.parse().expect("an endpoint");
            assert_eq!(format!("{} {}", endpoint.authority, endpoint.path), want);
        }
        for (text, want) in [
            ("https://collector", EndpointError::Scheme("https://collector".into())),
            ("localhost:4318", EndpointError::Address("localhost:4318".into())),
            ("", EndpointError::Address(String::new())),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(want));
        }
    }
}
