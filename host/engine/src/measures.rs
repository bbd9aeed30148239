//! Numbers that are computed when somebody asks, and kept by nobody: the sizes of queue and caches, what is at work.

use std::time::Duration;

use crate::host::Host;
use crate::state::State;

/// What the host is busy with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Passes that may run at once.
    pub workers: usize,
    /// This host acts; if not, it only keeps its caches warm.
    pub leads: bool,
    /// By plugin, then in the order of its manifest.
    pub controllers: Vec<ControllerMeasures>,
}

/// What one controller is busy with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerMeasures {
    /// The plugin.
    pub plugin: String,
    /// The controller.
    pub controller: String,
    /// Keys in line.
    pub depth: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// How often a key was put in line.
    pub adds: u64,
    /// Keys at work.
    pub active: usize,
    /// How long they have been, taken together.
    pub unfinished: Duration,
    /// How long the one has been that was taken first.
    pub longest: Duration,
}

impl Host {
    /// What it is busy with now.
    pub fn measures(&self) -> Measures {
        let now = self.shared().now();
        let state = self.shared().state();
        Measures {
            workers: state.workers,
            leads: !state.standby,
            controllers: state.controller_measures(now),
        }
    }
}

impl State {
    fn controller_measures(&self, now: Duration) -> Vec<ControllerMeasures> {
        let lanes = self.queue.lanes();
        let mut measures = Vec::with_capacity(self.controllers.len());
        for slot in self.plugins.values() {
            for id in &slot.controllers {
                let Some(controller) = self.controllers.get(id) else { continue };
                let lane = lanes.get(&id.lane()).copied().unwrap_or_default();
                let since: Vec<_> = self
                    .at_work
                    .iter()
                    .filter(|(key, _)| key.controller == *id)
                    .map(|(_, since)| now.saturating_sub(*since))
                    .collect();
                measures.push(ControllerMeasures {
                    plugin: controller.plugin.to_string(),
                    controller: controller.name.to_string(),
                    depth: lane.ready,
                    delayed: lane.delayed,
                    adds: lane.adds,
                    active: since.len(),
                    unfinished: since.iter().sum(),
                    longest: since.iter().max().copied().unwrap_or_default(),
                });
            }
        }
        measures
    }
}
