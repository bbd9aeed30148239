//! What the device proves with who it is.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{CERTIFICATE, KEY};
use crate::device::seal;

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(super) enum CredentialsError {
    /// The device is not enrolled.
    #[error("the device is not enrolled: there is no {}", .0.display())]
    Missing(PathBuf),
    /// The file is there, and of no use.
    #[error("{} holds no {what} in PEM", path.display())]
    Spoilt { path: PathBuf, what: &'static str },
}

/// A certificate and its key. It does not print.
pub(super) struct Credentials {
    folder: PathBuf,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    fingerprint: String,
}

impl Credentials {
    /// Reads them.
    pub(super) fn read(folder: &Path) -> Result<Self, CredentialsError> {
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        let read = |path: &PathBuf| std::fs::read(path).map_err(|_| CredentialsError::Missing(path.clone()));
        let (chain_pem, key_pem) = (read(&certificate)?, read(&key)?);
        let spoilt = |path: PathBuf, what| CredentialsError::Spoilt { path, what };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain_pem).collect();
        let chain =
            chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| spoilt(certificate, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| spoilt(key, "key"))?;
        let fingerprint = chain.first().map(|first| seal::sha256(first.as_ref())).unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), chain, key, fingerprint })
    }

    /// Another one for each enrolment.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Removes them, the key first.
    pub(super) fn wipe(&self) {
        for name in [KEY, CERTIFICATE] {
            let path = self.folder.join(name);
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::error!(%error, path = %path.display(), "a credential could not be removed");
            }
        }
    }
}
