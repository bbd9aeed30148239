//! A device that exists in memory, with faults: disk, registry, deployments, service and hooks, on tokio's clock.
//!
//! It answers and acts as a machine does, keeps what a machine keeps over a power cut, and looks at each operation whether it
//! may be done at that time at all: see [`State::broken`](self::state::State).

mod answers;
mod config;
mod control;
mod deployments;
mod disk;
mod due;
mod expect;
mod long;
mod power;
mod short;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, Operation};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::config::Config;
use self::state::State;
use crate::changes::Changes;
use crate::provider::{Caller, Provider, ProviderFuture};
use crate::twins::{self, Twin, TwinError};

/// The provider `device` on a simulated machine.
pub struct DeviceTwin {
    provider: Arc<Simulated>,
    /// Ended with it.
    _tasks: JoinSet<()>,
}

/// The provider: what it remembers of its host goes with it, the machine stays.
struct Simulated {
    machine: Arc<Machine>,
    changes: Changes,
    /// Questions that somebody waits for, with the answers that they were given.
    waited_for: Mutex<BTreeMap<ExternalQuery, String>>,
}

struct Machine {
    state: Mutex<State>,
    /// Something may be due at another time now.
    changed: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceTwin {
    /// As it is configured; call it inside a tokio runtime.
    ///
    /// # Errors
    /// If the configuration is not understood.
    pub fn new(config: &Value) -> Result<Self, TwinError> {
        let config: Config = twins::read_or_default("device", config)?;
        let state = State::new(config, Instant::now())?;
        Ok(Self::on(Arc::new(Machine { state: Mutex::new(state), changed: Notify::new() })))
    }

    fn on(machine: Arc<Machine>) -> Self {
        let provider =
            Arc::new(Simulated { machine, changes: Changes::default(), waited_for: Mutex::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&provider).run());
        Self { provider, _tasks: tasks }
    }
}

impl Simulated {
    /// Looks at or changes the machine as it is now, and tells what is answered otherwise since.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.machine.state);
        state.advance(Instant::now());
        let result = change(&mut state);
        for (query, told) in lock(&self.waited_for).iter_mut() {
            // A window opens and closes by the clock alone: whoever waits for it looks again by himself.
            if query.question == "window" {
                continue;
            }
            let now = state.answer(&query.question, &query.arguments).map(|answer| answer.to_string());
            if let Ok(now) = now
                && now != *told
            {
                *told = now;
                self.changes.tell(query.clone());
            }
        }
        drop(state);
        self.machine.changed.notify_one();
        result
    }

    /// Has happen what is due, for ever.
    async fn run(self: Arc<Self>) {
        loop {
            let due = lock(&self.machine.state).next_due();
            tokio::select! {
                biased; // The same order in each run.
                () = until(due) => self.with(|_| ()),
                () = self.machine.changed.notified() => {}
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

impl Provider for Simulated {
    fn answer<'a>(&'a self, _caller: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(async move {
            let answer = {
                let mut state = lock(&self.machine.state);
                state.advance(Instant::now());
                state.answer(&query.question, &query.arguments).map_err(not_understood)?.to_string()
            };
            lock(&self.waited_for).insert(query.clone(), answer.clone());
            Ok(answer.into())
        })
    }

    fn perform<'a>(
        &'a self,
        _caller: &'a Caller,
        operation: &'a Operation,
    ) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(async move {
            let Operation { key, operation, arguments, provider: _ } = operation;
            let outcome = self.with(|state| state.perform(key, operation, arguments))?;
            let text = serde_json::to_string(&outcome).map_err(|error| not_understood(error.to_string()))?;
            Ok(Some(text.into()))
        })
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }

    fn forget(&self, query: &ExternalQuery) {
        lock(&self.waited_for).remove(query);
    }

    /// Nothing is due; what happened was told when it did.
    fn idle(&self) -> bool {
        lock(&self.machine.state).next_due().is_none_or(|due| due > Instant::now())
    }
}

fn not_understood(message: String) -> Failure {
    Failure::new(FailureKind::Invalid, message)
}

impl Twin for DeviceTwin {
    fn as_provider(&self) -> Arc<dyn Provider> {
        Arc::<Simulated>::clone(&self.provider)
    }

    fn control(&self, command: &Value) -> Result<(), TwinError> {
        self.provider.with(|state| state.obey(command))
    }

    fn expect(&self, wanted: &Value) -> Result<(), Vec<String>> {
        let found = self.provider.with(|state| state.differences(wanted));
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn invariants(&self) -> Vec<String> {
        lock(&self.provider.machine.state).broken_invariants()
    }

    /// What the host had begun and not ended is lost with it; the machine goes on.
    fn after_restart(&self) -> Option<Arc<dyn Twin>> {
        let machine = Arc::clone(&self.provider.machine);
        lock(&machine.state).host_died();
        Some(Arc::new(Self::on(machine)))
    }
}
