//! The Lease at the API server, as text and as what the election knows of it.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_core::contract::Gvk;
use evenkeel_core::lease::{Claim, Seen};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ElectionOptions;
use crate::Clock;
use crate::rest::{Call, JSON, Rest, RestError, resource_path};

/// Reads and writes one Lease.
pub(super) struct LeaseApi {
    rest: Rest,
    clock: Clock,
    namespace: String,
    name: String,
}

/// The parts of a Lease that the election reads.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Lease {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<i32>,
}

impl LeaseApi {
    pub(super) fn new(rest: Rest, options: &ElectionOptions) -> Self {
        Self {
            rest,
            clock: options.clock.clone(),
            namespace: options.namespace.clone(),
            name: options.name.clone(),
        }
    }

    fn path(&self, name: Option<&str>) -> String {
        let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
        resource_path(&gvk, "leases", Some(&self.namespace), name, None)
    }

    /// The Lease; none where there is none.
    pub(super) async fn read(&self) -> Result<Option<Seen>, RestError> {
        match self.rest.text(Call::read("get", self.path(Some(&self.name)), JSON)).await {
            Ok(text) => parse(&text).map(Some),
            Err(RestError::Status { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it, unless it is another one than the claim replaces. What others put into its metadata stays.
    pub(super) async fn write(&self, claim: &Claim) -> Result<Seen, RestError> {
        let body = body(claim, &self.namespace, &self.name, (self.clock)());
        let body = Bytes::from(body.to_string());
        let mut call = match &claim.version {
            None => Call::write("create", Method::POST, self.path(None), body),
            Some(_) => Call::write("patch", Method::PATCH, self.path(Some(&self.name)), body),
        };
        if claim.version.is_some() {
            call.content_type = "application/merge-patch+json";
        }
        parse(&self.rest.text(call.with("fieldManager", "evenkeel")).await?)
    }
}

fn parse(text: &str) -> Result<Seen, RestError> {
    let lease: Lease = serde_json::from_str(text).map_err(|cause| RestError::Decode(cause.into()))?;
    let Spec { holder_identity, lease_duration_seconds, acquire_time, renew_time, lease_transitions } =
        lease.spec;
    let seconds = u64::try_from(lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    Ok(Seen {
        version: lease.metadata.resource_version,
        holder: holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds),
        acquired: acquire_time.unwrap_or_default(),
        renewed: renew_time.unwrap_or_default(),
        transitions: u32::try_from(lease_transitions.unwrap_or(0)).unwrap_or(0),
    })
}

fn body(claim: &Claim, namespace: &str, name: &str, now: jiff::Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let acquired = claim.acquired.as_deref().filter(|time| !time.is_empty()).unwrap_or(&now);
    let spec = json!({
        // The API knows no empty holder; a merge patch takes out what is null.
        "holderIdentity": (!claim.holder.is_empty()).then_some(&claim.holder),
        "leaseDurationSeconds": claim.duration.as_secs(),
        "acquireTime": acquired,
        "renewTime": now,
        "leaseTransitions": claim.transitions,
    });
    match &claim.version {
        Some(version) => json!({"metadata": {"resourceVersion": version}, "spec": spec}),
        None => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(version: Option<&str>, holder: &str) -> Claim {
        Claim {
            version: version.map(str::to_owned),
            holder: holder.into(),
            duration: Duration::from_secs(15),
            acquired: None,
            transitions: 3,
        }
    }

    fn written(claim: &Claim) -> Value {
        body(claim, "evenkeel-system", "evenkeel", "2026-01-02T03:04:05.000006Z".parse().expect("a time"))
    }

    #[test]
    fn a_renewal_names_the_revision_that_it_replaces() {
        assert_eq!(
            written(&claim(Some("7"), "a")),
            json!({
                "metadata": {"resourceVersion": "7"},
                "spec": {
                    "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                    "acquireTime": "2026-01-02T03:04:05.000006Z", "renewTime": "2026-01-02T03:04:05.000006Z",
                },
            })
        );
    }

    #[test]
    fn a_lease_that_is_handed_over_has_no_holder() {
        assert_eq!(written(&claim(Some("7"), ""))["spec"]["holderIdentity"], Value::Null);
    }

    #[test]
    fn a_lease_that_says_little_is_read_all_the_same() {
        let seen = parse(r#"{"metadata":{"resourceVersion":"1"},"spec":{"leaseDurationSeconds":-4}}"#);
        let seen = seen.expect("a Lease");
        assert_eq!((seen.version.as_str(), seen.holder.as_str(), seen.duration), ("1", "", Duration::ZERO));
    }
}
