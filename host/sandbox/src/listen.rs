//! The API behind a TLS listener on loopback, with a kubeconfig for kubectl.

mod door;

use crate::sandbox::Sandbox;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use door::Door;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// Port on loopback; 0 for any that is free.
    pub port: u16,
}

/// Why a listener could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is taken, or loopback is not to be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// What was tried.
        address: SocketAddr,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate for the listener")]
    Certificate(#[source] rcgen::Error),
    /// TLS could not be set up.
    #[error("cannot set up TLS for the listener")]
    Tls(#[source] rustls::Error),
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
}

/// A running listener; dropping it ends it.
pub struct Listening {
    /// The address that it is bound to.
    pub address: SocketAddr,
    /// A kubeconfig, complete with the CA's certificate and the token of this start, which opens everything.
    pub kubeconfig: String,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the kubeconfig: the token is in it.
        f.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listening {
    /// Writes the kubeconfig to a file that only its owner can read.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ListenError> {
        write_private(path, &self.kubeconfig)
            .map_err(|cause| ListenError::Kubeconfig { path: path.display().to_string(), cause })
    }

    /// Ends the listener and its connections.
    pub fn shutdown(self) {
        self.stop.send_replace(true);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

#[cfg(unix)]
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(not(unix))]
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)
}

impl Sandbox {
    /// Serves the API over TLS on loopback, under a CA and a token made for this start: whoever does not show the token may
    /// only ask after health and version. Ends when the answer is dropped.
    pub async fn serve(&self, options: ListenOptions) -> Result<Listening, ListenError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let bind = |cause| ListenError::Bind { address, cause };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let identity = Identity::new().map_err(ListenError::Certificate)?;
        let acceptor = identity.acceptor().map_err(ListenError::Tls)?;
        let token = door::token(&rustls::crypto::ring::default_provider()).map_err(ListenError::Tls)?;
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(accept(listener, acceptor, Door::new(self.service(), &token), stopped));
        Ok(Listening { address, kubeconfig: kubeconfig(address, &identity.ca, &token), stop })
    }
}

/// A CA and a certificate of loopback that it signed.
struct Identity {
    ca: String,
    chain: Vec<rustls::pki_types::CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Identity {
    fn new() -> Result<Identity, rcgen::Error> {
        let mut ca = CertificateParams::new(Vec::<String>::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        ca.distinguished_name.push(DnType::CommonName, "sandbox-ca");
        let ca_key = KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?;
        let names = ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut leaf = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        leaf.distinguished_name.push(DnType::CommonName, "sandbox-apiserver");
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let leaf_key = KeyPair::generate()?;
        let issuer = Issuer::from_params(&ca, &ca_key);
        let leaf_certificate = leaf.signed_by(&leaf_key, &issuer)?;
        Ok(Identity {
            ca: ca_certificate.pem(),
            chain: vec![leaf_certificate.der().clone(), ca_certificate.der().clone()],
            key: leaf_key.serialize_der(),
        })
    }

    fn acceptor(&self) -> Result<TlsAcceptor, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    service: Door,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        match stream {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, acceptor.clone(), service.clone(), stopped.clone()));
            }
            Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    service: Door,
    mut stopped: watch::Receiver<bool>,
) {
    stream.set_nodelay(true).ok();
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = TowerToHyperService::new(service);
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        ended = builder.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

fn kubeconfig(address: SocketAddr, ca: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: sandbox\n  \
           cluster:\n    \
             server: https://{address}\n    \
             certificate-authority-data: {ca}\n\
         users:\n\
         - name: admin\n  \
           user:\n    \
             token: {token}\n\
         contexts:\n\
         - name: sandbox\n  \
           context:\n    \
             cluster: sandbox\n    \
             user: admin\n\
         current-context: sandbox\n"
    )
}
