//! The world of a scenario: the embedded Kubernetes, the host on it, and a clock that stands still unless it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::VirtualClock;
use evenkeel_engine::journal::JournalOptions;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions, PassRecord};
use evenkeel_providers::Providers;
use evenkeel_providers::twins::{self, Twin, TwinError};
use evenkeel_sandbox::standins::{self, Stages};
use evenkeel_sandbox::{Cut, Fault, Sandbox, SandboxOptions};
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::before::{Ambushed, Ambushes};
use super::kinds::{KindInfo, Kinds};
use super::user::UserRequest;
use crate::guest::Dressed;

/// Past this many looks without coming to rest a host goes round in circles: the busiest scenario needs some thousands.
const LOOKS_MAX: u32 = 2_000_000;

/// So many looks in a row must find nothing to do: watch streams hand on what they have between two of them.
const QUIET_LOOKS: u32 = 40;

/// Where time starts unless somebody says otherwise: 2026-01-01T00:00:00Z.
pub const CLOCK: Timestamp = Timestamp::constant(1_767_225_600, 0);

static NO_PROVIDERS: BTreeMap<String, Value> = BTreeMap::new();

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
        /// Its HTTP status, where it was the server that refused.
        code: Option<u16>,
    },
    /// An object cannot be put in place.
    #[error("given object {index}: {reason}")]
    Given {
        /// Its place in the list, from 1.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A twin that cannot be made, or does not do as it is told.
    #[error("the provider {name}")]
    Twin {
        /// The provider.
        name: String,
        /// What is wrong.
        #[source]
        cause: TwinError,
    },
    /// A step that is no request stands where only requests may.
    #[error("`before` takes apply, create, replace, patch and delete")]
    NoRequest,
    /// A provider that does not exist.
    #[error("the scenario has no provider {0:?}: name it below `providers`")]
    Provider(String),
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
    /// What the operator says about it.
    pub settings: PluginSettings,
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
    /// The outside world: a twin for each provider that is named, by its configuration.
    pub providers: &'a BTreeMap<String, Value>,
    /// Objects in place before the host starts.
    pub given: &'a [Value],
}

impl Start<'_> {
    /// A plugin with all that it asks for, on an empty cluster.
    pub fn new(guest: Arc<dyn Guest>) -> Self {
        Self {
            guest,
            settings: PluginSettings::default(),
            controllers: None,
            installed: &[],
            stages: false,
            clock: CLOCK,
            seed: 1,
            providers: &NO_PROVIDERS,
            given: &[],
        }
    }
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
    settings: PluginSettings,
    /// They outlive a host, as the outside world does.
    twins: BTreeMap<String, Arc<dyn Twin>>,
    /// What comes before a write of the host.
    pub(super) ambushes: Ambushes,
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
        known.extend(stand_ins().values().flatten().cloned());
        let mut twins = BTreeMap::new();
        for (name, config) in start.providers {
            let twin = twins::make(name, config, start.seed)
                .map_err(|cause| WorldError::Twin { name: name.clone(), cause })?;
            twins.insert(name.clone(), twin);
        }
        let mut world = Self {
            twins,
            user: kube::Client::new(sandbox.service(), "default"),
            kinds: Kinds::with_crds(&known),
            guest: Dressed::new(start.guest, start.controllers),
            settings: start.settings,
            ambushes: Ambushes::default(),
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
            static STAGES: OnceLock<Stages> = OnceLock::new();
            let stages = STAGES.get_or_init(Stages::builtin).clone();
            world._stages = Some(standins::start(world.sandbox.service(), stages, server_clock));
        }
        world.run_host().await?;
        Ok(world)
    }

    /// Starts a host that remembers nothing.
    async fn run_host(&mut self) -> Result<(), WorldError> {
        let service = Ambushed::new(self.sandbox.service(), self.ambushes.clone());
        let providers = self
            .twins
            .iter()
            .fold(Providers::default(), |all, (name, twin)| all.with(name, twin.as_provider()));
        let host = Host::start(HostOptions {
            providers,
            clock: Arc::new(self.clock),
            seed: self.seed,
            journal: JournalOptions { bytes_max: usize::MAX, file: None },
            ..HostOptions::new(kube::Client::new(service, "default"))
        })
        .map_err(|error| WorldError::Host(error.to_string()))?;
        host.load(self.guest.current(), self.settings.clone())
            .await
            .map_err(|held| WorldError::Host(held.to_string()))?;
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
        // The outside world stays; what the provider itself remembered of it goes with the host.
        for twin in self.twins.values_mut() {
            if let Some(next) = twin.after_restart() {
                *twin = next;
            }
        }
        self.run_host().await
    }

    /// Puts the same plugin under another digest in the place of the one that runs.
    pub async fn swap(&mut self) -> Result<(), WorldError> {
        self.guest.redress();
        if let Some(host) = &self.host {
            host.load(self.guest.current(), self.settings.clone())
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

    /// The simulated far end of a provider.
    pub fn twin(&self, name: &str) -> Result<&Arc<dyn Twin>, WorldError> {
        self.twins.get(name).ok_or_else(|| WorldError::Provider(name.to_owned()))
    }

    /// Has something happen in the outside world.
    pub async fn control(&mut self, commands: &BTreeMap<String, Value>) -> Result<(), WorldError> {
        for (name, command) in commands {
            self.twin(name)?
                .control(command)
                .map_err(|cause| WorldError::Twin { name: name.clone(), cause })?;
        }
        self.settle().await
    }

    /// What must never be in the outside world, and is.
    pub fn broken_invariants(&self) -> Vec<(&str, String)> {
        let broken = |twin: &Arc<dyn Twin>| twin.invariants().into_iter();
        self.twins
            .iter()
            .flat_map(|(name, twin)| broken(twin).map(move |said| (name.as_str(), said)))
            .collect()
    }

    /// Serves the kinds of these stand-ins.
    pub fn install(&self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            let crds = stand_ins().get(name.as_str()).ok_or_else(|| WorldError::StandIn(name.clone()))?;
            for crd in crds {
                self.sandbox.put(crd.clone()).map_err(|error| WorldError::Host(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Serves the kinds of these stand-ins no more; their objects go with them.
    pub async fn uninstall(&mut self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            let crds = stand_ins().get(name.as_str()).ok_or_else(|| WorldError::StandIn(name.clone()))?;
            for crd in crds {
                let name =
                    crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let target = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
                let request = UserRequest {
                    method: "DELETE",
                    target,
                    content_type: "application/json",
                    body: Vec::new(),
                };
                self.request(&request).await?;
            }
        }
        self.settle().await
    }

    /// A request by a user, who may do anything.
    pub async fn request(&mut self, request: &UserRequest) -> Result<Value, WorldError> {
        let UserRequest { method, target, content_type, body } = request;
        let what = format!("{method} {target}");
        let refused = |reason: String, code| WorldError::Refused { what: what.clone(), reason, code };
        let request = Request::builder()
            .method(*method)
            .uri(target)
            .header("content-type", *content_type)
            .header("user-agent", "user")
            .body(body.clone())
            .map_err(|error| refused(error.to_string(), None))?;
        self.user.request::<Value>(request).await.map_err(|error| match error {
            // The server's own words where it has some.
            kube::Error::Api(status) => refused(status.message.clone(), Some(status.code)),
            other => refused(other.to_string(), None),
        })
    }

    /// All objects of a kind, in the order of their namespaces and names; those of one namespace where it is named.
    pub fn objects(&self, kind: &KindInfo, namespace: Option<&str>) -> Vec<Value> {
        let (api_version, is) = (kind.gvk.api_version(), |object: &Value, pointer: &str, wanted: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default() == wanted
        });
        let mut objects = self.sandbox.dump();
        objects.retain(|object| {
            is(object, "/apiVersion", &api_version)
                && is(object, "/kind", &kind.gvk.kind)
                && namespace.is_none_or(|namespace| is(object, "/metadata/namespace", namespace))
        });
        objects.sort_by_cached_key(|object| {
            ["/metadata/namespace", "/metadata/name"]
                .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
        });
        objects
    }

    /// The state of an object.
    pub fn object(&self, kind: &KindInfo, namespace: Option<&str>, name: &str) -> Option<Value> {
        self.sandbox.get(&kind.gvk.api_version(), &kind.gvk.kind, namespace.unwrap_or_default(), name)
    }
}

/// The kinds of each stand-in, read from their text once for all worlds.
fn stand_ins() -> &'static BTreeMap<&'static str, Vec<Value>> {
    static STAND_INS: OnceLock<BTreeMap<&'static str, Vec<Value>>> = OnceLock::new();
    STAND_INS.get_or_init(|| {
        let named = ["kubevirt", "cdi"].into_iter();
        named.filter_map(|name| Some((name, standins::crds(name)?))).collect()
    })
}
