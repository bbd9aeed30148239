//! Which providers a host has, as an operator writes it down.
//!
//! ```yaml
//! vsphere:
//!   vc.example.test:                 # plugins name it so
//!     address: 192.0.2.10:443        # default: the name, port 443
//!     protocol: soap                 # or vi-json, which vCenter has since 8.0 U1
//!     thumbprint: AB:CD:…            # or `ca: |` with PEM; default: the system's authorities
//!     credentials: {namespace: infra, name: vcenter}   # a Secret with `username` and `password`
//!     limits: {concurrent: 8, perSecond: 200, deadlineSeconds: 30}
//! machine:                           # by what machine classes call their `provider`
//!   vsphere: {driver: vsphere}       # VMs of the vCenters above, which `providerSpec.server` names
//!   sim: {driver: simulated}         # a cloud in memory, for trials
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::machine::simulated::{self, Cloud};
use crate::machine::vsphere::VsphereDriver;
use crate::machine::{self, Drivers, MachineProvider};
use crate::provider::Providers;
use crate::vsphere::Vsphere;
use crate::vsphere::credentials::Credentials;
use crate::vsphere::http::Endpoint;
use crate::vsphere::limits::CallLimits;
use crate::vsphere::soap::Soap;
use crate::vsphere::tls::{Thumbprint, Trust, TrustError};
use crate::vsphere::vcenter::Vcenter;
use crate::vsphere::vi_json::ViJson;

/// The port of HTTPS.
const PORT: u16 = 443;

/// All providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvidersConfig {
    /// vCenters, by the names that plugins know them by.
    #[serde(default)]
    pub vsphere: BTreeMap<String, VcenterConfig>,
    /// Drivers of machine classes, by what a class calls its `provider`.
    #[serde(default)]
    pub machine: BTreeMap<String, DriverConfig>,
}

/// A driver of machine classes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "driver", rename_all = "kebab-case")]
pub enum DriverConfig {
    /// VMs of the vCenters of the section `vsphere`.
    Vsphere(NoSettings),
    /// VMs of a cloud that exists in memory and ends with the host: for trials.
    Simulated(Box<simulated::Config>),
}

/// There is nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

/// A vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VcenterConfig {
    /// `host` or `host:port`; none for its name.
    #[serde(default)]
    pub address: Option<String>,
    /// What it is spoken to in.
    #[serde(default)]
    pub protocol: Protocol,
    /// Authorities of its certificate, in PEM.
    #[serde(default)]
    pub ca: Option<String>,
    /// The thumbprint of its certificate.
    #[serde(default)]
    pub thumbprint: Option<String>,
    /// Who logs in.
    pub credentials: SecretRef,
    /// What is asked of it at most.
    #[serde(default)]
    pub limits: LimitsConfig,
}

/// What a vCenter is spoken to in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Every vCenter and ESXi takes it.
    #[default]
    Soap,
    /// vCenter 8.0 U1 and later take it.
    ViJson,
}

/// A Secret with `username` and `password`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Limits that are not the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsConfig {
    /// Calls under way at once.
    #[serde(default)]
    pub concurrent: Option<usize>,
    /// Calls per second in the long run; twice as many at once.
    #[serde(default)]
    pub per_second: Option<u32>,
    /// Seconds that one call may take.
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Its address.
    #[error("vsphere {server}: {address:?} is no host or host:port")]
    Address {
        /// The vCenter.
        server: String,
        /// As it was given.
        address: String,
    },
    /// Whom to trust.
    #[error("vsphere {server}: give either a CA or a thumbprint, not both")]
    TwoTrusts {
        /// The vCenter.
        server: String,
    },
    /// Whom to trust.
    #[error("vsphere {server}")]
    Trust {
        /// The vCenter.
        server: String,
        /// Why not.
        source: TrustError,
    },
    /// A driver without anything to drive.
    #[error("machine {driver}: there is no vCenter in the section vsphere")]
    NoVcenters {
        /// The driver.
        driver: String,
    },
    /// A limit that lets nothing through.
    #[error("vsphere {server}: a limit of 0 lets nothing through")]
    Limit {
        /// The vCenter.
        server: String,
    },
}

impl ProvidersConfig {
    /// Makes the providers; call it inside a tokio runtime. Nothing is sent before a plugin asks. `credentials` finds
    /// the ones that a Secret holds, whenever somebody logs in.
    ///
    /// # Errors
    /// If something in it cannot be.
    pub fn make(
        &self,
        credentials: &dyn Fn(&SecretRef) -> Arc<dyn Credentials>,
    ) -> Result<Providers, ConfigError> {
        let mut providers = Providers::default();
        let vsphere = self.vcenters(credentials)?;
        if !self.machine.is_empty() {
            let drivers = self.drivers(vsphere.as_ref())?;
            providers = providers.with(machine::NAME, Arc::new(MachineProvider::new(drivers)));
        }
        if let Some(vsphere) = vsphere {
            providers = providers.with("vsphere", vsphere);
        }
        Ok(providers)
    }

    fn vcenters(
        &self,
        credentials: &dyn Fn(&SecretRef) -> Arc<dyn Credentials>,
    ) -> Result<Option<Arc<Vsphere>>, ConfigError> {
        let mut vsphere = Vsphere::new();
        for (name, server) in &self.vsphere {
            let endpoint = server.endpoint(name)?;
            let far_end: Arc<dyn Vcenter> = match server.protocol {
                Protocol::Soap => Arc::new(Soap::new(endpoint)),
                Protocol::ViJson => Arc::new(ViJson::new(endpoint)),
            };
            vsphere = vsphere.with(name, far_end, credentials(&server.credentials), server.limits(name)?);
        }
        Ok((!self.vsphere.is_empty()).then(|| Arc::new(vsphere)))
    }

    fn drivers(&self, vsphere: Option<&Arc<Vsphere>>) -> Result<Drivers, ConfigError> {
        let mut drivers = Drivers::default();
        for (name, driver) in &self.machine {
            drivers = match (driver, vsphere) {
                (DriverConfig::Simulated(cloud), _) => {
                    drivers.with(name, Arc::new(Cloud::new((**cloud).clone())))
                }
                (DriverConfig::Vsphere(NoSettings {}), Some(vsphere)) => {
                    drivers.with(name, Arc::new(VsphereDriver::new(Arc::<Vsphere>::clone(vsphere))))
                }
                (DriverConfig::Vsphere(NoSettings {}), None) => {
                    return Err(ConfigError::NoVcenters { driver: name.clone() });
                }
            };
        }
        Ok(drivers)
    }
}

impl VcenterConfig {
    fn endpoint(&self, server: &str) -> Result<Endpoint, ConfigError> {
        let address = self.address.as_deref().unwrap_or(server);
        let (host, port) = split(address)
            .ok_or_else(|| ConfigError::Address { server: server.to_owned(), address: address.to_owned() })?;
        let failed = |source| ConfigError::Trust { server: server.to_owned(), source };
        let trust = match (&self.ca, &self.thumbprint) {
            (Some(_), Some(_)) => return Err(ConfigError::TwoTrusts { server: server.to_owned() }),
            (Some(pem), None) => Trust::Authorities(pem.clone()),
            (None, Some(text)) => Trust::Thumbprint(text.parse::<Thumbprint>().map_err(failed)?),
            (None, None) => Trust::System,
        };
        Ok(Endpoint { host, port, tls: trust.config().map_err(failed)? })
    }

    fn limits(&self, server: &str) -> Result<CallLimits, ConfigError> {
        let LimitsConfig { concurrent, per_second, deadline_seconds } = self.limits;
        let usual = CallLimits::default();
        let limits = CallLimits {
            concurrent: concurrent.unwrap_or(usual.concurrent),
            waiting: usual.waiting,
            per_second: per_second.unwrap_or(usual.per_second),
            burst: per_second.map_or(usual.burst, |calls| calls.saturating_mul(2)),
            deadline: deadline_seconds.map_or(usual.deadline, Duration::from_secs),
        };
        if limits.concurrent == 0 || limits.per_second == 0 || limits.deadline.is_zero() {
            return Err(ConfigError::Limit { server: server.to_owned() });
        }
        Ok(limits)
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn split(address: &str) -> Option<(String, u16)> {
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = if rest.is_empty() { PORT } else { rest.strip_prefix(':')?.parse().ok()? };
        return Some((host.to_owned(), port));
    }
    let (host, port) = match address.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, PORT),
    };
    let plain = !host.is_empty()
        && host.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '.' | '_'));
    plain.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;
    use crate::vsphere::credentials::Login;

    async fn check(server: Value, expected: Expect) {
        let mut server = server;
        server["credentials"] = json!({"namespace": "infra", "name": "vcenter"});
        let config = json!({"vsphere": {"vc.example.test": server}});
        let config: ProvidersConfig = serde_json::from_value(config).expect("a configuration");
        let login = |_: &SecretRef| -> Arc<dyn Credentials> {
            Arc::new(Login { user: "u".into(), password: "p".into() })
        };
        let made = config.make(&login).map(|_| "made").map_err(|error| error.to_string());
        expected.assert_eq(&format!("{made:?}"));
    }

    /// A whole configuration, as it is read from a file.
    async fn check_whole(config: Value, expected: Expect) {
        let login = |_: &SecretRef| -> Arc<dyn Credentials> {
            Arc::new(Login { user: "u".into(), password: "p".into() })
        };
        let read = serde_json::from_value::<ProvidersConfig>(config).map_err(|error| error.to_string());
        let made = read.and_then(|config| match config.make(&login) {
            Ok(providers) => Ok(providers.names().join(", ")),
            Err(error) => Err(error.to_string()),
        });
        expected.assert_eq(&format!("{made:?}"));
    }

    #[tokio::test]
    async fn drivers_of_machine_classes_are_made_by_their_names() {
        let vcenter = json!({"credentials": {"namespace": "infra", "name": "vcenter"}});
        check_whole(json!({}), expect![[r#"Ok("")"#]]).await;
        check_whole(
            json!({"machine": {"sim": {"driver": "simulated", "nodeNames": "generated"}}}),
            expect![[r#"Ok("machine")"#]],
        )
        .await;
        check_whole(
            json!({"vsphere": {"vc": vcenter}, "machine": {"vsphere": {"driver": "vsphere"}, "sim": {"driver": "simulated"}}}),
            expect![[r#"Ok("machine, vsphere")"#]],
        )
        .await;
        check_whole(
            json!({"machine": {"vsphere": {"driver": "vsphere"}}}),
            expect![[r#"Err("machine vsphere: there is no vCenter in the section vsphere")"#]],
        )
        .await;
        check_whole(
            json!({"machine": {"a": {"driver": "aws"}}}),
            expect![[r#"Err("unknown variant `aws`, expected `vsphere` or `simulated`")"#]],
        )
        .await;
        check_whole(json!({"machine": {"a": {}}}), expect![[r#"Err("missing field `driver`")"#]]).await;
        check_whole(json!({"machine": {"a": {"driver": "simulated", "nodes": 1}}}), expect![[r#"Err("unknown field `nodes`, expected one of `credentials`, `nodeNames`, `initialize`, `taskSeconds`, `vms`, `operations`")"#]]).await;
        check_whole(
            json!({"vsphere": {"vc": vcenter}, "machine": {"a": {"driver": "vsphere", "server": "vc"}}}),
            expect![[r#"Err("unknown field `server`, there are no fields")"#]],
        )
        .await;
        check_whole(
            json!({"machines": {}}),
            expect![[r#"Err("unknown field `machines`, expected `vsphere` or `machine`")"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn what_cannot_be_is_refused_before_anything_is_reached() {
        let thumbprint = "ab".repeat(32);
        check(json!({"thumbprint": thumbprint}), expect![[r#"Ok("made")"#]]).await;
        check(json!({"thumbprint": thumbprint, "address": "[2001:db8::1]:8443"}), expect![[r#"Ok("made")"#]])
            .await;
        check(
            json!({"thumbprint": thumbprint, "address": "https://vc/sdk"}),
            expect![[r#"Err("vsphere vc.example.test: \"https://vc/sdk\" is no host or host:port")"#]],
        )
        .await;
        check(
            json!({"thumbprint": thumbprint, "ca": "x"}),
            expect![[r#"Err("vsphere vc.example.test: give either a CA or a thumbprint, not both")"#]],
        )
        .await;
        check(json!({"thumbprint": "ab"}), expect![[r#"Err("vsphere vc.example.test")"#]]).await;
        check(
            json!({"thumbprint": thumbprint, "limits": {"concurrent": 0}}),
            expect![[r#"Err("vsphere vc.example.test: a limit of 0 lets nothing through")"#]],
        )
        .await;
    }
}
