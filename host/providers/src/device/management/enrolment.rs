//! Enrolment: the device makes a key, asks for a certificate of it, and waits until somebody has approved that.
//!
//! Each step can be done again: the key is on disk before it is heard of, a request that is there already is waited for, and
//! the certificate is kept as a whole. A power cut costs nothing but time.

use std::error::Error as _;

use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::ManagementOptions;
use super::credentials::{self, Credentials, CredentialsError};
use super::exchange::{ServerError, Servers};
use super::timing::Backoff;
use crate::device::linux::service::Service;

/// Characters of the service's own words that are told.
const WORDS_MAX: usize = 200;

/// What the service has made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nobody has decided, or the certificate is not made yet.
    Pending,
    /// Somebody has said no; in their words.
    Denied(String),
    /// The certificate, in PEM.
    Issued(String),
}

/// Why there is no certificate yet.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("the request for a certificate cannot be made")]
    Request(#[from] rcgen::Error),
    #[error("{0}")]
    Exchange(String),
    #[error("the service has denied to enrol this device: {0}")]
    Denied(String),
}

/// Returns once the device has a certificate. `known` is the version that it was told last, none where it was told none.
pub(super) async fn enrol(options: &ManagementOptions, service: &Service, known: Option<&str>) {
    let mut backoff = Backoff::new(&options.timings, &options.name);
    let mut told = String::new();
    let mut tell = |text: String| {
        if text != told {
            // Somebody has to do something about it, be it only to approve.
            tracing::warn!(device = options.name, "{text}");
        }
        service.unreachable(&text);
        told = text;
    };
    let mut servers = None;
    loop {
        match turn(options, &mut servers, known).await {
            Ok(true) => return,
            Ok(false) => {
                backoff.reset();
                tell(format!("waiting until the service approves that {} is enrolled", options.name));
                tokio::time::sleep(options.timings.poll).await;
            }
            Err(trouble) => {
                if let (Trouble::Exchange(_), Some(servers)) = (&trouble, &servers) {
                    servers.next();
                }
                tell(in_words(&trouble));
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

/// A trouble with its causes.
fn in_words(trouble: &Trouble) -> String {
    let (mut words, mut cause) = (trouble.to_string(), trouble.source());
    while let Some(deeper) = cause {
        words = format!("{words}: {deeper}");
        cause = deeper.source();
    }
    words
}

/// One look at what has become of the request, which is made where there is none; whether the certificate is there.
async fn turn(
    options: &ManagementOptions,
    servers: &mut Option<Servers>,
    known: Option<&str>,
) -> Result<bool, Trouble> {
    let folder = &options.certificates;
    let key = credentials::own_key(folder)?;
    if servers.is_none() {
        *servers = Some(Servers::new(options, &Credentials::for_enrolment(folder)?)?);
    }
    let Some(servers) = servers else { return Ok(false) };
    let Some(request) = servers.enrolment_request().await.map_err(Trouble::Exchange)? else {
        let request = request(&options.name, &key, known)?;
        servers.ask_enrolment(&request).await.map_err(Trouble::Exchange)?;
        return Ok(false);
    };
    match verdict(&request) {
        Verdict::Pending => Ok(false),
        Verdict::Denied(why) => Err(Trouble::Denied(why)),
        Verdict::Issued(pem) => {
            credentials::store_certificate(folder, &pem, &key)?;
            Ok(true)
        }
    }
}

/// What is handed in: the device's name, and its signature under its own key.
fn request(name: &str, key: &KeyPair, known: Option<&str>) -> Result<Value, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    let mut request = json!({
        "apiVersion": "flightctl.io/v1beta1",
        "kind": "EnrollmentRequest",
        "metadata": {"name": name},
        "spec": {"csr": params.serialize_request(key)?.pem()?},
    });
    if let Some(known) = known {
        request["spec"]["knownRenderedVersion"] = json!(known);
    }
    Ok(request)
}

fn verdict(request: &Value) -> Verdict {
    let conditions = request.pointer("/status/conditions").and_then(Value::as_array);
    let of = |wanted: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|one| one["type"] == wanted && one["status"] == "True")
    };
    if let Some(denied) = of("Denied").or_else(|| of("Failed")) {
        let text = |name: &str| denied[name].as_str().filter(|text| !text.is_empty());
        let words = text("message").or_else(|| text("reason")).unwrap_or("without a reason");
        return Verdict::Denied(words.chars().filter(|one| !one.is_control()).take(WORDS_MAX).collect());
    }
    let certificate = request.pointer("/status/certificate").and_then(Value::as_str);
    match certificate.filter(|pem| !pem.trim().is_empty() && of("Approved").is_some()) {
        Some(pem) => Verdict::Issued(pem.to_owned()),
        None => Verdict::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_a_condition_that_holds() {
        let request = |conditions: Value, certificate: &str| json!({"status": {"conditions": conditions, "certificate": certificate}});
        let of = |type_: &str, status: &str| json!([{"type": type_, "status": status, "reason": "r"}]);
        assert_eq!(verdict(&json!({})), Verdict::Pending);
        assert_eq!(verdict(&request(of("Approved", "False"), "c")), Verdict::Pending);
        assert_eq!(verdict(&request(of("Approved", "True"), "")), Verdict::Pending, "it is not made yet");
        assert_eq!(verdict(&request(of("Approved", "True"), "c")), Verdict::Issued("c".to_owned()));
        assert_eq!(verdict(&request(of("Denied", "True"), "c")), Verdict::Denied("r".to_owned()));
        assert_eq!(verdict(&request(of("Denied", "False"), "")), Verdict::Pending);
    }
}
