//! The world of a scenario: an API server, the host on it, and a clock that stands still unless it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::contract::Manifest;
use evenkeel_core::guest::Guest;
use evenkeel_engine::clock::{Clock, VirtualClock};
use evenkeel_engine::journal::JournalOptions;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions, PassRecord};
use evenkeel_providers::Providers;
use evenkeel_providers::twins::{self, Twin, TwinError};
use evenkeel_sandbox::standins::{self, Stages};
use evenkeel_sandbox::{Fault, Sandbox};
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::before::{Ambushed, Ambushes};
use super::beginning::{self, Beginning, stand_in};
use super::kinds::{KindInfo, Kinds};
use super::server::{HOST, STAND_INS, Server, USER};
use super::user::UserRequest;
use crate::cluster::{Look, Stage, WireError};
use crate::guest::Dressed;

/// Past this many looks without coming to rest a host goes round in circles: the busiest scenario needs some thousands.
const LOOKS_MAX: u32 = 2_000_000;

/// So many looks in a row must find nothing to do: watch streams hand on what they have between two of them.
const QUIET_LOOKS: u32 = 40;

/// How long a cluster may take to come to rest, in looks at it: its garbage collector looks for new kinds each 30 s.
const CLUSTER_REST_MAX: Duration = Duration::from_secs(90);

/// What limits how many objects there are.
const QUOTA: &str = "ResourceQuota";

/// Between two looks at a cluster whose watches lag behind, and at one whose controllers have something to do.
const CLUSTER_PAUSES: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(25));

/// Passes of one step past which a host on a cluster goes round in circles.
const PASSES_MAX: usize = 20_000;

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
    /// The cluster's own controllers do not finish.
    #[error("the cluster does not come to rest within {CLUSTER_REST_MAX:?}: {}. Does it have a controller manager?", left.join(", "))]
    ClusterRestless {
        /// What is left to do.
        left: Vec<String>,
    },
    /// The cluster does not tell what there is.
    #[error("cannot read from the cluster")]
    Unread(#[source] Box<WireError>),
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

/// An API server with a host on it.
pub struct World {
    server: Server,
    /// The kinds that a scenario may name.
    pub kinds: Arc<Kinds>,
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
    /// Hosts so far, this one included.
    hosts: u32,
    _stages: Option<standins::Running>,
}

impl World {
    /// Puts everything in place in a sandbox and lets the host come to rest. Call it on a current-thread runtime with time
    /// paused.
    pub async fn start(start: Start<'_>) -> Result<Self, WorldError> {
        Self::start_on(start, None).await
    }

    /// As [`World::start`], on a cluster where one is given: on the runtime of its stillness then.
    pub(crate) async fn start_on(start: Start<'_>, stage: Option<Stage>) -> Result<Self, WorldError> {
        let clock = VirtualClock::starting_at(start.clock);
        let server_clock = wall(start.clock);
        let crds = &start.guest.manifest().crds;
        let (server, kinds) = match stage {
            Some(stage) => {
                let Beginning { wanted, unwanted, kinds } = Beginning::new(crds, start.installed)?;
                let server = Server::Cluster(stage);
                server.define(&wanted, &unwanted).await?;
                if has_quotas(start.guest.manifest(), start.given) {
                    server.count().await?;
                }
                (server, kinds)
            }
            None => {
                let time = (start.clock, Arc::clone(&server_clock));
                let (sandbox, kinds) = beginning::sandbox(crds, start.installed, time, start.seed)?;
                (Server::Embedded(sandbox), kinds)
            }
        };
        let mut twins = BTreeMap::new();
        for (name, config) in start.providers {
            let twin = twins::make(name, config, start.seed)
                .map_err(|cause| WorldError::Twin { name: name.clone(), cause })?;
            twins.insert(name.clone(), twin);
        }
        let mut world = Self {
            twins,
            user: kube::Client::new(server.way(USER), "default"),
            kinds,
            guest: Dressed::new(start.guest, start.controllers),
            settings: start.settings,
            ambushes: Ambushes::default(),
            passes: Vec::new(),
            host: None,
            seen: 0,
            hosts: 0,
            clock,
            seed: start.seed,
            _stages: None,
            server,
        };
        world.server.put(start.given, &world.kinds).await?;
        if start.stages {
            static STAGES: OnceLock<Stages> = OnceLock::new();
            let stages = STAGES.get_or_init(Stages::builtin).clone();
            world._stages = Some(standins::start(world.server.way(STAND_INS), stages, server_clock));
        }
        world.run_host().await?;
        Ok(world)
    }

    /// Starts a host that remembers nothing.
    async fn run_host(&mut self) -> Result<(), WorldError> {
        let service = Ambushed::new(self.server.way(HOST + self.hosts), self.ambushes.clone());
        self.hosts += 1;
        let providers = self
            .twins
            .iter()
            .fold(Providers::default(), |all, (name, twin)| all.with(name, twin.as_provider()));
        let usual = HostOptions::new(kube::Client::new(service, "default"));
        let host = Host::start(HostOptions {
            providers,
            clock: Arc::new(self.clock),
            seed: self.seed,
            journal: JournalOptions { bytes_max: usize::MAX, file: None },
            // Where answers take time passes would overtake each other, and their writes would come in another order.
            workers: if self.in_order() { usual.workers } else { 1 },
            ..usual
        })
        .map_err(|error| WorldError::Host(error.to_string()))?;
        host.load(self.guest.current(), self.settings.clone())
            .await
            .map_err(|held| WorldError::Host(held.to_string()))?;
        self.host = Some(host);
        self.seen = 0;
        self.settle().await
    }

    /// Whether all that happens has one order. On a cluster only what happens to one key has.
    pub(super) fn in_order(&self) -> bool {
        matches!(self.server, Server::Embedded(_))
    }

    /// Lets everything run that can run now; time stands still.
    pub async fn settle(&mut self) -> Result<(), WorldError> {
        let settled = match &self.server {
            Server::Embedded(sandbox) => settle_embedded(sandbox, self.host.as_ref()).await,
            Server::Cluster(stage) => settle_on_cluster(stage, self.host.as_ref()).await,
        };
        let before = self.passes.len();
        self.take_passes();
        settled.map_err(|error| match error {
            WorldError::Restless { .. } => WorldError::Restless { passes: self.passes.len() - before },
            other => other,
        })
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
        let Server::Cluster(stage) = &self.server else {
            tokio::time::sleep(by).await;
            return self.settle().await;
        };
        // What a timer sets off must be over before the next, however long the cluster takes for it.
        let (stage, end) = (stage.clone(), Instant::now() + by);
        while Instant::now() < end {
            stage.stillness.leap(end).await;
            self.settle().await?;
        }
        Ok(())
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
        self.server.cut(kind, &self.kinds);
        // A client that lost its watch waits a moment before it comes back.
        self.advance(Duration::from_secs(2)).await
    }

    /// Makes the next requests fail that match.
    pub fn fail(&self, fault: Fault) {
        self.server.fail(fault, &self.kinds);
    }

    /// The marks of what a scenario laid and nothing came to, in the order of their marks: requests that were to fail, or to be
    /// preceded by others.
    pub fn idle(&self) -> Vec<usize> {
        let before = self.in_order().then(|| self.ambushes.idle()).into_iter().flatten();
        let mut marks: Vec<usize> = self.server.idle_faults().into_iter().chain(before).collect();
        marks.sort_unstable();
        marks
    }

    /// Whether a kind or a plural is called so that may be served now.
    pub(super) fn may_serve(&self, kind: &str) -> bool {
        self.server.may_serve(kind)
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
    pub async fn install(&mut self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            self.server.define(stand_in(name)?, &[]).await?;
        }
        self.settle().await
    }

    /// Serves the kinds of these stand-ins no more; their objects go with them.
    pub async fn uninstall(&mut self, names: &[String]) -> Result<(), WorldError> {
        for name in names {
            for definition in stand_in(name)? {
                let Server::Cluster(_) = &self.server else {
                    let name =
                        definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    let request = UserRequest {
                        method: "DELETE",
                        target: format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"),
                        content_type: "application/json",
                        body: Vec::new(),
                    };
                    self.request(&request).await?;
                    continue;
                };
                self.server.define(&[], std::slice::from_ref(definition)).await?;
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

    /// The time now, as the host sees it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Every object; on a cluster those of the kinds that anything was done to.
    pub(super) async fn dump(&self) -> Result<Vec<Value>, WorldError> {
        self.server.dump().await
    }

    /// All objects of a kind, in the order of their namespaces and names; those of one namespace where it is named.
    pub async fn objects(&self, kind: &KindInfo, namespace: Option<&str>) -> Result<Vec<Value>, WorldError> {
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut objects = self.server.objects(kind).await?;
        objects.retain(|object| {
            namespace.is_none_or(|namespace| text(object, "/metadata/namespace") == namespace)
        });
        objects.sort_by_cached_key(|object| {
            ["/metadata/namespace", "/metadata/name"].map(|pointer| text(object, pointer))
        });
        Ok(objects)
    }

    /// The state of an object.
    pub async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, WorldError> {
        self.server.object(kind, namespace, name).await
    }
}

/// Whether there may be quotas: it takes a cluster half a minute to count a new kind.
fn has_quotas(manifest: &Manifest, given: &[Value]) -> bool {
    manifest.permissions.iter().any(|permission| &*permission.gvk.kind == QUOTA)
        || given.iter().any(|object| object["kind"] == QUOTA)
}

/// A server's clock, which goes as tokio's does.
fn wall(base: Timestamp) -> evenkeel_sandbox::Clock {
    let began = Instant::now();
    Arc::new(move || {
        let passed = jiff::SignedDuration::try_from(began.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
        base.saturating_add(passed).unwrap_or(base)
    })
}

async fn settle_embedded(sandbox: &Sandbox, host: Option<&Host>) -> Result<(), WorldError> {
    let (mut quiet, mut revision) = (0, sandbox.revision());
    for _ in 0..LOOKS_MAX {
        // Yielding keeps the runtime busy, so that the paused clock does not jump to the next timer.
        tokio::task::yield_now().await;
        let now = sandbox.revision();
        let idle = host.is_none_or(Host::idle);
        quiet = if idle && now == revision { quiet + 1 } else { 0 };
        revision = now;
        if quiet >= QUIET_LOOKS {
            return Ok(());
        }
    }
    Err(WorldError::Restless { passes: 0 })
}

/// Runs what can run, then waits for the cluster: until every watch has told of every write, and its own controllers have
/// nothing left to do.
async fn settle_on_cluster(stage: &Stage, host: Option<&Host>) -> Result<(), WorldError> {
    let (edge, passes) = (&stage.edge, || host.map_or(0, |host| host.journal().records().len()));
    let (mut waited, before) = (Duration::ZERO, passes());
    let mut left = Vec::new();
    while waited < CLUSTER_REST_MAX {
        let activity = run_until_idle(stage, host).await;
        if !edge.dirty() {
            return Ok(());
        }
        if passes() - before > PASSES_MAX {
            return Err(WorldError::Restless { passes: 0 });
        }
        let pause = match edge.look().await.map_err(|error| WorldError::Unread(Box::new(error)))? {
            Look::AtRest if edge.rested(activity) => return Ok(()),
            Look::AtRest => continue,
            Look::Behind => CLUSTER_PAUSES.0,
            Look::Owed(owed) => {
                left = owed;
                CLUSTER_PAUSES.1
            }
        };
        edge.pause(pause).await;
        waited += pause;
    }
    Err(WorldError::ClusterRestless { left })
}

/// Gives everybody turns until nobody uses one and no answer is waited for; the activity up to then.
async fn run_until_idle(stage: &Stage, host: Option<&Host>) -> u64 {
    let edge = &stage.edge;
    let (mut quiet, mut activity) = (0, edge.activity());
    while quiet < QUIET_LOOKS {
        if edge.busy() {
            // Time is held: waiting costs none of it.
            edge.changed().await;
        }
        tokio::task::yield_now().await;
        let now = edge.activity();
        let idle = host.is_none_or(Host::idle) && !edge.busy();
        quiet = if idle && now == activity { quiet + 1 } else { 0 };
        activity = now;
    }
    activity
}
