//! A service on loopback, over mutual TLS, that does to each request what it is told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::super::{Management, ManagementOptions, Timings};
use crate::device::linux::config::LinuxOptions;
use crate::device::linux::service::Service;
use crate::device::linux::{LinuxDevice, VERSION};
use crate::device::words::Rendered;

/// What is done to a poll.
pub enum Act {
    /// A status and a body.
    Answer(u16, String),
    /// Half of a body.
    Truncated(String),
    /// The connection is closed.
    Close,
    /// Nothing, for ever.
    Hang,
    /// Something that is no HTTP.
    Garbage,
}

#[derive(Default)]
struct Server {
    acts: VecDeque<Act>,
    requests: Vec<String>,
    statuses: Vec<Value>,
    refuse_status: usize,
    /// What is done to the next requests about an enrolment.
    hindrances: VecDeque<Act>,
    /// Every request for an enrolment that came.
    asked: Vec<Value>,
    /// The one that is kept, with its status.
    enrolment: Option<Value>,
}

type Shared = Arc<Mutex<Server>>;

/// The service, and a device that speaks to it.
pub struct Fixture {
    root: tempfile::TempDir,
    certificates: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
    trusted: String,
    servers: Vec<(u16, Shared)>,
    service: Arc<Service>,
    status: watch::Sender<Value>,
    management: Option<Management>,
}

/// A Device of a version, as the service sends it.
pub fn device(version: &str) -> String {
    json!({"kind": "Device", "metadata": {"annotations": {VERSION: version}}, "spec": {}}).to_string()
}

/// Waits until something is so.
pub async fn wait_until(what: &str, so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

fn lock(server: &Shared) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

impl Fixture {
    /// With so many servers, and a device that is enrolled.
    pub async fn new(count: usize) -> Self {
        let authority = authority();
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(serve(&authority).await);
        }
        let folder = || tempfile::tempdir().expect("a folder");
        let trusted = authority.pem();
        let (root, certificates) = (folder(), folder());
        let service = Arc::new(Service::default());
        let status = watch::Sender::new(Value::Null);
        let fixture =
            Self { root, certificates, authority, trusted, servers, service, status, management: None };
        fixture.enrol();
        fixture
    }

    /// Gives the device credentials.
    pub fn enrol(&self) {
        self.credentials("agent.key", "agent.crt");
    }

    /// Gives the device what it may enrol with.
    pub fn let_enrol(&self) {
        self.credentials("client-enrollment.key", "client-enrollment.crt");
    }

    fn credentials(&self, key_file: &str, certificate_file: &str) {
        let key = KeyPair::generate().expect("a key");
        let path = |name: &str| self.certificates.path().join(name);
        std::fs::write(path(key_file), key.serialize_pem()).expect("a file");
        std::fs::write(path(certificate_file), self.issue(&key)).expect("a file");
    }

    /// A certificate for a key, from the service's authority.
    pub fn issue(&self, key: &impl PublicKeyData) -> String {
        let mut params = CertificateParams::new(vec!["device".to_owned()]).expect("parameters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(key, &self.authority).expect("a certificate").pem()
    }

    /// A file of the certificates' folder.
    pub fn certificate_file(&self, name: &str) -> std::path::PathBuf {
        self.certificates.path().join(name)
    }

    /// What is done to the next requests about an enrolment; later ones are answered.
    pub fn hinder(&self, server: usize, acts: impl IntoIterator<Item = Act>) {
        lock(&self.servers[server].1).hindrances.extend(acts);
    }

    /// How many of those are still to come.
    pub fn hindrances(&self, server: usize) -> usize {
        lock(&self.servers[server].1).hindrances.len()
    }

    /// Every request for an enrolment that came.
    pub fn enrolments(&self, server: usize) -> Vec<Value> {
        lock(&self.servers[server].1).asked.clone()
    }

    /// The service decides about the request that it has.
    pub fn decide(&self, server: usize, status: Value) {
        let mut server = lock(&self.servers[server].1);
        server.enrolment.as_mut().expect("a request")["status"] = status;
    }

    /// The service loses the request that it has.
    pub fn lose_enrolment(&self, server: usize) {
        lock(&self.servers[server].1).enrolment = None;
    }

    /// Takes the credentials away.
    pub fn unenrol(&self) {
        for name in ["agent.key", "agent.crt"] {
            std::fs::remove_file(self.certificates.path().join(name)).expect("a file");
        }
    }

    pub fn has_credentials(&self) -> bool {
        ["agent.key", "agent.crt"].iter().any(|name| self.certificates.path().join(name).exists())
    }

    /// The device trusts another authority.
    pub fn distrust(&mut self) {
        self.trusted = authority().pem();
    }

    /// What is done to the next polls of a server; later ones have nothing new.
    pub fn play(&self, server: usize, acts: impl IntoIterator<Item = Act>) {
        lock(&self.servers[server].1).acts.extend(acts);
    }

    /// So many pushes of the status are refused.
    pub fn refuse_status(&self, count: usize) {
        lock(&self.servers[0].1).refuse_status = count;
    }

    pub fn start(&mut self) {
        let clock: super::super::Clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let mut linux = LinuxOptions::new("device", Arc::clone(&clock));
        linux.root = self.root.path().to_owned();
        let device = LinuxDevice::open(linux, Arc::clone(&self.service)).expect("a device");
        let ms = Duration::from_millis;
        let options = ManagementOptions {
            servers: self
                .servers
                .iter()
                .map(|(port, _)| format!("https://127.0.0.1:{port}").parse().expect("a server"))
                .collect(),
            authorities: Some(self.trusted.clone()),
            certificates: self.certificates.path().to_owned(),
            name: "device".to_owned(),
            timings: Timings {
                poll: ms(10),
                poll_max: ms(700),
                backoff: ms(10),
                backoff_max: ms(50),
                status: ms(50),
            },
            clock,
        };
        let (device, service) = (Arc::new(device), Arc::clone(&self.service));
        self.management = Some(Management::start(options, device, service, self.status.subscribe()));
    }

    /// The power goes.
    pub fn stop(&mut self) {
        self.management = None;
    }

    pub fn now(&self) -> Rendered {
        self.service.rendered()
    }

    /// What is known of the service, once it is so.
    pub async fn rendered(&self, so: impl Fn(&Rendered) -> bool) -> Rendered {
        wait_until("the service is known so", || so(&self.now())).await;
        self.now()
    }

    pub fn enrolment(&self) -> (bool, String) {
        self.service.enrolment()
    }

    pub fn requests(&self, server: usize) -> Vec<String> {
        lock(&self.servers[server].1).requests.clone()
    }

    pub async fn asked_at_least(&self, server: usize, count: usize) {
        wait_until("it is asked often enough", || self.requests(server).len() >= count).await;
    }

    pub fn statuses(&self) -> Vec<Value> {
        lock(&self.servers[0].1).statuses.clone()
    }

    pub fn set_status(&self, status: Value) {
        self.status.send_replace(status);
    }

    pub fn report(&self) {
        self.service.ask_report();
    }
}

async fn serve(authority: &CertifiedIssuer<'static, KeyPair>) -> (u16, Shared) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.expect("a verifier"))
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM"),
        )
        .expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let shared = Shared::default();
    let (server, acceptor) = (Arc::clone(&shared), TlsAcceptor::from(Arc::new(config)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, acceptor) = (Arc::clone(&server), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = speak(stream, &server).await;
                }
            });
        }
    });
    (port, shared)
}

async fn speak<S: AsyncReadExt + AsyncWriteExt + Unpin>(
    mut stream: S,
    server: &Shared,
) -> std::io::Result<()> {
    loop {
        let (head, body) = request(&mut stream).await?;
        if head.starts_with("PUT") {
            let refused = {
                let mut server = lock(server);
                server.statuses.push(serde_json::from_slice(&body).unwrap_or_default());
                let refused = server.refuse_status > 0;
                server.refuse_status = server.refuse_status.saturating_sub(1);
                refused
            };
            answer(&mut stream, if refused { 503 } else { 200 }, "{}", None).await?;
            continue;
        }
        let enrols = head.contains(" /api/v1/enrollmentrequests");
        let act = {
            let mut server = lock(server);
            if enrols {
                let usual = about_enrolment(&mut server, &head, &body);
                Some(server.hindrances.pop_front().unwrap_or(usual))
            } else {
                server.requests.push(head);
                server.acts.pop_front()
            }
        };
        match act {
            None => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                answer(&mut stream, 204, "", None).await?;
            }
            Some(Act::Answer(status, body)) => answer(&mut stream, status, &body, None).await?,
            Some(Act::Truncated(body)) => {
                answer(&mut stream, 200, &body, Some(body.len() * 2)).await?;
                return Ok(());
            }
            Some(Act::Close) => return Ok(()),
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Garbage) => {
                stream.write_all(b"SSH-2.0-hello\r\n\r\n").await?;
                return stream.flush().await;
            }
        }
    }
}

/// What the service answers about enrolments: one request a name.
fn about_enrolment(server: &mut Server, head: &str, body: &[u8]) -> Act {
    let kept = |server: &Server| server.enrolment.as_ref().map(Value::to_string);
    match (head, kept(server)) {
        ("GET /api/v1/enrollmentrequests/device", Some(request)) => Act::Answer(200, request),
        ("POST /api/v1/enrollmentrequests", kept) => {
            let request: Value = serde_json::from_slice(body).expect("a request");
            server.asked.push(request.clone());
            if kept.is_some() {
                return Act::Answer(409, "{}".to_owned());
            }
            server.enrolment = Some(request);
            Act::Answer(201, "{}".to_owned())
        }
        _ => Act::Answer(404, "{}".to_owned()),
    }
}

/// The first line of a request without its version, and its body.
async fn request(stream: &mut (impl AsyncReadExt + Unpin)) -> std::io::Result<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let length = text
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let first = text.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    Ok((first, body))
}

async fn answer(
    stream: &mut (impl AsyncWriteExt + Unpin),
    status: u16,
    body: &str,
    length: Option<usize>,
) -> std::io::Result<()> {
    let length = length.unwrap_or(body.len());
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let head = if status == 204 { format!("HTTP/1.1 {status} X\r\n\r\n") } else { head };
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.flush().await
}
