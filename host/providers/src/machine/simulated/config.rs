//! What a scenario says about the simulated cloud.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::Error;

use crate::machine::code::Code;

/// How the cloud is to begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// What the Secrets must hold, in clear; none where the cloud lets everybody in.
    pub credentials: Option<BTreeMap<String, String>>,
    /// How Nodes are called.
    pub node_names: NodeNames,
    /// Whether VMs have to be initialised.
    pub initialize: Initialize,
    /// How long it takes to make a VM, and to delete one; 0 for no time at all.
    pub task_seconds: u64,
    /// VMs that are there.
    pub vms: Vec<GivenVm>,
    /// Keys of operations from before, as in `create/<uid>`.
    pub operations: Vec<String>,
}

/// How Nodes are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeNames {
    /// As their machines.
    #[default]
    Machine,
    /// As their VMs.
    Generated,
}

/// Whether VMs have to be initialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialize {
    /// The driver cannot do that.
    #[default]
    Unimplemented,
    /// They have to be.
    Needed,
}

impl Initialize {
    pub(super) fn is_needed(self) -> bool {
        self == Self::Needed
    }
}

/// A VM that is there, or what is left of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GivenVm {
    /// `namespace/name` of its machine.
    pub machine: String,
    /// The machine's UID.
    pub uid: String,
    /// Its identity; none where only disks are left.
    #[serde(default, rename = "providerID")]
    pub provider_id: Option<String>,
    /// Its Node; as the machine where it is left out.
    #[serde(default)]
    pub node_name: Option<String>,
    /// The UID of the class that it was made of; of none where it is left out.
    #[serde(default)]
    pub class: Option<String>,
    /// Disks that were made with it.
    #[serde(default)]
    pub leftovers: Vec<String>,
}

/// Calls that go wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Fault {
    /// `create`, `initialize`, `status`, `delete`, or `*` for the next of any.
    call: String,
    #[serde(deserialize_with = "code")]
    code: Code,
    #[serde(default = "message")]
    pub(super) message: String,
    #[serde(default = "once")]
    pub(super) times: u32,
    #[serde(default)]
    pub(super) effect: Effect,
}

/// Whether a call that goes wrong takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Effect {
    /// It does not.
    #[default]
    None,
    /// It does; only the answer is lost.
    Written,
}

impl Fault {
    pub(super) fn is_for(&self, call: &str) -> bool {
        self.call == "*" || self.call == call
    }

    pub(super) fn code(&self) -> Code {
        self.code
    }
}

fn code<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
    let name = String::deserialize(deserializer)?;
    Code::named(&name).ok_or_else(|| D::Error::custom(format!("{name:?} is no code of the driver contract")))
}

fn message() -> String {
    "the cloud has a bad day".to_owned()
}

fn once() -> u32 {
    1
}
