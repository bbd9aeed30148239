//! A small HTTPS client: one request, one answer, or the lines of a watch.

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest that an answer, or the next line of a watch, may take.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// An answer with its body read to the end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status code.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Speaks to one API server as one user. Cheap to clone; idle connections are shared.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: Arc<str>,
    tls: TlsConnector,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that trusts the certificates in `ca` (PEM) and sends `token`.
    ///
    /// # Errors
    /// Where `ca` holds no usable certificate.
    pub fn new(address: SocketAddr, ca: &[u8], token: &str) -> anyhow::Result<Client> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate.context("the certificates of the server cannot be read")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Client {
            address,
            token: token.into(),
            tls: TlsConnector::from(Arc::new(config)),
            idle: Arc::default(),
        })
    }

    /// The same server as another user.
    pub fn with_token(&self, token: &str) -> Client {
        Client { token: token.into(), ..self.clone() }
    }

    /// Sends a request whose URI is a path with its query; adds the token.
    ///
    /// # Errors
    /// Where the server cannot be reached or does not answer in time; never for what it answers.
    pub async fn send(&self, request: Request<Bytes>) -> anyhow::Result<Answer> {
        let (status, headers, mut lines) = self.open(request).await?;
        let mut body = BytesMut::new();
        while let Some(piece) = lines.frame().await? {
            body.extend_from_slice(&piece);
        }
        lines.give_back();
        Ok(Answer { status, headers, body: body.freeze() })
    }

    /// A bare GET.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Request::get(path).body(Bytes::new())?).await
    }

    /// Sends a request and leaves the body to be read line by line, as a watch is.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn open(&self, request: Request<Bytes>) -> anyhow::Result<(StatusCode, HeaderMap, Lines)> {
        let (parts, body) = request.into_parts();
        let mut request = Request::from_parts(parts, Full::new(body));
        let headers = request.headers_mut();
        headers.insert(http::header::HOST, self.address.to_string().parse()?);
        headers.insert(http::header::AUTHORIZATION, format!("Bearer {}", self.token).parse()?);
        let (sender, response) = self.exchange(request).await?;
        let (parts, body) = response.into_parts();
        let lines = Lines { body, read: BytesMut::new(), sender: Some(sender), idle: self.idle.clone() };
        Ok((parts.status, parts.headers, lines))
    }

    /// Sends on an idle connection, or on a new one. An idle one may have been closed meanwhile: what was not sent goes out again
    /// on a new one, and so does what only reads; any other write is not sent twice on a guess.
    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(SendRequest<Full<Bytes>>, Response<Incoming>)> {
        if let Some(mut sender) = self.take_idle().await {
            let again = matches!(*request.method(), Method::GET).then(|| request.clone());
            let answer = tokio::time::timeout(ANSWER_MAX, sender.try_send_request(request));
            match answer.await.context("the server does not answer")? {
                Ok(response) => return Ok((sender, response)),
                Err(mut error) => match error.take_message().or(again) {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error()).context("the connection broke before an answer"),
                },
            }
        }
        let mut sender = self.connect().await?;
        let response = tokio::time::timeout(ANSWER_MAX, sender.send_request(request))
            .await
            .context("the server does not answer")?
            .context("the connection broke before an answer")?;
        Ok((sender, response))
    }

    async fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut sender = self.idle.lock().expect("nobody panics while holding it").pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address)
            .await
            .with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, stream).await.context("no TLS with the server")?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // What ends the connection is told to whoever waits for an answer on it.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A body that is read as it comes.
pub struct Lines {
    body: Incoming,
    read: BytesMut,
    sender: Option<SendRequest<Full<Bytes>>>,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

impl Lines {
    /// The next line; nothing at the end.
    ///
    /// # Errors
    /// Where nothing comes in time, or the connection breaks.
    pub async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let mut line = self.read.split_to(end + 1);
                line.truncate(end);
                return Ok(Some(line.freeze()));
            }
            match self.frame().await? {
                Some(piece) => self.read.extend_from_slice(&piece),
                None if self.read.is_empty() => return Ok(None),
                None => return Ok(Some(self.read.split().freeze())),
            }
        }
    }

    async fn frame(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            let frame = tokio::time::timeout(ANSWER_MAX, self.body.frame())
                .await
                .context("nothing more comes from the server")?;
            match frame {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.context("the connection broke within an answer")?.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    fn give_back(mut self) {
        if let Some(sender) = self.sender.take() {
            self.idle.lock().expect("nobody panics while holding it").push(sender);
        }
    }
}
