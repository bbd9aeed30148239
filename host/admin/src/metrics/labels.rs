//! The label sets. Every value is a plugin, a controller, or a word of a closed set.

use std::hash::Hash;

use prometheus_client::encoding::EncodeLabelSet;

/// What a family may be labelled by.
pub(super) trait Labels:
    Clone + Hash + Eq + std::fmt::Debug + Send + Sync + EncodeLabelSet + 'static
{
}

impl<L: Clone + Hash + Eq + std::fmt::Debug + Send + Sync + EncodeLabelSet + 'static> Labels for L {}

/// The value of the label `controller`: two plugins may call a controller the same.
pub(super) fn controller_label(plugin: &str, controller: &str) -> String {
    format!("{plugin}/{controller}")
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ControllerLabel {
    pub(super) controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabels {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct QueueLabels {
    pub(super) name: String,
    pub(super) controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PluginLabel {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PluginLabels {
    pub(super) plugin: String,
    pub(super) controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CallLabels {
    plugin: String,
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ElidedLabels {
    plugin: String,
    controller: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ActionLabels {
    pub(super) plugin: String,
    pub(super) controller: String,
    pub(super) action: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) code: String,
    pub(super) method: &'static str,
    pub(super) host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestVerbLabels {
    pub(super) verb: &'static str,
    pub(super) host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VerbLabels {
    pub(super) verb: &'static str,
    pub(super) code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ProviderCallLabels {
    pub(super) provider: String,
    pub(super) call: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ProviderResultLabels {
    pub(super) provider: String,
    pub(super) call: &'static str,
    pub(super) result: &'static str,
}

impl ControllerLabel {
    pub(super) fn new(plugin: &str, controller: &str) -> Self {
        Self { controller: controller_label(plugin, controller) }
    }
}

impl ResultLabels {
    pub(super) fn of(one: &ControllerLabel, result: &'static str) -> Self {
        Self { controller: one.controller.clone(), result }
    }
}

impl QueueLabels {
    /// client-go names a queue after its controller.
    pub(super) fn new(plugin: &str, controller: &str) -> Self {
        let name = controller_label(plugin, controller);
        Self { controller: name.clone(), name }
    }
}

impl PluginLabel {
    pub(super) fn new(plugin: &str) -> Self {
        Self { plugin: plugin.to_owned() }
    }
}

impl PluginLabels {
    pub(super) fn new(plugin: &str, controller: &str) -> Self {
        Self { plugin: plugin.to_owned(), controller: controller_label(plugin, controller) }
    }
}

impl CallLabels {
    pub(super) fn of(labels: &PluginLabels, result: &'static str) -> Self {
        let PluginLabels { plugin, controller } = labels.clone();
        Self { plugin, controller, result }
    }
}

impl ElidedLabels {
    pub(super) fn of(labels: &PluginLabels, reason: &'static str) -> Self {
        let PluginLabels { plugin, controller } = labels.clone();
        Self { plugin, controller, reason }
    }
}
