//! Whether a machine may have a VM: the part of the machine flow that protects classes.
//!
//! Nothing of it counts for deletion, which needs the content of the class alone.

use std::time::Duration;

use evenkeel_sdk::{Action, act};

use super::content::Content;
use super::user_data;
use crate::class;
use crate::config::Config;
use crate::kinds::{Machine, Named, NodeTemplate};
use crate::names;

/// Why a machine may not have a VM yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `spec.class.kind` is not ours.
    Kind(String),
    /// `spec.class.apiGroup` is not ours.
    Group(String),
    /// `spec.class.name` is empty.
    NoName,
    /// The class is not there.
    ClassMissing(String),
    /// Secrets that the class refers to are not there.
    SecretMissing(Vec<String>),
    /// The class does not bear the finalizer yet.
    Unprotected(String),
    /// The class is being deleted.
    ClassDeleting(String),
    /// `nodeTemplate` of the class is not complete.
    Template(String),
    /// The Secrets hold no user data.
    NoUserData,
    /// The user data wants a token, and the Nodes are of another cluster.
    Token,
    /// The Secret of that name, which the token would have, is somebody else's.
    TokenTaken(String),
}

impl Refusal {
    /// In words, for status and events.
    pub fn message(&self) -> String {
        match self {
            Self::Kind(kind) => format!("spec.class.kind is {kind:?}: only MachineClass can be made to a VM"),
            Self::Group(group) => {
                format!("spec.class.apiGroup is {group:?}: classes are of {}", names::GROUP)
            }
            Self::NoName => "spec.class.name is empty".to_owned(),
            Self::ClassMissing(name) => format!("MachineClass {name} does not exist"),
            Self::SecretMissing(names) => {
                format!("the class refers to Secret {}, which does not exist", names.join(" and to "))
            }
            Self::Unprotected(name) => format!("MachineClass {name} is not protected by its finalizer yet"),
            Self::ClassDeleting(name) => format!("MachineClass {name} is being deleted: no VM is made of it"),
            Self::Template(missing) => format!("nodeTemplate of the class lacks {missing}"),
            Self::NoUserData => "the Secrets of the class hold no userData".to_owned(),
            Self::Token => format!(
                "the userData of the class asks for {}: none is made where Nodes are in another cluster, so give one in the userData",
                user_data::BOOTSTRAP_TOKEN
            ),
            Self::TokenTaken(name) => {
                format!("Secret {name}, which is to be the machine's bootstrap token, is somebody else's")
            }
        }
    }

    /// Whether it is the machine's input that is at fault, so that only a change of it helps.
    pub fn is_invalid(&self) -> bool {
        match self {
            Self::Kind(_) | Self::Group(_) | Self::NoName | Self::Template(_) => true,
            Self::ClassMissing(_)
            | Self::SecretMissing(_)
            | Self::Unprotected(_)
            | Self::ClassDeleting(_)
            | Self::NoUserData
            | Self::Token
            | Self::TokenTaken(_) => false,
        }
    }

    /// When to look again at the latest; none where only a change helps.
    pub fn again_after(&self, config: &Config) -> Option<Duration> {
        match self {
            Self::Kind(_) | Self::Group(_) | Self::NoName | Self::Template(_) | Self::ClassDeleting(_) => {
                None
            }
            // The appearance of what is missing runs the pass.
            Self::ClassMissing(_) | Self::SecretMissing(_) | Self::Token | Self::TokenTaken(_) => {
                Some(config.long_retry.0)
            }
            Self::Unprotected(_) | Self::NoUserData => Some(config.short_retry.0),
        }
    }

    /// What else is done: the class is asked for its finalizer, people are told.
    pub fn actions(&self, machine: &Machine) -> Vec<Action> {
        let warning = |reason| vec![act::warning(machine.reference(), reason, self.message())];
        match self {
            Self::Unprotected(name) => {
                vec![act::enqueue(names::MACHINE_CLASS, class::reference(machine.namespace(), name))]
            }
            Self::ClassDeleting(_) => warning(names::CLASS_BEING_DELETED),
            Self::ClassMissing(_) => warning(names::CLASS_MISSING),
            Self::SecretMissing(_) => warning(names::SECRET_MISSING),
            Self::Kind(_)
            | Self::Group(_)
            | Self::NoName
            | Self::Template(_)
            | Self::NoUserData
            | Self::Token
            | Self::TokenTaken(_) => vec![],
        }
    }
}

/// Whether a VM may be made (or adopted, or initialised) for the machine.
pub fn may_have_vm<'c>(
    machine: &Machine,
    content: Option<&'c Content>,
    config: &Config,
) -> Result<&'c Content, Refusal> {
    let class = &machine.spec.class;
    if class.kind != names::CLASS_KIND {
        return Err(Refusal::Kind(class.kind.clone()));
    }
    if !class.is_ours() {
        return Err(Refusal::Group(class.api_group.clone()));
    }
    if class.name.is_empty() {
        return Err(Refusal::NoName);
    }
    let name = || class.name.clone();
    let Some(content) = content else { return Err(Refusal::ClassMissing(name())) };
    if content.class.is_deleting() && !config.create_on_deleting_class {
        return Err(Refusal::ClassDeleting(name()));
    }
    if !content.class.bears(names::FINALIZER) {
        // A class that is being deleted can be given none any more.
        let deleting = content.class.is_deleting();
        return Err(if deleting { Refusal::ClassDeleting(name()) } else { Refusal::Unprotected(name()) });
    }
    if !content.missing_secrets.is_empty() {
        return Err(Refusal::SecretMissing(content.missing_secrets.clone()));
    }
    if let Some(missing) = content.class.node_template.as_ref().and_then(lacks) {
        return Err(Refusal::Template(missing));
    }
    if !user_data::is_there(&content.secret_data) {
        return Err(Refusal::NoUserData);
    }
    if !config.nodes && user_data::wants_token(&content.secret_data) {
        return Err(Refusal::Token);
    }
    Ok(content)
}

/// What a `nodeTemplate` that is there must have and has not.
fn lacks(template: &NodeTemplate) -> Option<String> {
    let capacity = ["cpu", "gpu", "memory"]
        .into_iter()
        .filter(|resource| !template.capacity.contains_key(*resource))
        .map(|resource| format!("capacity.{resource}"));
    let texts =
        [("instanceType", &template.instance_type), ("region", &template.region), ("zone", &template.zone)];
    let texts = texts.into_iter().filter(|(_, text)| text.is_empty()).map(|(name, _)| name.to_owned());
    let missing: Vec<String> = capacity.chain(texts).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}
