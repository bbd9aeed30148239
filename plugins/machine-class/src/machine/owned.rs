//! The fields of a Machine itself, besides its status, that are this controller's: its link to VM and Node, and notes.

use evenkeel_sdk::{Action, act};
use serde_json::json;

use crate::kinds::{Machine, Named};
use crate::names;

/// The fields, over those that the Machine has. They are applied in every pass that writes any of them, as what is left out
/// would be taken away.
#[must_use = "nothing is written before it is made an action"]
pub(super) struct Owned<'m> {
    machine: &'m Machine,
    provider_id: &'m str,
    node: &'m str,
    attempt: u32,
    token: Option<&'m str>,
}

impl<'m> Owned<'m> {
    /// As they are.
    pub(super) fn of(machine: &'m Machine) -> Self {
        let attempt = machine.annotation(names::INITIALIZE_ATTEMPT).and_then(|text| text.parse().ok());
        Self {
            machine,
            provider_id: &machine.spec.provider_id,
            node: machine.node().unwrap_or_default(),
            attempt: attempt.unwrap_or(0),
            token: machine.annotation(names::BOOTSTRAP_TOKEN),
        }
    }

    /// The VM and its Node.
    pub(super) fn vm(self, provider_id: &'m str, node: &'m str) -> Self {
        Self { provider_id, node, ..self }
    }

    /// The id of the token that the VM joins with.
    pub(super) fn token(self, id: &'m str) -> Self {
        Self { token: Some(id), ..self }
    }

    /// There is no token any more.
    pub(super) fn without_token(self) -> Self {
        Self { token: None, ..self }
    }

    /// How often the VM was to be initialised before.
    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The next time it is another try.
    pub(super) fn next_attempt(self) -> Self {
        Self { attempt: self.attempt.saturating_add(1), ..self }
    }

    /// The write.
    pub(super) fn into_action(self) -> Action {
        let Self { machine, provider_id, node, attempt, token } = self;
        let mut annotations = json!({names::PRIORITY: priority(machine)});
        if attempt > 0 {
            annotations[names::INITIALIZE_ATTEMPT] = attempt.to_string().into();
        }
        if let Some(id) = token {
            annotations[names::BOOTSTRAP_TOKEN] = id.into();
        }
        let mut object = json!({
            "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
            "kind": "Machine",
            "metadata": {
                "namespace": machine.namespace(),
                "name": machine.name(),
                "annotations": annotations,
            },
        });
        if !node.is_empty() {
            object["metadata"]["labels"] = json!({names::NODE_LABEL: node});
        }
        if !provider_id.is_empty() {
            object["spec"] = json!({"providerID": provider_id});
        }
        act::apply(&object).force().into()
    }
}

/// The priority that somebody chose stays.
fn priority(machine: &Machine) -> &str {
    machine.annotation(names::PRIORITY).unwrap_or(names::PRIORITY_DEFAULT)
}
