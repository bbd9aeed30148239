//! Whom to take for a vCenter: by an authority, by the thumbprint of its certificate, or by the system's authorities.

use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Who is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of these authorities, in PEM, for the server's name.
    Authorities(String),
    /// The one certificate of this thumbprint, whatever its name and age.
    Thumbprint(Thumbprint),
    /// Certificates of the system's authorities, for the server's name.
    System,
}

/// A certificate's digest: SHA-256, or SHA-1 as vCenter's own tools show it.
///
/// SHA-1 is broken for making two certificates alike, not for making one like a given one, which is what an impostor
/// would need here.
#[derive(Clone, PartialEq, Eq)]
pub struct Thumbprint(Vec<u8>);

impl fmt::Debug for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.0.iter().map(|byte| format!("{byte:02X}")).collect();
        f.write_str(&bytes.join(":"))
    }
}

/// Why nobody can be trusted so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Not 20 or 32 bytes in hexadecimal.
    #[error("a thumbprint is 20 bytes (SHA-1) or 32 bytes (SHA-256) in hexadecimal, as in AB:CD:…")]
    NoThumbprint,
    /// No certificates in the PEM text, or broken ones.
    #[error("the authorities are no certificates in PEM")]
    NoAuthorities,
    /// The system has none.
    #[error("the system has no certificate authorities: give a CA or a thumbprint")]
    NoSystemAuthorities,
}

impl std::str::FromStr for Thumbprint {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, TrustError> {
        let digits: Vec<char> = text.chars().filter(|one| !matches!(one, ':' | ' ')).collect();
        let byte = |pair: &[char]| {
            let text: String = pair.iter().collect();
            u8::from_str_radix(&text, 16).ok().filter(|_| pair.len() == 2)
        };
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        let bytes = bytes.filter(|bytes| matches!(bytes.len(), 20 | 32));
        bytes.map(Self).ok_or(TrustError::NoThumbprint)
    }
}

impl Trust {
    /// The client's side of TLS.
    ///
    /// # Errors
    /// If there is nobody to trust.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|_| TrustError::NoAuthorities)?;
        let config = match self {
            Self::Authorities(pem) => builder.with_root_certificates(authorities(pem)?).with_no_client_auth(),
            Self::System => builder.with_root_certificates(system()?).with_no_client_auth(),
            Self::Thumbprint(thumbprint) => {
                let verifier = ByThumbprint { thumbprint: thumbprint.clone(), provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
        };
        Ok(Arc::new(config))
    }
}

fn authorities(pem: &str) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| TrustError::NoAuthorities)?;
        roots.add(certificate).map_err(|_| TrustError::NoAuthorities)?;
    }
    if roots.is_empty() { Err(TrustError::NoAuthorities) } else { Ok(roots) }
}

fn system() -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TrustError::NoSystemAuthorities) } else { Ok(roots) }
}

/// Takes one certificate, and none else.
#[derive(Debug)]
struct ByThumbprint {
    thumbprint: Thumbprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByThumbprint {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithm = if self.thumbprint.0.len() == 20 { &SHA1_FOR_LEGACY_USE_ONLY } else { &SHA256 };
        if digest(algorithm, certificate).as_ref() == self.thumbprint.0 {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbprint_is_read_as_vcenters_tools_write_it() {
        let sha1 = "AB:CD:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:01";
        assert_eq!(format!("{:?}", sha1.parse::<Thumbprint>().expect("20 bytes")), sha1);
        assert!("ab".repeat(32).parse::<Thumbprint>().is_ok());
        for wrong in ["", "AB:CD", "zz", &"ab".repeat(31), &"a".repeat(41)] {
            assert_eq!(wrong.parse::<Thumbprint>(), Err(TrustError::NoThumbprint), "{wrong:?}");
        }
    }

    #[test]
    fn authorities_have_to_be_certificates() {
        assert_eq!(Trust::Authorities("hello".into()).config().err(), Some(TrustError::NoAuthorities));
    }
}
