//! The world of a scenario: the embedded Kubernetes, the host on it, and a clock that stands still unless it is told.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::contract::Json;
use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::VirtualClock;
use evenkeel_engine::journal::JournalOptions;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions, PassRecord};
use evenkeel_sandbox::standins::{self, Stages};
use evenkeel_sandbox::{Cut, Fault, Sandbox, SandboxOptions};
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kinds::{KindInfo, Kinds};
use crate::guest::Dressed;

/// Past this many looks without coming to rest a host goes round in circles: the busiest scenario needs some thousands.
const LOOKS_MAX: u32 = 2_000_000;

/// So many looks in a row must find nothing to do: watch streams hand on what they have between two of them.
const QUIET_LOOKS: u32 = 40;

/// Why a step could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The host did not come to rest.
    #[error("the host does not come to rest: after {passes} passes it still has something to do")]
    Restless {
        /// Passes in this step.
        passes: usize,
    },
    /// The API server refused what a step wanted.
    #[error("{what}: {reason}")]
    Refused {
        /// What was wanted.
        what: String,
        /// What the server said.
        reason: String,
    },
    /// An object cannot be put in place.
    #[error("given object {index}: {reason}")]
    Given {
        /// Its place in the list, from 1.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A stand-in that does not exist.
    #[error("no stand-in is called {0:?}; there are kubevirt and cdi")]
    StandIn(String),
    /// The host does not start, or does not take the plugin.
    #[error("the host does not run: {0}")]
    Host(String),
}

/// What a world starts from.
pub struct Start<'a> {
    /// The plugin.
    pub guest: Arc<dyn Guest>,
    /// Its config.
    pub config: Json,
    /// Only these controllers run; all where it is absent.
    pub controllers: Option<&'a [String]>,
    /// Stand-ins whose kinds are served.
    pub installed: &'a [String],
    /// Whether they act.
    pub stages: bool,
    /// Where time starts.
    pub clock: Timestamp,
    /// Seed of all chance.
    pub seed: u64,
    /// Objects in place before the host starts.
    pub given: &'a [Value],
}

/// A sandbox with a host on it.
pub struct World {
    /// The API server.
    pub sandbox: Sandbox,
    /// The kinds that a scenario may name.
    pub kinds: Kinds,
    /// Every pass since the start, over restarts of the host.
    pub passes: Vec<Arc<PassRecord>>,
    host: Option<Host>,
    guest: Dressed,
    config: Json,
    user: kube::Client,
    clock: VirtualClock,
    seed: u64,
    seen: usize,
    _stages: Option<standins::Running>,
}

impl World {
    /// Puts everything in place and lets the host come to rest. Call it on a current-thread runtime with time paused.
    pub async fn start(start: Start<'_>) -> Result<Self, WorldError> {
        let clock = VirtualClock::starting_at(start.clock);
        let (base, began) = (start.clock, Instant::now());
        let server_clock: evenkeel_sandbox::Clock = Arc::new(move || {
            let passed = jiff::SignedDuration::try_from(began.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
            base.saturating_add(passed).unwrap_or(base)
        });
        let sandbox = Sandbox::new(SandboxOptions {
            seed: start.seed,
            ..SandboxOptions::new(Arc::clone(&server_clock))
        });
        let mut crds: Vec<Value> = Vec::new();
        for text in &start.guest.manifest().crds {
            crds.extend(serde_json::from_str::<Value>(text).ok());
        }
        for crd in &crds {
            sandbox.put(crd.clone()).map_err(|error| WorldError::Host(error.to_string()))?;
        }
        let mut known = crds;
        known.extend(["kubevirt", "cdi"].into_iter().filter_map(standins::crds).flatten());
        let mut world = Self {
            user: kube::Client::new(sandbox.service(), "default"),
            kinds: Kinds::with_crds(&known),
            guest: Dressed::new(start.guest, start.controllers),
            config: start.config,
            passes: Vec::new(),
            host: None,
            seen: 0,
            clock,
            seed: start.seed,
            _stages: None,
            sandbox,
        };
        world.install(start.installed)?;
        for (index, object) in start.given.iter().enumerate() {
            let given = |reason: String| WorldError::Given { index: index + 1, reason };
            world.sandbox.put(object.clone()).map_err(|error| given(error.to_string()))?;
        }
        if start.stages {
            let stages = Stages::builtin();
            world._stages = Some(standins::start(world.sandbox.service(), stages, server_clock));
        }
        world.run_host().await?;
        Ok(world)
    }

    /// Starts a host that remembers nothing.
    async fn run_host(&mut self) -> Result<(), WorldError> {
        let host = Host::start(HostOptions {
            clock: Arc::new(self.clock),
            seed: self.seed,
            journal: JournalOptions { bytes_max: usize::MAX, file: None },
            ..HostOptions::new(kube::Client::new(self.sandbox.service(), "default"))
        })
        .map_err(|error| WorldError::Host(error.to_string()))?;
        let settings = PluginSettings { config: Arc::clone(&self.config), ..PluginSettings::default() };
        host.load(self.guest.current(), settings).await.map_err(|held| WorldError::Host(held.to_string()))?;
        self.host = Some(host);
        self.seen = 0;
        self.settle().await
    }

    /// Lets everything run that can run now; time stands still.
    pub async fn settle(&mut self) -> Result<(), WorldError> {
        let (mut quiet, mut revision) = (0, self.sandbox.revision());
        for _ in 0..LOOKS_MAX {
            // Yielding keeps the runtime busy, so that the paused clock does not jump to the next timer.
            tokio::task::yield_now().await;
            let now = self.sandbox.revision();
            let idle = self.host.as_ref().is_none_or(Host::idle);
            quiet = if idle && now == revision { quiet + 1 } else { 0 };
            revision = now;
            if quiet >= QUIET_LOOKS {
                self.take_passes();
                return Ok(());
            }
        }
        let before = self.passes.len();
        self.take_passes();
        Err(WorldError::Restless { passes: self.passes.len() - before })
    }

    fn take_passes(&mut self) {
        if let Some(host) = &self.host {
            let records = host.journal().records();
            self.passes.extend(records.iter().skip(self.seen).cloned());
            self.seen = records.len();
        }
    }

    /// Lets time pass; timers fire on the way.
    pub async fn advance(&mut self, by: Duration) -> Result<(), WorldError> {
        tokio::time::sleep(by).await;
        self.settle().await
    }

    /// Stops the host and starts another.
    pub async fn restart(&mut self) -> Result<(), WorldError> {
        if let Some(host) = self.host.take() {
            host.shutdown(Duration::from_secs(10)).await;
            let records = host.journal().records();
            self.passes.extend(records.iter().skip(self.seen).cloned());
        }
        self.run_host().await
    }

    /// Puts the same plugin under another digest in the place of the one that runs.
    pub async fn swap(&mut self) -> Result<(), WorldError> {
        self.guest.redress();
        let settings = PluginSettings { config: Arc::clone(&self.config), ..PluginSettings::default() };
        if let Some(host) = &self.host {
            host.load(self.guest.current(), settings)
                .await
                .map_err(|held| WorldError::Host(held.to_string()))?;
        }
        self.settle().await
    }

    /// Has everything looked at once more.
    pub async fn resync(&mut self) -> Result<(), WorldError> {
        if let Some(host) = &self.host {
            host.resync();
        }
        self.settle().await
    }

    /// Ends watches.
    pub async fn cut_watches(&mut self, kind: Option<String>) -> Result<(), WorldError> {
        self.sandbox.cut_watches(&Cut { kind, expire: false });
        // A client that lost its watch waits a moment before it comes back.
        self.advance(Duration::from_secs(2)).await
    }

    /// Makes the next requests fail that match.
    pub fn fail(&self, fault: Fault) {
        self.sandbox.fail_next(fault);
    }

    /// Serves the kinds of these stand-ins.
    pub fn install(&self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            let crds = standins::crds(name).ok_or_else(|| WorldError::StandIn(name.clone()))?;
            for crd in crds {
                self.sandbox.put(crd).map_err(|error| WorldError::Host(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Serves the kinds of these stand-ins no more; their objects go with them.
    pub async fn uninstall(&mut self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            let crds = standins::crds(name).ok_or_else(|| WorldError::StandIn(name.clone()))?;
            for crd in crds {
                let name =
                    crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
                self.request("DELETE", &path, "application/json", Vec::new()).await?;
            }
        }
        self.settle().await
    }

    /// A request by a user, who may do anything.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Value, WorldError> {
        let what = format!("{method} {path}");
        let refused = |reason: String| WorldError::Refused { what: what.clone(), reason };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "user")
            .body(body)
            .map_err(|error| refused(error.to_string()))?;
        self.user.request::<Value>(request).await.map_err(|error| refused(message(&error)))
    }

    /// The state of an object.
    pub fn object(&self, kind: &KindInfo, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.sandbox.get(&kind.gvk.api_version(), &kind.gvk.kind, namespace.unwrap_or_default(), name)
    }
}

/// The server's own words where it has some.
fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The path of a kind's collection, or of one object in it.
pub fn path(
    kind: &KindInfo,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = if kind.gvk.group.is_empty() {
        format!("/api/{}", kind.gvk.version)
    } else {
        format!("/apis/{}/{}", kind.gvk.group, kind.gvk.version)
    };
    if kind.namespaced {
        path = format!("{path}/namespaces/{}", namespace.unwrap_or("default"));
    }
    path = format!("{path}/{}", kind.plural);
    for part in [name, subresource].into_iter().flatten() {
        path = format!("{path}/{part}");
    }
    path
}

/// The body of a deletion.
pub fn delete_options(propagation: &str) -> Vec<u8> {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation})
        .to_string()
        .into_bytes()
}
