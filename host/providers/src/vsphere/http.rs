//! HTTPS to one server: connections that are kept, answers that are bounded, and messages that say the same each time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::limits::ANSWER_BYTES_MAX;
use super::vcenter::CallError;

/// How long reaching the server may take, handshake included.
const CONNECT: Duration = Duration::from_secs(10);

/// Connections kept while nobody uses them.
const IDLE_MAX: usize = 16;

/// Where a server is, and how it proves to be it.
#[derive(Clone)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Who is trusted to be it.
    pub tls: Arc<rustls::ClientConfig>,
}

/// A request.
pub(crate) struct Exchange {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer, read whole.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// What it is, for messages: nothing of what is in it.
    pub(crate) fn in_words(&self) -> String {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or("without a content type");
        format!("HTTP {} ({})", self.status.as_u16(), super::fault::cut(kind))
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// The connections to a server.
pub(crate) struct Connections {
    endpoint: Endpoint,
    idle: Mutex<Vec<Sender>>,
}

impl Connections {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, idle: Mutex::default() }
    }

    /// Sends a request and reads its answer. One that was given to a connection which had been closed meanwhile, and
    /// so was never sent, goes over a new one.
    pub(crate) async fn send(&self, exchange: Exchange) -> Result<Answer, CallError> {
        let request = self.request(exchange)?;
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(mut sender) = kept.filter(|sender| !sender.is_closed()) {
            match sender.try_send_request(request.clone()).await {
                Ok(response) => return self.read(sender, response).await,
                Err(mut failed) => {
                    if failed.take_message().is_none() {
                        return Err(closed(&failed.into_error()));
                    }
                }
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(request).await.map_err(|error| closed(&error))?;
        self.read(sender, response).await
    }

    fn request(&self, exchange: Exchange) -> Result<Request<Full<Bytes>>, CallError> {
        let Exchange { method, path, headers, body } = exchange;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            path.parse().map_err(|_| CallError::Unreachable("its path is no URL".to_owned()))?;
        *request.headers_mut() = headers;
        let Endpoint { host, port, .. } = &self.endpoint;
        let named = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let named = HeaderValue::from_str(&named);
        let named = named.map_err(|_| CallError::Unreachable("its host is no host name".to_owned()))?;
        request.headers_mut().insert(header::HOST, named);
        Ok(request)
    }

    async fn read(
        &self,
        sender: Sender,
        response: http::Response<hyper::body::Incoming>,
    ) -> Result<Answer, CallError> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                CallError::BadAnswer(format!(
                    "an answer of more than {} MiB",
                    ANSWER_BYTES_MAX / (1024 * 1024)
                ))
            } else {
                CallError::Unreachable("it closed the connection in the midst of an answer".to_owned())
            }
        })?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    async fn connect(&self) -> Result<Sender, CallError> {
        let Endpoint { host, port, tls } = &self.endpoint;
        let unreachable = |why: String| CallError::Unreachable(format!("{host}:{port} {why}"));
        let connecting = async {
            let stream = TcpStream::connect((host.as_str(), *port));
            let stream = stream.await.map_err(|error| unreachable(reached(&error).to_owned()))?;
            let _ = stream.set_nodelay(true);
            let name =
                ServerName::try_from(host.clone()).map_err(|_| unreachable("is no host name".to_owned()))?;
            let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
            let stream = stream.map_err(|error| unreachable(trusted(&error)))?;
            let made = handshake(TokioIo::new(stream)).await;
            made.map_err(|_| unreachable("does not speak HTTP".to_owned()))
        };
        let made = timeout(CONNECT, connecting).await;
        let (sender, connection) =
            made.map_err(|_| unreachable("does not take connections".to_owned()))??;
        // It ends with its sender.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

fn closed(error: &hyper::Error) -> CallError {
    if error.is_parse() {
        return CallError::BadAnswer("it does not answer in HTTP".to_owned());
    }
    CallError::Unreachable("it closed the connection without an answer".to_owned())
}

/// Why a server was not reached, without numbers that change.
fn reached(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "refused the connection",
        std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable => "cannot be reached",
        std::io::ErrorKind::ConnectionReset => "reset the connection",
        std::io::ErrorKind::TimedOut => "does not take connections",
        _ => "was not found, or cannot be connected to",
    }
}

/// Why a server is not trusted.
fn trusted(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("has a certificate that is not trusted: {why}")
        }
        Some(_) => "failed the TLS handshake".to_owned(),
        None => "closed the connection in the TLS handshake".to_owned(),
    }
}
