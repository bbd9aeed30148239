//! The host as its users hold it: started, given plugins, asked how it fares, shut down.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, ClusterOptions, Fence, RequestObserver};
use evenkeel_core::contract::ObjectRef;
use evenkeel_core::guest::Guest;
use evenkeel_core::limits::Limits;
use evenkeel_core::record::{PassRecord, Trigger};
use tokio::sync::{Mutex, broadcast};
use tokio::task::{AbortHandle, JoinSet};

use crate::answers::{primary_depth, primary_scopes};
use crate::clock::{Clock, SystemClock};
use crate::crds;
use crate::faults::Faults;
use crate::journal::{Journal, JournalError, JournalOptions};
use crate::observe::Observer;
use crate::plugin::{Held, LoadOutcome, Loaded, PluginSettings};
use crate::provider::Providers;
use crate::shared::{Attached, Enqueued, Shared};
use crate::status::{HostStatus, Refusal};

/// What a host is made of.
#[derive(Clone)]
pub struct HostOptions {
    /// The way to the API server.
    pub client: kube::Client,
    /// Where plugins and the journal get the time from.
    pub clock: Arc<dyn Clock>,
    /// Of all chance in the host.
    pub seed: u64,
    /// Passes that run at once, at most.
    pub workers: usize,
    /// What is kept of the past.
    pub journal: JournalOptions,
    /// The ways to systems outside Kubernetes.
    pub providers: Providers,
    /// What goes wrong on purpose; none in production.
    pub faults: Option<Arc<dyn Faults>>,
    /// Whether the kinds that plugins bring along are installed.
    pub install_crds: bool,
    /// What a pass may ask at most.
    pub limits: Limits,
    /// Told of every look at an object that ended.
    pub observer: Option<Arc<dyn Observer>>,
    /// Told of every request to the API server.
    pub on_request: Option<RequestObserver>,
    /// Whether watches begin with what there is, where the API server offers it, and not with lists.
    pub streaming_lists: bool,
    /// Whether a start's kinds are asked of the documents of all groups, where the API server has them, and not group by
    /// group.
    pub aggregated_discovery: bool,
    /// Lets writes through where several hosts share one task; such a host begins by standing by, until
    /// [`Host::lead`].
    pub fence: Option<Arc<Fence>>,
    /// What writes are sent by, where that is not `client`: one of the fence's own, so that nothing that was handed to a
    /// connection is sent when it is shut.
    pub writer: Option<kube::Client>,
    /// Which of several hosts this is, as in a Pod's name: shown on Events. "" where there is only one.
    pub instance: String,
}

impl HostOptions {
    /// The usual host on an API server.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            clock: Arc::new(SystemClock),
            seed: 0,
            workers: 8,
            journal: JournalOptions::default(),
            providers: Providers::default(),
            faults: None,
            install_crds: false,
            limits: Limits::default(),
            observer: None,
            on_request: None,
            streaming_lists: false,
            aggregated_discovery: false,
            fence: None,
            writer: None,
            instance: String::new(),
        }
    }
}

/// A running host. Clones are the same one; it stops when the last is dropped, or by [`Host::shutdown`].
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    /// Dropped with the last clone, and its tasks with it.
    tasks: Arc<Mutex<JoinSet<()>>>,
    /// The same tasks by name, to see whether they run.
    running: Arc<[(&'static str, AbortHandle)]>,
    /// One load at a time: each compares itself with what runs.
    loading: Arc<Mutex<()>>,
}

impl Host {
    /// Starts it; it has nothing to do before a plugin is loaded. Call it inside a tokio runtime.
    pub fn start(options: HostOptions) -> Result<Self, JournalError> {
        let HostOptions {
            client,
            clock,
            seed,
            workers,
            journal,
            providers,
            faults,
            install_crds,
            limits,
            observer,
            on_request,
            streaming_lists,
            aggregated_discovery,
            fence,
            writer,
            instance,
        } = options;
        let journal = Journal::open(&journal)?;
        let wall = Arc::clone(&clock);
        let cluster = Cluster::new(
            client,
            ClusterOptions {
                seed,
                on_request,
                streaming_lists,
                aggregated_discovery,
                fence: fence.clone(),
                writer,
                reporter_instance: instance,
                ..ClusterOptions::new(Arc::new(move || wall.now()))
            },
        );
        let events = cluster.events();
        let standby = fence.is_some();
        let attached = Attached { observer, fence };
        let shared = Arc::new(Shared::new(
            cluster,
            clock,
            providers,
            faults,
            journal,
            seed,
            limits,
            install_crds,
            attached,
        ));
        {
            let mut state = shared.state();
            state.workers = workers.max(1);
            state.standby = standby;
        }
        let (mut tasks, mut running) = (JoinSet::new(), Vec::new());
        if let Some(events) = events {
            running.push(("event loop", tasks.spawn(Arc::clone(&shared).take_events(events))));
        }
        running.push(("provider loop", tasks.spawn(Arc::clone(&shared).take_told())));
        for _ in 0..workers.max(1) {
            running.push(("worker", tasks.spawn(Arc::clone(&shared).work())));
        }
        Ok(Self {
            shared,
            tasks: Arc::new(Mutex::new(tasks)),
            running: running.into(),
            loading: Arc::default(),
        })
    }

    /// Loads a plugin, or puts it in the place of the version that runs under its name.
    ///
    /// Passes under way finish on the old version; every object is considered once by the new one. A version that is
    /// held changes nothing.
    pub async fn load(&self, guest: Arc<dyn Guest>, settings: PluginSettings) -> Result<LoadOutcome, Held> {
        let _one_at_a_time = self.loading.lock().await;
        let name = guest.manifest().name.clone();
        let refusal = |held: &Held| Refusal {
            digest: guest.digest().to_owned(),
            version: guest.manifest().version.clone(),
            reason: held.to_string(),
        };
        match self.accept(Arc::clone(&guest), settings).await {
            Ok(None) => Ok(LoadOutcome::Unchanged),
            Ok(Some(loaded)) => Ok(self.install(loaded)),
            Err(held) => {
                self.refuse(&name, refusal(&held));
                Err(held)
            }
        }
    }

    /// What is to be installed; none where it runs already.
    async fn accept(&self, guest: Arc<dyn Guest>, settings: PluginSettings) -> Result<Option<Loaded>, Held> {
        let loaded = Loaded::accept(guest, settings)?;
        let running = {
            let state = self.shared.state();
            if state.stopping {
                return Err(Held::ShuttingDown);
            }
            if let Some(slot) = state.plugins.get(loaded.name()) {
                if slot.held.is_none() && slot.loaded.is_same_as(&loaded) {
                    return Ok(None);
                }
                let missing = loaded.newly_missing(&slot.loaded);
                if !missing.is_empty() {
                    return Err(Held::Permissions { missing });
                }
            }
            let slot = state.plugins.get(loaded.name()).filter(|slot| slot.held.is_none());
            slot.map(|slot| Arc::clone(&slot.loaded))
        };
        // One that stands by leaves that to the one that leads, until it leads itself.
        if self.shared.install_crds && self.leads() {
            crds::install(&self.shared, &loaded, running.as_deref()).await?;
        }
        self.shared.check_account(&loaded).await?;
        Ok(Some(loaded))
    }

    fn install(&self, loaded: Loaded) -> LoadOutcome {
        let loaded = Arc::new(loaded);
        let name = loaded.name().to_owned();
        let (before, controllers) = {
            let mut state = self.shared.state();
            let before = state.install(Arc::clone(&loaded));
            state.consider_known(&name);
            let controllers =
                state.plugins.get(&name).map(|slot| slot.controllers.clone()).unwrap_or_default();
            (before, controllers)
        };
        for (plan, id) in loaded.controllers.iter().zip(&controllers) {
            for scope in primary_scopes(&loaded.grant) {
                self.shared.cluster.want(&plan.spec.primary, scope, primary_depth(&plan.spec));
            }
            // The caches may have them already, for another plugin.
            self.shared.consider_all(*id, &Trigger::Loaded, |_| true);
        }
        self.shared.note_idle(&controllers);
        self.shared.wake();
        let outcome = match before {
            Some(before) => {
                self.shared.keep_needed_watches();
                LoadOutcome::Swapped { from: before.guest.digest().to_owned() }
            }
            None => LoadOutcome::Loaded,
        };
        self.shared.warm_all();
        outcome
    }

    /// Takes a plugin out; passes under way finish, and watches that nobody else needs end. Tells whether there was one
    /// of that name.
    pub fn unload(&self, plugin: &str) -> bool {
        let was_there = self.shared.state().uninstall(plugin);
        if was_there {
            self.shared.keep_needed_watches();
            self.shared.warm_all();
        }
        was_there
    }

    /// Shows on a plugin's status that a version of it was refused while this one goes on.
    pub fn refuse(&self, plugin: &str, refusal: Refusal) {
        if let Some(slot) = self.shared.state().plugins.get_mut(plugin) {
            slot.refused = Some(refusal);
        }
    }

    /// Has every object of every controller considered once, after all that is more urgent.
    pub fn resync(&self) {
        let controllers: Vec<_> = {
            let state = self.shared.state();
            state.plugins.values().flat_map(|slot| slot.controllers.iter().copied()).collect()
        };
        for controller in controllers {
            self.shared.consider_all(controller, &Trigger::Resync, |_| true);
        }
        self.shared.wake();
    }

    /// Has one object considered. Tells whether it is in line: there is such a plugin with such a controller, and not too many
    /// names wait of which nobody has seen an object.
    pub fn enqueue(&self, plugin: &str, controller: &str, object: &ObjectRef) -> bool {
        let trigger = Trigger::Enqueued { by: object.clone() };
        self.shared.enqueue(plugin, controller, object, trigger) == Enqueued::InLine
    }

    /// The ways to systems outside Kubernetes that it was started with.
    pub fn providers(&self) -> &Providers {
        &self.shared().providers
    }

    /// Whether no pass runs or could run now, and nothing that the host was told of is still to be looked at.
    pub fn idle(&self) -> bool {
        self.shared.idle()
    }

    /// Tasks of the host that ended though it was not shut down: only a restart brings them back.
    pub fn dead_tasks(&self) -> Vec<&'static str> {
        if self.shared.state().stopping {
            return Vec::new();
        }
        self.running.iter().filter(|(_, task)| task.is_finished()).map(|(name, _)| *name).collect()
    }

    /// How it fares.
    pub fn status(&self) -> HostStatus {
        self.shared.status()
    }

    /// What it did.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Every pass from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<PassRecord>> {
        self.shared.journal.subscribe()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs a task for no longer than the host.
    pub(crate) async fn see_to(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().await.spawn(task);
    }

    /// The caches and the way to the API server.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// Begins no pass any more, lets those under way finish within the grace time, and stops. Tells whether all did.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.shared.state().stopping = true;
        let finished = tokio::time::timeout(grace, self.shared.at_rest()).await.is_ok();
        self.tasks.lock().await.shutdown().await;
        self.shared.journal.flush();
        finished
    }
}
