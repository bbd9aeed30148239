//! Asks a host that runs.

use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_admin::pages::Explanation;
use evenkeel_core::record::Subject;
use http::header::HOST;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::cli::plugin::block_on;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest answer taken, in bytes: more than a journal in memory ever holds.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// What the host at an address, as in `127.0.0.1:8080`, has in memory about an object.
pub fn ask(address: &str, subject: &Subject, last: usize) -> anyhow::Result<Explanation> {
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let path = path(subject, last);
    block_on(async {
        let answer = tokio::time::timeout(ANSWER_WITHIN, get(address, &path)).await;
        let (status, body) = answer.with_context(|| format!("the host at {address} does not answer"))??;
        if !status.is_success() {
            bail!("the host at {address} answered {status}: {}", String::from_utf8_lossy(&body).trim());
        }
        serde_json::from_slice(&body)
            .with_context(|| format!("what answers at {address} is no host of this version"))
    })
}

fn path(subject: &Subject, last: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", &subject.kind).append_pair("name", &subject.name);
    if let Some(namespace) = &subject.namespace {
        query.append_pair("namespace", namespace);
    }
    query.append_pair("last", &last.to_string());
    format!("/explain?{}", query.finish())
}

async fn get(address: &str, path: &str) -> anyhow::Result<(http::StatusCode, Bytes)> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("nobody listens at {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path).header(HOST, address).body(Empty::<Bytes>::new())?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    match body {
        Ok(body) => Ok((head.status, body.to_bytes())),
        Err(cause) => bail!("the answer of {address} cannot be read: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_asked_for_as_they_are() {
        let subject =
            Subject { kind: "ClusterRole".into(), namespace: Some("a".into()), name: "system:x&y".into() };
        assert_eq!(path(&subject, 3), "/explain?kind=ClusterRole&name=system%3Ax%26y&namespace=a&last=3");
    }
}
