//! Requests to the servers of the service, one of which is spoken to until it fails.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Credentials, ManagementOptions};
use crate::vsphere::http::{Answer, Connections, Endpoint, Exchange};

/// What the service answers at once, at most.
const SHORT: Duration = Duration::from_secs(60);
/// The port of HTTPS.
const PORT: u16 = 443;

/// A server: `https://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    host: String,
    port: u16,
}

/// Why a server cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It is no URL of a server.
    #[error("{0:?} is no server such as https://service.example.test:7443")]
    Address(String),
    /// The authorities.
    #[error("the authorities of the service are no certificates in PEM")]
    Authorities,
    /// The certificate and the key.
    #[error("the certificate and the key of the device do not belong together")]
    Credentials,
}

impl FromStr for ServerAddress {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let wrong = || ServerError::Address(text.chars().take(80).collect());
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        // Credentials go over it: never in the clear.
        let plain =
            uri.scheme_str() == Some("https") && matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !plain || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: uri.port_u16().unwrap_or(PORT) })
    }
}

/// What came of a poll.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Polled {
    /// A whole Device.
    Device(Value),
    /// Nothing new.
    Nothing,
    /// The service does not know this device.
    Gone,
}

/// The servers, with the credentials of the device.
pub(super) struct Servers {
    connections: Vec<Connections>,
    current: AtomicUsize,
    name: String,
    poll_max: Duration,
}

impl Servers {
    pub(super) fn new(options: &ManagementOptions, credentials: &Credentials) -> Result<Self, ServerError> {
        let tls = Arc::new(tls(options.authorities.as_deref(), credentials)?);
        let connections = options.servers.iter().map(|ServerAddress { host, port }| {
            Connections::new(Endpoint { host: host.clone(), port: *port, tls: Arc::clone(&tls) })
        });
        Ok(Self {
            connections: connections.collect(),
            current: AtomicUsize::new(0),
            name: options.name.clone(),
            poll_max: options.timings.poll_max,
        })
    }

    /// Speaks to the next server from now on.
    pub(super) fn next(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks for a spec that is newer than this one; the service holds the question until there is one, or for a while.
    pub(super) async fn poll(&self, known: u64) -> Result<Polled, String> {
        let path = format!("/api/v1/devices/{}/rendered?knownRenderedVersion={known}", self.name);
        let exchange = Exchange { method: Method::GET, path, headers: headers(), body: Bytes::new() };
        let answer = self.send(exchange, self.poll_max).await?;
        match answer.status {
            StatusCode::OK => match serde_json::from_slice::<Value>(&answer.body) {
                Ok(device) if device.is_object() => Ok(Polled::Device(device)),
                // Not a word of it: secrets stand in it.
                Ok(_) | Err(_) => Err("the service answered in no JSON object".to_owned()),
            },
            StatusCode::NO_CONTENT | StatusCode::CONFLICT => Ok(Polled::Nothing),
            StatusCode::NOT_FOUND if is_gone(&answer) => Ok(Polled::Gone),
            _ => Err(format!("the service answered {}", answer.in_words())),
        }
    }

    /// Sends the status.
    pub(super) async fn put_status(&self, name: &str, status: &Value) -> Result<(), String> {
        let device = json!({
            "apiVersion": "flightctl.io/v1beta1",
            "kind": "Device",
            "metadata": {"name": name},
            "status": status,
        });
        let answer = self.give(Method::PUT, format!("/api/v1/devices/{name}/status"), &device).await?;
        if answer.status.is_success() {
            Ok(())
        } else {
            Err(format!("the service answered {}", answer.in_words()))
        }
    }

    /// What has become of the request to be enrolled; none where there is no such request.
    pub(super) async fn enrolment_request(&self) -> Result<Option<Value>, String> {
        let path = format!("/api/v1/enrollmentrequests/{}", self.name);
        let exchange = Exchange { method: Method::GET, path, headers: headers(), body: Bytes::new() };
        let answer = self.send(exchange, SHORT.min(self.poll_max)).await?;
        match answer.status {
            StatusCode::OK => match serde_json::from_slice::<Value>(&answer.body) {
                Ok(request) if request.is_object() => Ok(Some(request)),
                Ok(_) | Err(_) => Err("the service answered in no JSON object".to_owned()),
            },
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(format!("the service answered {}", answer.in_words())),
        }
    }

    /// Asks to be enrolled; where that was asked before, the service keeps to the earlier request.
    pub(super) async fn ask_enrolment(&self, request: &Value) -> Result<(), String> {
        let answer = self.give(Method::POST, "/api/v1/enrollmentrequests".to_owned(), request).await?;
        if answer.status.is_success() || answer.status == StatusCode::CONFLICT {
            Ok(())
        } else {
            Err(format!("the service answered {}", answer.in_words()))
        }
    }

    async fn give(&self, method: Method, path: String, object: &Value) -> Result<Answer, String> {
        let mut headers = headers();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = object.to_string().into();
        self.send(Exchange { method, path, headers, body }, SHORT.min(self.poll_max)).await
    }

    async fn send(&self, exchange: Exchange, longest: Duration) -> Result<Answer, String> {
        let which = self.current.load(Ordering::Relaxed) % self.connections.len().max(1);
        let connections = self.connections.get(which).ok_or("no server is configured")?;
        match timeout(longest, connections.send(exchange)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the service does not answer in time".to_owned()),
        }
    }
}

/// Whether an answer says that the device is not there, and not merely the page.
fn is_gone(answer: &Answer) -> bool {
    let body = String::from_utf8_lossy(&answer.body).to_lowercase();
    body.contains("device") && body.contains("not found")
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers
}

fn tls(authorities: Option<&str>, credentials: &Credentials) -> Result<ClientConfig, ServerError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|_| ServerError::Authorities)?;
                roots.add(certificate).map_err(|_| ServerError::Authorities)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(ServerError::Authorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| ServerError::Authorities)?
        .with_root_certificates(roots)
        .with_client_auth_cert(credentials.chain.clone(), credentials.key.clone_key())
        .map_err(|_| ServerError::Credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_spoken_to_over_tls_or_not_at_all() {
        let parse = |text: &str| text.parse::<ServerAddress>();
        assert_eq!(parse("https://a.test:7443/"), Ok(ServerAddress { host: "a.test".into(), port: 7443 }));
        assert_eq!(parse("https://[::1]"), Ok(ServerAddress { host: "::1".into(), port: 443 }));
        for text in [
            "http://a.test",
            "a.test",
            "https://",
            "https://a.test/api",
            "https://u:p@a.test",
            "https://a.test?x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
