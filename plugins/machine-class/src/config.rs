//! The operator's settings.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::duration::GoDuration;

/// The operator's settings; what is left out has its default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// When to look again at what waits for others; 5 s.
    pub short_retry: GoDuration,
    /// When to look again at what is settled; 10 m. Every change runs a pass anyway: this is a ceiling.
    pub long_retry: GoDuration,
    /// When a class wakes its machines; `placed`.
    pub enqueue: EnqueueWhen,
    /// Whether MachineSets and MachineDeployments hold the class of their template too; `false`.
    pub guard_templates: bool,
    /// Whether VMs are made of a class that is being deleted, as upstream does; `false`.
    pub create_on_deleting_class: bool,
    /// The namespaces to look for classes in; every namespace where it is left out. Say it where the plugin's grant is for
    /// some namespaces only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Whether machines are looked after here; `true`. `false` leaves them to a machine controller of somebody else, and
    /// classes and Secrets are held for it.
    pub machines: bool,
    /// Whether the Nodes of the machines are in this cluster; `true`. Where they are not, a machine is Available as soon
    /// as it has a VM, and nothing is drained.
    pub nodes: bool,
    /// How often the VMs of a class are looked through for some without a machine, and how long one has to be without
    /// before it is deleted; 15 m. `0` looks for none.
    pub orphans: GoDuration,
    /// Groups that machines belong to while they join with a bootstrap token, besides `system:bootstrappers`; each begins
    /// with `system:bootstrappers:`.
    #[schemars(inner(regex(pattern = r"^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$")))]
    pub bootstrap_groups: Vec<String>,
}

/// When a class wakes its machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EnqueueWhen {
    /// When the finalizer was placed.
    #[default]
    Placed,
    /// In every pass of a class that is not being deleted, as upstream does.
    Always,
    /// Never: each machine looks at its class itself.
    Never,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            short_retry: GoDuration::seconds(5),
            long_retry: GoDuration::seconds(600),
            enqueue: EnqueueWhen::Placed,
            guard_templates: false,
            create_on_deleting_class: false,
            namespaces: None,
            machines: true,
            nodes: true,
            orphans: GoDuration::seconds(15 * 60),
            bootstrap_groups: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let config: Config = serde_json::from_str(r#"{"longRetry": "3m"}"#).expect("it reads");
        assert_eq!(config, Config { long_retry: GoDuration::seconds(180), ..Config::default() });
    }

    #[test]
    fn a_setting_that_nobody_knows_is_refused_by_name() {
        let error = serde_json::from_str::<Config>(r#"{"longretry": "3m"}"#).expect_err("it is refused");
        assert!(error.to_string().starts_with("unknown field `longretry`"), "{error}");
    }
}
