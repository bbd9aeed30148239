//! The two servers behind one face.

use anyhow::Context;
use bytes::Bytes;
use evenkeel_sandbox::ApiService;
use evenkeel_test_cluster::Client;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::time::Duration;

/// Longest that the next event of a watch may take; past it the watch counts as silent.
const EVENT_MAX: Duration = Duration::from_secs(8);

/// An API server.
#[derive(Clone, Debug)]
pub enum Server {
    /// kube-apiserver.
    Real(Client),
    /// The embedded one, in this process.
    Sandbox(ApiService),
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Raw {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body; of a watch, the lines that were read.
    pub body: Bytes,
}

impl Server {
    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: Request<Bytes>) -> anyhow::Result<Raw> {
        match self {
            Server::Real(client) => {
                let answer = client.send(request).await?;
                Ok(Raw { status: answer.status.as_u16(), headers: answer.headers, body: answer.body })
            }
            Server::Sandbox(service) => {
                let (parts, body) = service.answer(request).into_parts();
                let body = body.collect().await.context("the sandbox's body does not fail")?.to_bytes();
                Ok(Raw { status: parts.status.as_u16(), headers: parts.headers, body })
            }
        }
    }

    /// Sends a request for a watch and reads its lines until `last` says so, the watch ends, or it falls silent.
    pub async fn watch(&self, request: Request<Bytes>, last: impl Fn(&[u8]) -> bool) -> anyhow::Result<Raw> {
        let (status, headers, mut lines) = match self {
            Server::Real(client) => {
                let (status, headers, lines) = client.open(request).await?;
                (status, headers, Lines::Real(lines))
            }
            Server::Sandbox(service) => {
                let (parts, body) = service.answer(request).into_parts();
                (parts.status, parts.headers, Lines::Sandbox(body, VecDeque::new()))
            }
        };
        let mut body = Vec::new();
        loop {
            let Ok(next) = tokio::time::timeout(EVENT_MAX, lines.next()).await else {
                body.extend_from_slice(b"{\"silent\":true}\n");
                break;
            };
            let Some(line) = next? else { break };
            body.extend_from_slice(&line);
            body.push(b'\n');
            if last(&line) {
                break;
            }
        }
        Ok(Raw { status: status.as_u16(), headers, body: body.into() })
    }
}

enum Lines {
    Real(evenkeel_test_cluster::Lines),
    /// The body, and lines of it that were sent along with others.
    Sandbox(evenkeel_sandbox::ApiBody, VecDeque<Bytes>),
}

impl Lines {
    async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        match self {
            Lines::Real(lines) => lines.next().await,
            Lines::Sandbox(body, lines) => {
                while lines.is_empty() {
                    let Some(frame) = body.frame().await else { return Ok(None) };
                    let data =
                        frame.context("the sandbox's body does not fail")?.into_data().unwrap_or_default();
                    let whole = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                    lines.extend(whole.map(Bytes::copy_from_slice));
                }
                Ok(lines.pop_front())
            }
        }
    }
}
