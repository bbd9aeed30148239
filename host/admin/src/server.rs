//! The servers for metrics and probes: a few pages over HTTP/1, to be read and nothing else.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::explain;
use crate::pages::{Page, Pages};

/// Connections at once. A scraper and a kubelet need one each; past this others wait.
const CONNECTIONS_MAX: usize = 64;
/// How long the head of a request may take to come, and how long a connection may stand idle.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may last, whatever is done on it.
const CONNECTION_WITHIN: Duration = Duration::from_secs(300);
/// After a connection could not be accepted, which is so when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which pages a server has, besides `/explain`, which each has for loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serves {
    /// `/metrics`.
    pub metrics: bool,
    /// `/livez`, `/readyz`, and `/healthz`, which is an older name of the first.
    pub probes: bool,
}

/// A server; it ends with this.
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on an address, as in `127.0.0.1:8080`.
pub async fn serve(address: &str, pages: Arc<Pages>, serves: Serves) -> io::Result<Serving> {
    let listener = listen(address).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(accept(listener, pages, serves));
    Ok(Serving { address, task })
}

/// Binds; a machine without IPv6 has no `[::]`, and is meant all the same.
async fn listen(address: &str) -> io::Result<TcpListener> {
    match (TcpListener::bind(address).await, address.strip_prefix("[::]:")) {
        (Ok(listener), _) => Ok(listener),
        (Err(_), Some(port)) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        (Err(error), None) => Err(error),
    }
}

async fn accept(listener: TcpListener, pages: Arc<Pages>, serves: Serves) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    // Whoever keeps it longer may come again.
                    let _ = timeout(CONNECTION_WITHIN, answer(stream, peer.ip(), pages, serves)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, peer: IpAddr, pages: Arc<Pages>, serves: Serves) {
    let service = service_fn(move |request: Request<Incoming>| {
        let page = page(&pages, serves, peer, &request.into_parts().0);
        async move { Ok::<_, Infallible>(page) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        // Others' doing: they went, or spoke something else.
        tracing::debug!(%error, "a connection ended early");
    }
}

fn page(pages: &Pages, serves: Serves, peer: IpAddr, request: &Parts) -> Response<Full<Bytes>> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return respond(405, "text/plain; charset=utf-8", "only GET is answered here\n".into());
    }
    let page = match request.uri.path() {
        "/metrics" if serves.metrics => pages.metrics(),
        "/livez" | "/healthz" if serves.probes => pages.livez(),
        "/readyz" if serves.probes => pages.readyz(),
        "/explain" => match explain::question(peer, &request.headers, request.uri.query()) {
            Ok(question) => pages.explain(&question),
            Err(refusal) => {
                let text = format!("{refusal}\n");
                return respond(refusal.code(), "text/plain; charset=utf-8", text);
            }
        },
        _ => return respond(404, "text/plain; charset=utf-8", "there is no such page\n".into()),
    };
    let Page { code, content_type, text } = page;
    respond(code, content_type, text)
}

fn respond(code: u16, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
