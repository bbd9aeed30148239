//! A vCenter in this process: the far end of the provider's twin.
//!
//! It answers the methods that the host calls as a vCenter does, is held to vcsim by a differential test, runs on
//! tokio's clock, and depends on nothing but its configuration, its seed and what it is told.

mod collector;
mod config;
mod control;
mod due;
mod expect;
mod faults;
mod inventory;
mod methods;
mod state;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Vsphere;
use super::credentials::Login;
use super::data::Data;
use super::limits::CallLimits;
use super::vcenter::{Call, CallError, CallFuture, Vcenter};
use crate::provider::Provider;
use crate::twins::{self, Twin, TwinError};

pub use self::config::{
    DatastoreConfig, InventoryConfig, NicConfig, OperationName, ServerConfig, TaskConfig, TaskSeconds,
    TwinConfig, VmConfig,
};
use self::control::Order;
use self::expect::Wanted;
use self::faults::Effect;
use self::state::State;

/// The vCenter that a twin has where none is configured.
pub const DEFAULT_SERVER: &str = "vc.example.test";

/// A simulated vCenter.
pub struct Simulated {
    shared: Arc<Shared>,
    /// Ended with it.
    _tasks: JoinSet<()>,
}

struct Shared {
    state: Mutex<State>,
    /// The version of the state that was told of last.
    told: AtomicU64,
    /// There is a later one. Those who wait are woken in the order in which they came.
    later: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at or changes the state as it is now, and has whoever waits look.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.advance(Instant::now());
        let result = change(&mut state);
        let version = state.version;
        drop(state);
        if self.told.swap(version, Ordering::SeqCst) != version {
            self.later.notify_waiters();
        }
        result
    }

    /// Has happen what is due, for ever.
    async fn run(self: Arc<Self>) {
        loop {
            let later = self.later.notified();
            let due = self.lock().next_due();
            tokio::select! {
                biased; // The same order in each run.
                () = until(due) => self.with(|_| ()),
                () = later => {}
            }
        }
    }

    async fn wait(&self, call: &Call) -> Result<Data, CallError> {
        let seconds = call.parameters.get("options").and_then(|options| options.get("maxWaitSeconds"));
        let seconds = seconds.and_then(Data::int).and_then(|seconds| u64::try_from(seconds).ok());
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        loop {
            let later = self.later.notified();
            let updates = self.with(|state| {
                // Without a session, or with waiting switched off, it ends as any other call does.
                if !state.logged_in || !state.watches_work {
                    return state.answer(call).map(Some);
                }
                state.updates(&call.target)
            })?;
            if let Some(updates) = updates {
                return Ok(updates);
            }
            if seconds == Some(0) {
                return Ok(methods::nothing());
            }
            tokio::select! {
                biased; // The same order in each run, and what happened before that nothing did.
                () = later => {}
                () = self::until(until) => return Ok(methods::nothing()),
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Simulated {
    /// Starts it; call it inside a tokio runtime.
    pub fn start(config: &ServerConfig, seed: u64) -> Self {
        let state = Mutex::new(State::new(config, seed));
        let shared = Arc::new(Shared { state, told: AtomicU64::default(), later: Notify::new() });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&shared).run());
        Self { shared, _tasks: tasks }
    }

    /// Has something happen, as [`Twin::control`].
    ///
    /// # Errors
    /// If the command is not understood, or names something that is not there.
    pub fn control(&self, command: &Value) -> Result<(), TwinError> {
        let order = Order::parse(command)?;
        self.shared.with(|state| state.obey(order.command))
    }
}

impl Vcenter for Simulated {
    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(async move {
            let fault = self.shared.with(|state| state.faults.of_call(call));
            if let Some(fault) = fault {
                if fault.effect == Effect::Written {
                    // What it answers is what gets lost.
                    let _ = self.shared.with(|state| state.answer(call));
                }
                return Err(fault.error());
            }
            match call.method {
                "WaitForUpdatesEx" => self.shared.wait(call).await,
                _ => Ok(self.shared.with(|state| state.answer(call))?),
            }
        })
    }

    /// Nothing is due, and everything that happened was told to whoever waits.
    fn idle(&self) -> bool {
        let state = self.shared.lock();
        state.next_due().is_none_or(|due| due > Instant::now()) && state.all_told()
    }
}

/// The provider on simulated vCenters.
pub struct VsphereTwin {
    provider: Arc<Vsphere>,
    servers: BTreeMap<String, Arc<Simulated>>,
}

impl VsphereTwin {
    /// From its configuration (see [`TwinConfig`]); call it inside a tokio runtime.
    ///
    /// # Errors
    /// If the configuration is not understood.
    pub fn new(config: &Value, seed: u64) -> Result<Self, TwinError> {
        let config: TwinConfig = twins::read_or_default("the simulated vsphere", config)?;
        let servers = config.servers.unwrap_or_else(|| {
            let config = ServerConfig { ip_seconds: Some(10), ..ServerConfig::default() };
            BTreeMap::from([(DEFAULT_SERVER.to_owned(), config)])
        });
        let servers = servers.into_iter().zip(0_u64..);
        let started = servers.map(|((name, config), number)| {
            let server = Simulated::start(&config, seed.wrapping_add(number));
            (name, Arc::new(server))
        });
        Ok(Self::on(started.collect()))
    }

    /// A provider that remembers nothing, on vCenters that do.
    fn on(servers: BTreeMap<String, Arc<Simulated>>) -> Self {
        let login = Arc::new(Login { user: "simulated".to_owned(), password: "simulated".to_owned() });
        let mut provider = Vsphere::new();
        for (name, server) in &servers {
            let far_end = Arc::<Simulated>::clone(server);
            provider = provider.with(name, far_end, Arc::<Login>::clone(&login), CallLimits::unpaced());
        }
        Self { provider: Arc::new(provider), servers }
    }

    /// The provider itself.
    pub fn provider(&self) -> &Vsphere {
        &self.provider
    }

    fn server(&self, name: Option<&str>) -> Result<&Simulated, TwinError> {
        let found = match name {
            Some(name) => self.servers.get(name),
            None if self.servers.len() == 1 => self.servers.values().next(),
            None => return Err(TwinError::Missing("`server`, and there are several".to_owned())),
        };
        found.map(|server| &**server).ok_or_else(|| TwinError::Missing(format!("server {name:?}")))
    }
}

impl Twin for VsphereTwin {
    fn as_provider(&self) -> Arc<dyn Provider> {
        Arc::<Vsphere>::clone(&self.provider)
    }

    fn control(&self, command: &Value) -> Result<(), TwinError> {
        let order = Order::parse(command)?;
        let server = self.server(order.server.as_deref())?;
        server.shared.with(|state| state.obey(order.command))
    }

    fn expect(&self, wanted: &Value) -> Result<(), Vec<String>> {
        let wanted: Wanted = serde_json::from_value(wanted.clone())
            .map_err(|cause| vec![format!("what is expected of vsphere is not understood: {cause}")])?;
        let server = self.server(wanted.server.as_deref()).map_err(|error| vec![error.to_string()])?;
        let differences = server.shared.with(|state| state.differences(wanted));
        if differences.is_empty() { Ok(()) } else { Err(differences) }
    }

    fn after_restart(&self) -> Option<Arc<dyn Twin>> {
        for server in self.servers.values() {
            // The host's session ends with its connections.
            server.shared.with(|state| {
                state.collectors.clear();
                state.views.clear();
            });
        }
        Some(Arc::new(Self::on(self.servers.clone())))
    }

    fn invariants(&self) -> Vec<String> {
        self.servers.values().flat_map(|server| server.shared.lock().broken_invariants()).collect()
    }
}
