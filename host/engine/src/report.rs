//! The host's status, put together from its parts.

use std::collections::BTreeMap;

use evenkeel_cluster::WatchHealth;
use evenkeel_core::contract::ObjectRef;

use crate::host::Host;
use crate::keys::{ControllerId, Entry, Wait};
use crate::limits::SLOWED_MAX;
use crate::shared::Shared;
use crate::state::{Slot, State};
use crate::status::{
    ControllerStatus, HostStatus, KeyStatus, PluginState, PluginStatus, QueueStatus, Slowed, Waits,
    WatchStatus,
};

impl Shared {
    /// A snapshot of the host.
    pub(crate) fn status(&self) -> HostStatus {
        let idle = self.idle();
        let health = self.cluster.health();
        let complaints = health.complaints();
        let now = self.now();
        let state = self.state();
        let mut controllers = controllers(&state, now);
        let plugins: Vec<_> =
            state.plugins.iter().map(|(name, slot)| plugin(name, slot, &mut controllers)).collect();
        let sizes = state.queue.sizes();
        let queue = QueueStatus { ready: sizes.ready, delayed: sizes.delayed, running: state.running };
        drop(state);
        let ready = complaints.is_empty() && plugins.iter().all(|plugin| plugin.state == PluginState::Active);
        HostStatus {
            idle,
            ready,
            complaints,
            plugins,
            watches: health.watches.iter().map(watch).collect(),
            queue,
            journal: self.journal.status(),
        }
    }
}

impl Host {
    /// How one object of a controller stands; none where nobody looks after it.
    pub fn key(&self, plugin: &str, controller: &str, object: &ObjectRef) -> Option<KeyStatus> {
        let now = self.shared().now();
        let state = self.shared().state();
        let entry = state.keys.get(state.keys.find(state.controller_named(plugin, controller)?, object)?)?;
        let waits = match &entry.wait {
            Some(Wait::Sync(need)) => Some(Waits::Watch { gvk: need.gvk.clone() }),
            Some(Wait::Input) => Some(Waits::Input),
            Some(Wait::Grant) => Some(Waits::Grant),
            Some(Wait::Paused) => Some(Waits::Paused),
            None => None,
        };
        Some(KeyStatus {
            waits,
            failure: entry.failure.as_deref().cloned(),
            requeue_in: entry.requeue_at.map(|at| at.saturating_sub(now)),
            resync_in: entry.resync_at.map(|at| at.saturating_sub(now)),
            slowed: slowed(entry, now),
        })
    }
}

fn controllers(state: &State, now: std::time::Duration) -> BTreeMap<ControllerId, ControllerStatus> {
    let mut found = BTreeMap::new();
    for (id, slot) in &state.controllers {
        let counts = slot.counts;
        let status = ControllerStatus {
            name: slot.name.to_string(),
            passes: counts.passes,
            calls: counts.calls,
            elided: counts.elided,
            sent: counts.sent,
            skipped: counts.skipped,
            failures: counts.failures,
            faults: counts.faults,
            ..ControllerStatus::default()
        };
        found.insert(*id, status);
    }
    for (key, entry) in state.keys.iter() {
        let Some(status) = found.get_mut(&key.controller) else { continue };
        status.keys += 1;
        status.failing += usize::from(entry.failure.is_some());
        match &entry.wait {
            Some(Wait::Paused) => status.paused += 1,
            Some(Wait::Sync(_)) => status.waiting += 1,
            Some(Wait::Input | Wait::Grant) | None => {}
        }
        status.slowed.extend(slowed(entry, now));
    }
    for status in found.values_mut() {
        status.slowed.sort_by(|a, b| a.object.cmp(&b.object));
        status.slowed.truncate(SLOWED_MAX);
    }
    found
}

fn slowed(entry: &Entry, now: std::time::Duration) -> Option<Slowed> {
    let until = entry.slowed_until.filter(|until| *until > now)?;
    let woken_by = entry.wakers.most().cloned();
    Some(Slowed { object: entry.object.clone(), woken_by, for_another: until - now })
}

fn plugin(
    name: &str,
    slot: &Slot,
    controllers: &mut BTreeMap<ControllerId, ControllerStatus>,
) -> PluginStatus {
    let guest = &slot.loaded.guest;
    PluginStatus {
        name: name.to_owned(),
        version: guest.manifest().version.clone(),
        digest: guest.digest().to_owned(),
        state: match &slot.held {
            Some(reason) => PluginState::Held { reason: reason.clone() },
            None => PluginState::Active,
        },
        refused: slot.refused.clone(),
        controllers: slot.controllers.iter().filter_map(|id| controllers.remove(id)).collect(),
        denied: slot.denied.iter().cloned().collect(),
        idle: slot.idle.values().cloned().collect(),
    }
}

fn watch(health: &WatchHealth) -> WatchStatus {
    WatchStatus {
        gvk: health.gvk.clone(),
        scope: health.scope.to_string(),
        state: format!("{:?}", health.state).to_lowercase(),
        healthy: health.synced && !health.stalled,
        trouble: health.trouble.as_ref().map(|failure| failure.message.clone()),
    }
}
