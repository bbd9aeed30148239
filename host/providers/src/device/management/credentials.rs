//! What the device proves with who it is.

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use crate::device::seal;

/// The device's own, in the folder of certificates. All four names are those of flightctl's agent.
const CERTIFICATE: &str = "agent.crt";
const KEY: &str = "agent.key";
/// What it may enrol with: many devices have the same.
const ENROLMENT_CERTIFICATE: &str = "client-enrollment.crt";
const ENROLMENT_KEY: &str = "client-enrollment.key";

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    /// The device is not enrolled.
    #[error("the device is not enrolled: there is no {}", .0.display())]
    Missing(PathBuf),
    /// The file is there, and of no use.
    #[error("{} holds no {what} in PEM", path.display())]
    Spoilt { path: PathBuf, what: &'static str },
    /// A file cannot be read, made or replaced.
    #[error("cannot keep {}", path.display())]
    Store {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// What was issued is none.
    #[error("the service has issued no certificate in PEM")]
    NoCertificate,
    /// What was issued is somebody else's.
    #[error("the certificate that the service has issued is not for this device's key")]
    OtherKey,
}

/// A certificate and its key. It does not print.
pub(super) struct Credentials {
    folder: PathBuf,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    fingerprint: String,
}

impl Credentials {
    /// Reads the device's own.
    pub(super) fn read(folder: &Path) -> Result<Self, CredentialsError> {
        Self::of(folder, CERTIFICATE, KEY)
    }

    /// Reads those that a device without its own asks for some with.
    pub(super) fn for_enrolment(folder: &Path) -> Result<Self, CredentialsError> {
        Self::of(folder, ENROLMENT_CERTIFICATE, ENROLMENT_KEY)
    }

    fn of(folder: &Path, certificate: &str, key: &str) -> Result<Self, CredentialsError> {
        let (certificate, key) = (folder.join(certificate), folder.join(key));
        let read = |path: &PathBuf| std::fs::read(path).map_err(|_| CredentialsError::Missing(path.clone()));
        let (chain_pem, key_pem) = (read(&certificate)?, read(&key)?);
        let spoilt = |path: PathBuf, what| CredentialsError::Spoilt { path, what };
        let chain = chain_of(&chain_pem).ok_or_else(|| spoilt(certificate, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| spoilt(key, "key"))?;
        let fingerprint = chain.first().map(fingerprint).unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), chain, key, fingerprint })
    }

    /// Another one for each enrolment: it is the key's, so that a certificate that is renewed is no other device's.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Whether others are in the folder now.
    pub(super) fn are_renewed(&self) -> bool {
        Self::read(&self.folder).is_ok_and(|now| now.chain != self.chain)
    }

    /// Removes them, the key first.
    pub(super) fn wipe(&self) {
        for name in [KEY, CERTIFICATE] {
            let path = self.folder.join(name);
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::error!(%error, path = %path.display(), "a credential could not be removed");
            }
        }
    }
}

/// The device's own key. It is made where there is none, and is on disk before anybody hears of it; it never leaves the device.
pub(super) fn own_key(folder: &Path) -> Result<KeyPair, CredentialsError> {
    let path = folder.join(KEY);
    match std::fs::read_to_string(&path) {
        Ok(pem) => KeyPair::from_pem(&pem).map_err(|_| CredentialsError::Spoilt { path, what: "key" }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = |cause| CredentialsError::Store { path: path.clone(), cause };
            let key = KeyPair::generate().map_err(|error| made(io::Error::other(error)))?;
            store(folder, KEY, &key.serialize_pem()).map_err(made)?;
            Ok(key)
        }
        Err(cause) => Err(CredentialsError::Store { path, cause }),
    }
}

/// Keeps the certificate that the service has issued, if it is one for this key.
pub(super) fn store_certificate(folder: &Path, pem: &str, key: &KeyPair) -> Result<(), CredentialsError> {
    let chain = chain_of(pem.as_bytes()).ok_or(CredentialsError::NoCertificate)?;
    let own = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    CertifiedKey::from_der(chain, own, &rustls::crypto::ring::default_provider())
        .map_err(|_| CredentialsError::OtherKey)?;
    let path = folder.join(CERTIFICATE);
    store(folder, CERTIFICATE, pem).map_err(|cause| CredentialsError::Store { path, cause })
}

/// Writes a file as a whole, for its owner alone.
fn store(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Such a file has the mode 0600 from its beginning.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(folder.join(name)).map_err(|error| error.error)?;
    std::fs::File::open(folder)?.sync_all()
}

fn chain_of(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.ok()?;
    let whole = chain.iter().all(|one| ParsedCertificate::try_from(one).is_ok());
    (whole && !chain.is_empty()).then_some(chain)
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    match ParsedCertificate::try_from(certificate) {
        Ok(parsed) => seal::sha256(parsed.subject_public_key_info().as_ref()),
        Err(_) => seal::sha256(certificate.as_ref()),
    }
}
