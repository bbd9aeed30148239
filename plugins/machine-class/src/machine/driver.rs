//! The driver contract: what is asked and done by the provider `machine`, and what its answers mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_sdk::{Failure, Pass, Stop, act};
use k8s_openapi::api::core::v1::NodeAddress;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::Content;
use super::token::Token;
use super::user_data;
use crate::kinds::{Machine, MachineClass, Named};
use crate::names;

/// What every call of the driver is told.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call<'a> {
    machine: MachineArgument<'a>,
    class: ClassArgument<'a>,
    /// Struck out of journals and logs.
    sensitive: Sensitive<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    last_known_state: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineArgument<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(rename = "providerID", skip_serializing_if = "str::is_empty")]
    provider_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClassArgument<'a> {
    name: &'a str,
    /// What its VMs are marked with.
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    provider: &'a str,
    provider_spec: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sensitive<'a> {
    secret_data: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> ClassArgument<'a> {
    fn of(content: &'a Content) -> Self {
        let MachineClass { metadata, provider, provider_spec, .. } = &content.class;
        Self {
            name: content.class.name(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            provider,
            provider_spec,
        }
    }
}

impl<'a> Call<'a> {
    /// About a machine of this content.
    pub fn of(machine: &'a Machine, content: &'a Content) -> Self {
        Self {
            machine: MachineArgument {
                namespace: machine.namespace(),
                name: machine.name(),
                uid: machine.uid(),
                provider_id: &machine.spec.provider_id,
                node_name: machine.node(),
            },
            class: ClassArgument::of(content),
            sensitive: Sensitive {
                secret_data: user_data::of_machine(&content.secret_data, machine.name(), None),
            },
            last_known_state: &machine.status.last_known_state,
        }
    }

    /// The same with the token in the user data: for calls that make a VM, and no others.
    pub fn joining_with(machine: &'a Machine, content: &'a Content, token: &Token) -> Self {
        let secret_data = user_data::of_machine(&content.secret_data, machine.name(), Some(token));
        Self { sensitive: Sensitive { secret_data }, ..Self::of(machine, content) }
    }

    /// Which VM there is.
    pub fn status(&self, pass: &Pass) -> Result<Outcome, Stop> {
        Ok(pass.external::<Outcome>(names::PROVIDER, "status", self).read()??)
    }

    /// Have a VM made. The provider makes one for this machine, however often it is told.
    pub fn create(&self, pass: &Pass) -> Result<Outcome, Stop> {
        self.perform(pass, "create", &format!("create/{}", self.machine.uid))
    }

    /// Have the VM initialised, for the n-th time.
    pub fn initialize(&self, pass: &Pass, attempt: u32) -> Result<Outcome, Stop> {
        self.perform(pass, "initialize", &format!("initialize/{}/{attempt}", self.machine.uid))
    }

    /// Have the VM deleted, and all that was made with it.
    pub fn delete(&self, pass: &Pass) -> Result<Outcome, Stop> {
        self.perform(pass, "delete", &format!("delete/{}", self.machine.uid))
    }

    fn perform(&self, pass: &Pass, operation: &str, key: &str) -> Result<Outcome, Stop> {
        perform(pass, operation, key, self)
    }
}

/// Has the driver do something, and reads what came of it.
fn perform<T: DeserializeOwned>(
    pass: &Pass,
    operation: &str,
    key: &str,
    arguments: &impl Serialize,
) -> Result<T, Stop> {
    let action = act::external(names::PROVIDER, operation, key, arguments);
    let outcome = pass.perform(vec![action])?.pop().unwrap_or(Ok(None))?;
    let text = outcome.unwrap_or_default();
    // The text may quote what the driver was told: only where it stands is repeated.
    serde_json::from_str(&text).map_err(|cause| {
        Stop::transient(format!(
            "the answer of {operation} has an unexpected shape (column {})",
            cause.column()
        ))
    })
}

/// What the driver is told about all VMs of a class.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassCall<'a> {
    class: ClassArgument<'a>,
    /// Struck out of journals and logs.
    sensitive: Sensitive<'a>,
}

impl<'a> ClassCall<'a> {
    /// About a class of this content.
    pub fn of(content: &'a Content) -> Self {
        Self {
            class: ClassArgument::of(content),
            sensitive: Sensitive { secret_data: Cow::Borrowed(&content.secret_data) },
        }
    }

    /// Which VMs there are.
    pub fn list(&self, pass: &Pass) -> Result<Listed, Stop> {
        Ok(pass.external::<Listed>(names::PROVIDER, "list", self).read()??)
    }

    /// Have VMs deleted that no machine owns, each after it was one for so long. The provider deletes none that it was not
    /// told of before.
    pub fn collect(
        &self,
        pass: &Pass,
        orphans: &BTreeMap<String, String>,
        wait: Duration,
    ) -> Result<Vec<Collected>, Stop> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Arguments<'a> {
            #[serde(flatten)]
            call: &'a ClassCall<'a>,
            orphans: &'a BTreeMap<String, String>,
            wait_seconds: u64,
        }
        #[derive(Deserialize)]
        struct Answer {
            orphans: Vec<Collected>,
        }
        let arguments = Arguments { call: self, orphans, wait_seconds: wait.as_secs() };
        let key = format!("collect/{}", self.class.uid);
        Ok(perform::<Answer>(pass, "collect", &key, &arguments)?.orphans)
    }
}

/// The VMs of a class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Listed {
    /// They are these.
    Done {
        /// The names of the machines that they were made for, by their identities.
        machines: BTreeMap<String, String>,
        /// Those that were told of as orphans before.
        #[serde(default)]
        suspected: Vec<String>,
    },
    /// They cannot be listed.
    Failed(DriverError),
}

/// What became of an orphan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Collected {
    /// The VM.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// How far it is.
    #[serde(flatten)]
    pub fate: Fate,
}

/// How far an orphan is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Fate {
    /// Its machine may appear yet.
    Waits {
        /// For so long.
        seconds: u64,
    },
    /// It is being deleted.
    Going,
    /// It is gone.
    Deleted,
    /// The driver did not delete it.
    Failed {
        /// Why.
        message: String,
    },
}

/// The operations that the provider was given for a machine, by their keys.
pub fn known_operations(pass: &Pass, machine: &Machine) -> Result<Result<Vec<String>, Failure>, Stop> {
    #[derive(Deserialize)]
    struct Known {
        operations: Vec<String>,
    }
    let arguments = serde_json::json!({"uid": machine.uid()});
    let answer = pass.external::<Known>(names::PROVIDER, "operations", &arguments).read()?;
    Ok(answer.map(|known| known.operations))
}

/// The secret half of a bootstrap token: another one each time, and nobody remembers it.
pub fn draw_token(pass: &Pass, machine: &Machine) -> Result<String, Stop> {
    /// Its name has it struck out of journals.
    #[derive(Deserialize)]
    struct Drawn {
        token: String,
    }
    let arguments = serde_json::json!({"uid": machine.uid()});
    let key = format!("token/{}", machine.uid());
    Ok(perform::<Drawn>(pass, "token", &key, &arguments)?.token)
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// It did what it was told.
    Done(Vm),
    /// The cloud is at it.
    UnderWay(UnderWay),
    /// It did not.
    Failed(DriverError),
}

/// A VM, as far as the driver tells.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Vm {
    /// Its identity at the provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The name of the Node that it will be.
    pub node_name: String,
    /// Its addresses.
    pub addresses: Vec<NodeAddress>,
    /// What the driver wants to be told again.
    pub last_known_state: String,
    /// Set where it is there but has still to be initialised.
    pub uninitialized: bool,
}

/// What the cloud is at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnderWay {
    /// In words.
    pub message: String,
    /// Whether its end runs the pass; where not, somebody has to look again.
    #[serde(default)]
    pub watched: bool,
    /// What the driver wants to be told again.
    #[serde(default)]
    pub last_known_state: Option<String>,
}

impl UnderWay {
    /// When to look again at the latest.
    pub fn again_after(&self, short: Duration, long: Duration) -> Duration {
        if self.watched { long } else { short }
    }
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverError {
    /// The code's name; another text counts as undecodable.
    pub code: String,
    /// `machine codes error: code = [Name] message = [text]`.
    pub message: String,
    /// What the driver wants to be told again.
    #[serde(default)]
    pub last_known_state: Option<String>,
}

/// What a code asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may work in a moment: Unknown, DeadlineExceeded, Aborted, Unavailable.
    Transient,
    /// The provider has no room: ResourceExhausted.
    Exhausted,
    /// What it was told is at fault: InvalidArgument, FailedPrecondition, OutOfRange, DataLoss.
    Invalid,
    /// It is not allowed: PermissionDenied, Unauthenticated.
    Denied,
    /// There is no such VM.
    NotFound,
    /// The driver cannot do that.
    Unimplemented,
    /// Anything else, an undecodable text included.
    Other,
}

impl DriverError {
    /// What the code asks for.
    pub fn class(&self) -> Class {
        match self.code.as_str() {
            "Unknown" | "DeadlineExceeded" | "Aborted" | "Unavailable" => Class::Transient,
            "ResourceExhausted" => Class::Exhausted,
            "InvalidArgument" | "FailedPrecondition" | "OutOfRange" | "DataLoss" => Class::Invalid,
            "PermissionDenied" | "Unauthenticated" => Class::Denied,
            "NotFound" => Class::NotFound,
            "Unimplemented" => Class::Unimplemented,
            _ => Class::Other,
        }
    }

    /// When to try the same again. What a change of class, Secret or machine helps waits for that, and is looked at
    /// again at the long retry in case the cause was at the provider.
    pub fn again_after(&self, short: Duration, long: Duration) -> Duration {
        /// Upstream's medium retry.
        const MEDIUM: Duration = Duration::from_secs(180);
        /// Room comes slowly.
        const EXHAUSTED: Duration = Duration::from_secs(600);
        match self.class() {
            Class::Transient => short,
            Class::Exhausted => EXHAUSTED,
            Class::Invalid | Class::Denied => long,
            Class::NotFound | Class::Unimplemented | Class::Other => MEDIUM,
        }
    }

    /// Whether there are more VMs than one: the search for orphans has to sort that out.
    pub fn is_ambiguous(&self) -> bool {
        self.code == "OutOfRange"
    }

    /// Whether `lastKnownState` is still worth something after it.
    pub fn keeps_state(&self) -> bool {
        matches!(self.class(), Class::Transient | Class::Exhausted)
    }

    /// For `lastOperation.description`.
    pub fn description(&self) -> String {
        format!("Cloud provider message - {}", self.message)
    }
}
