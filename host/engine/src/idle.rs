//! Controllers that have nothing to look after, whatever there is in the cluster.
//!
//! A grant of some namespaces leaves a controller without objects whose own kind lies in no namespace. That may be meant, so
//! the plugin is not held; but nothing would show it, so it is told.

use evenkeel_cluster::Served;
use evenkeel_core::names::Glob;

use crate::keys::ControllerId;
use crate::plugin::{ControllerPlan, Loaded};
use crate::shared::Shared;

impl Shared {
    /// Notes which of these controllers have nothing to look after, and warns of each once.
    pub(crate) fn note_idle(&self, controllers: &[ControllerId]) {
        for id in controllers {
            let found = self.state().plan(*id).and_then(|(loaded, plan)| {
                Some((plan.spec.primary.clone(), loaded.name().to_owned(), reason(loaded, plan)?))
            });
            let Some((primary, plugin, reason)) = found else { continue };
            // The cluster's own locks are not taken under that of the state.
            let is_idle = matches!(self.cluster.known(&primary), Some(Served::Yes { namespaced: false, .. }));
            let mut state = self.state();
            let Some(slot) = state.plugins.get_mut(&plugin) else { continue };
            if !is_idle {
                slot.idle.remove(id);
            } else if slot.idle.insert(*id, reason.clone()).is_none() {
                tracing::warn!(plugin, reason, "a controller has nothing to look after");
            }
        }
    }
}

/// What to say of a controller if its kind lies in no namespace; nothing where its grant is of the whole cluster.
fn reason(loaded: &Loaded, plan: &ControllerPlan) -> Option<String> {
    let namespaces: Vec<_> = loaded.grant.namespaces()?.iter().map(Glob::as_str).collect();
    Some(format!(
        "controller {} looks after nothing: {} lies in no namespace, and the grant is of some namespaces only; a grant \
         without the line `namespaces: [{}]` is missing",
        plan.spec.name,
        plan.spec.primary,
        namespaces.join(", ")
    ))
}
