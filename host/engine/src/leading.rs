//! Standing by, and acting: of several hosts with the same plugins one acts, the others are ready to.
//!
//! A host that stands by compiles its plugins, fills its caches and notes in its queue what would have to be looked at;
//! no pass begins. When it is told to lead, all of that is there, and every object is considered once.

use std::sync::Arc;

use evenkeel_cluster::Depth;
use evenkeel_core::contract::Verb;
use tokio::time::sleep;

use crate::answers::standing_scopes;
use crate::crds;
use crate::host::Host;
use crate::limits::{REFUSED_RETRY_MAX, REFUSED_RETRY_MIN};
use crate::plugin::Loaded;
use crate::shared::Shared;

impl Host {
    /// Begins to act. The kinds that the plugins bring along are installed first, where that is this host's task.
    pub async fn lead(&self) {
        let loaded = self.shared().state().loaded();
        let mut held_back = Vec::new();
        if self.shared().install_crds {
            for plugin in loaded {
                if let Err(held) = crds::install(self.shared(), &plugin, None).await {
                    tracing::error!(plugin = plugin.name(), reason = %held, "plugin held");
                    self.shared().state().hold(plugin.name(), &held.to_string());
                    held_back.push(plugin);
                }
            }
        }
        self.shared().state().standby = false;
        self.shared().wake();
        for plugin in held_back {
            self.see_to(install_later(Arc::clone(self.shared()), plugin)).await;
        }
    }

    /// Begins no pass until it leads again. Passes under way go on to their next write, which the fence refuses.
    pub fn stand_by(&self) {
        self.shared().state().standby = true;
        self.shared().warm_all();
    }

    /// Whether it acts.
    pub fn leads(&self) -> bool {
        !self.shared().state().standby
    }
}

/// Installs what a plugin brings along once that can be done, and lets the plugin go on; ends when another version of it is
/// there, or another host leads.
async fn install_later(shared: Arc<Shared>, plugin: Arc<Loaded>) {
    let mut pause = REFUSED_RETRY_MIN;
    loop {
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(REFUSED_RETRY_MAX);
        if !shared.state().holds_back(&plugin) {
            return;
        }
        match crds::install(&shared, &plugin, None).await {
            Ok(()) => {
                let mut state = shared.state();
                if state.holds_back(&plugin) {
                    state.release_held(plugin.name());
                    tracing::info!(plugin = plugin.name(), "plugin no longer held");
                }
                return shared.release(state);
            }
            Err(held) => shared.state().hold_on(&plugin, &held.to_string()),
        }
    }
}

impl Shared {
    /// Whether another host may act now, so that this one must not.
    pub(crate) fn is_fenced(&self) -> bool {
        self.attached.fence.as_ref().is_some_and(|fence| !fence.is_open())
    }

    /// Goes on with what is done outside Kubernetes for as long as this host may act; none where it had to be given up.
    pub(crate) async fn escort<T>(&self, operation: impl Future<Output = T>) -> Option<T> {
        match &self.attached.fence {
            Some(fence) => fence.escort(operation).await,
            None => Some(operation.await),
        }
    }

    /// Has everything watched that any plugin may list, where this host stands by: no pass will ask for it before it is
    /// needed at once.
    pub(crate) fn warm_all(&self) {
        let loaded = self.state().loaded();
        loaded.iter().for_each(|plugin| self.warm(plugin));
    }

    /// As [`Shared::warm_all`], for one plugin.
    pub(crate) fn warm(&self, plugin: &Loaded) {
        if !self.state().standby {
            return;
        }
        let read = |verb: &Verb| matches!(verb, Verb::Get | Verb::List);
        for permission in &plugin.guest.manifest().permissions {
            if permission.verbs.iter().any(read) {
                for scope in standing_scopes(&plugin.grant, permission) {
                    self.cluster.want(&permission.gvk, scope, Depth::Whole);
                }
            }
        }
    }
}
