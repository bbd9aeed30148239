//! Standing by, and acting: of several hosts with the same plugins one acts, the others are ready to.
//!
//! A host that stands by compiles its plugins, fills its caches and notes in its queue what would have to be looked at;
//! no pass begins. When it is told to lead, all of that is there, and every object is considered once.

use evenkeel_cluster::Depth;
use evenkeel_core::contract::Verb;

use crate::answers::standing_scopes;
use crate::crds;
use crate::host::Host;
use crate::plugin::Loaded;
use crate::shared::Shared;

impl Host {
    /// Begins to act. The kinds that the plugins bring along are installed first, where that is this host's task.
    pub async fn lead(&self) {
        let loaded = self.shared().state().loaded();
        if self.shared().install_crds {
            for plugin in loaded {
                if let Err(held) = crds::install(self.shared(), &plugin, None).await {
                    tracing::error!(plugin = plugin.name(), reason = %held, "plugin held");
                    self.shared().state().hold(plugin.name(), &held.to_string());
                }
            }
        }
        self.shared().state().standby = false;
        self.shared().wake();
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

impl Shared {
    /// Whether another host may act now, so that this one must not.
    pub(crate) fn is_fenced(&self) -> bool {
        self.attached.fence.as_ref().is_some_and(|fence| !fence.is_open())
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
