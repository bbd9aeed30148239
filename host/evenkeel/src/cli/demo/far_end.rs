//! What is not Kubernetes: a simulated far end in this process, or vcsim beside it.

use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef};
use evenkeel_engine::Host;
use evenkeel_providers::config::ProvidersConfig;
use evenkeel_providers::twins::Twin;
use evenkeel_providers::vsphere::credentials::{Credentials, Login};
use evenkeel_providers::vsphere::simulated::{DEFAULT_SERVER, VsphereTwin};
use evenkeel_providers::{Caller, Providers};
use evenkeel_test_vcsim::{Options, Vcsim};
use serde_json::{Value, json};

use super::device_update::Tree;

/// Who may log in to a vcsim that the demo starts.
const LOGIN: (&str, &str) = ("demo", "demo");

/// The vCenter of a story, or what it has in its place.
pub enum FarEnd {
    /// There is none.
    None,
    /// In this process.
    Simulated(Box<VsphereTwin>),
    /// Beside it: over HTTPS, by a vCenter's own API.
    Vcsim(Box<Vcsim>),
    /// No vCenter, but a machine below a folder.
    Device(Box<Tree>),
}

/// Where machines are made there.
pub struct Site {
    pub datastore: &'static str,
    pub folder: &'static str,
    pub resource_pool: &'static str,
    pub template: String,
}

impl FarEnd {
    /// A simulated vCenter whose tasks take a moment.
    pub fn simulated() -> anyhow::Result<Self> {
        let seconds = json!({"clone": 2, "reconfigure": 1, "power-on": 1, "power-off": 1, "destroy": 1});
        let servers = json!({DEFAULT_SERVER: {"taskSeconds": seconds, "ipSeconds": 2}});
        let twin = VsphereTwin::new(&json!({"servers": servers}), 1).context("the simulated vCenter")?;
        Ok(Self::Simulated(Box::new(twin)))
    }

    /// Builds vcsim where that was not done before, and starts it.
    pub fn vcsim() -> anyhow::Result<Self> {
        let login = Some((LOGIN.0.to_owned(), LOGIN.1.to_owned()));
        let vcsim = Vcsim::launch(Options { login }).context("vcsim cannot be had")?;
        Ok(Self::Vcsim(Box::new(vcsim)))
    }

    /// A machine below a temporary folder; call it inside a tokio runtime.
    pub fn device() -> anyhow::Result<Self> {
        Ok(Self::Device(Box::new(Tree::new().context("the folder that is to be a machine")?)))
    }

    /// The host's providers; `drivers` are those of machine classes, as in a file of providers.
    pub fn providers(&self, drivers: &Value) -> anyhow::Result<Providers> {
        let mut config = json!({"machine": drivers});
        if let Self::Vcsim(vcsim) = self {
            config["vsphere"] = json!({DEFAULT_SERVER: {
                "address": format!("127.0.0.1:{}", vcsim.port()), "ca": vcsim.authority(),
                "credentials": {"namespace": "none", "name": "none"},
            }});
        }
        let config: ProvidersConfig = serde_json::from_value(config).context("the demo's providers")?;
        let login = || -> Arc<dyn Credentials> {
            Arc::new(Login { user: LOGIN.0.to_owned(), password: LOGIN.1.to_owned() })
        };
        let providers = config.make(&|_| login())?;
        Ok(match self {
            Self::Simulated(twin) => providers.with("vsphere", twin.as_provider()),
            Self::Device(tree) => providers.with("device", tree.as_provider()),
            Self::Vcsim(_) | Self::None => providers,
        })
    }

    /// Where machines are made there; none for what the samples say.
    pub fn site(&self) -> Option<Site> {
        let Self::Vcsim(vcsim) = self else { return None };
        Some(Site {
            datastore: "/DC0/datastore/LocalDS_0",
            folder: "/DC0/vm",
            resource_pool: "/DC0/host/DC0_C0/Resources",
            template: vcsim.template(),
        })
    }

    /// A guest has booted: it reports an address. The simulated one does so by itself.
    pub fn guest_reports(&self, vm: &str, address: &str) -> anyhow::Result<()> {
        match self {
            Self::Vcsim(vcsim) => vcsim.control(&format!("guest-ip?vm={vm}&card=0&ip={address}")),
            Self::Simulated(_) | Self::Device(_) | Self::None => Ok(()),
        }
    }
}

/// The VM that was made with an instance UUID, as the host's own provider tells of it; null where there is none.
pub async fn vm_of(host: &Host, uuid: &str) -> anyhow::Result<Value> {
    let arguments = json!({"server": DEFAULT_SERVER, "datacenter": "/DC0", "kind": "instance", "uuid": uuid});
    let query = ExternalQuery {
        provider: "vsphere".into(),
        question: "vm-by-uuid".into(),
        arguments: arguments.to_string().into(),
    };
    let object = ObjectRef::new(Gvk::new("", "v1", "Namespace"), None::<&str>, "demo");
    let caller = Caller { plugin: "demo".to_owned(), object, uid: None };
    let answer = host.providers().answer(&caller, &query).await;
    host.providers().forget(&query);
    let answer = match answer {
        Ok(answer) => serde_json::from_str::<Value>(&answer).context("an answer of the provider")?,
        Err(failure) => bail!("the provider failed: {}", failure.message),
    };
    match answer["result"].as_str() {
        Some("hit") => Ok(answer["vm"].clone()),
        Some("absent") => Ok(Value::Null),
        _ => bail!("vCenter says {answer}"),
    }
}
