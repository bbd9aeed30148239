//! A plugin that the host accepted: its guest, its settings and its grant, checked once when it is loaded.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_core::contract::{Controller, Gvk, Json, Manifest, Permission, ProviderUse, Verb};
use evenkeel_core::grant::Grant;
use evenkeel_core::guest::Guest;
use evenkeel_core::manifest::{self, ManifestFault};
use evenkeel_core::memo::Digester;
use evenkeel_core::names::{ServiceAccount, field_manager};
use evenkeel_core::object::CachedObject;
use evenkeel_core::selector::Selector;
use evenkeel_core::view::View;
use serde_json::Value;

use crate::answers::primary_depth;

/// What the operator says about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSettings {
    /// Its settings, as JSON text; `{}` where there is nothing to say.
    pub config: Json,
    /// What it may do; none for all that its manifest asks for.
    pub grant: Option<OperatorGrant>,
    /// In whose name its writes are sent; none for the host's own.
    pub service_account: Option<ServiceAccount>,
    /// The only controllers of it that run, by name; none for all.
    pub controllers: Option<Vec<String>>,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self { config: "{}".into(), grant: None, service_account: None, controllers: None }
    }
}

/// What an operator allows a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperatorGrant {
    /// What it may do with which kinds; none for all that its manifest asks for.
    pub permissions: Option<Vec<Permission>>,
    /// The only namespaces that it may look into; none for the whole cluster.
    pub namespaces: Option<Vec<String>>,
}

/// What came of loading a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// It is new here.
    Loaded,
    /// It runs in place of another version.
    Swapped {
        /// The digest of that one.
        from: String,
    },
    /// This very version runs already, with these settings.
    Unchanged,
}

/// Why a version does not run; what ran before goes on.
#[derive(Debug, thiserror::Error)]
pub enum Held {
    /// Its manifest does not hold together.
    #[error("its manifest is not valid: {}", joined(faults))]
    Manifest {
        /// What is wrong with it.
        faults: Vec<ManifestFault>,
    },
    /// Its own schema is none.
    #[error("its config schema is not valid: {reason}")]
    Schema {
        /// What is wrong with it.
        reason: String,
    },
    /// The operator's settings do not fit its schema.
    #[error("its config is not valid: {}", faults.join("; "))]
    Config {
        /// What is wrong with them, each with its place.
        faults: Vec<String>,
    },
    /// The operator names controllers that it has not, or none at all.
    #[error("its settings choose {}; it has {}", not_controllers(unknown), known.join(", "))]
    Controllers {
        /// The names that it does not know; empty where none is chosen.
        unknown: Vec<String>,
        /// The names that it knows.
        known: Vec<String>,
    },
    /// It asks for more than the version before it, and the operator's grant does not cover that.
    #[error(
        "it asks for more than it was granted: {}; name that in its grant, or take the running version out first",
        missing.join("; ")
    )]
    Permissions {
        /// What is missing.
        missing: Vec<String>,
    },
    /// Its service account may not do what its manifest asks for.
    #[error("its service account {account} lacks rights, which `evenkeel scaffold rbac` prints: {}", missing.join("; "))]
    Rights {
        /// The account.
        account: ServiceAccount,
        /// The rules that are missing, or why the account cannot be used.
        missing: Vec<String>,
    },
    /// A kind that it brings along could not be installed.
    #[error("its CustomResourceDefinition {name} could not be installed: {reason}")]
    Crd {
        /// The definition.
        name: String,
        /// Why.
        reason: String,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

impl Held {
    /// Whether the same version may be accepted later though nobody touches it: roles are given, an API server comes back.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Rights { .. } | Self::Crd { .. } => true,
            Self::Manifest { .. }
            | Self::Schema { .. }
            | Self::Config { .. }
            | Self::Controllers { .. }
            | Self::Permissions { .. }
            | Self::ShuttingDown => false,
        }
    }
}

/// A plugin with all that was decided about it when it was loaded.
pub(crate) struct Loaded {
    pub(crate) guest: Arc<dyn Guest>,
    pub(crate) settings: PluginSettings,
    pub(crate) grant: Grant,
    /// The user in whose name its writes are sent; none for the host's own.
    pub(crate) user: Option<String>,
    /// Those that run, in the order of the manifest.
    pub(crate) controllers: Vec<ControllerPlan>,
}

/// A controller with its selector parsed.
pub(crate) struct ControllerPlan {
    pub(crate) spec: Controller,
    pub(crate) selector: Selector,
    /// What of a primary matters to it.
    pub(crate) view: View,
    /// Hashes what its passes rest on.
    pub(crate) digester: Digester,
    /// The field manager of its writes.
    pub(crate) manager: String,
}

impl Loaded {
    /// Checks a plugin and the operator's settings for it against each other.
    pub(crate) fn accept(guest: Arc<dyn Guest>, settings: PluginSettings) -> Result<Self, Held> {
        let manifest = guest.manifest();
        manifest::check(manifest).map_err(|faults| Held::Manifest { faults })?;
        check_config(manifest, &settings.config)?;
        let (permissions, namespaces) = match &settings.grant {
            Some(OperatorGrant { permissions, namespaces }) => {
                (permissions.as_deref(), namespaces.as_deref())
            }
            None => (None, None),
        };
        let grant = Grant::new(manifest, permissions, namespaces);
        let plan = |spec| plan(&*guest, spec, &settings.config);
        let chosen = chosen(manifest, settings.controllers.as_deref())?;
        let controllers = chosen.into_iter().map(plan).collect::<Result<_, _>>()?;
        let user = settings.service_account.as_ref().map(ServiceAccount::user);
        Ok(Self { grant, user, controllers, settings, guest })
    }

    pub(crate) fn name(&self) -> &str {
        &self.guest.manifest().name
    }

    /// Whether it is the same version with the same settings.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.guest.digest() == other.guest.digest() && self.settings == other.settings
    }

    /// Whether a controller of it looks after this object. Under a grant of some namespaces, what lies in none is nobody's.
    pub(crate) fn looks_after(&self, plan: &ControllerPlan, object: &CachedObject) -> bool {
        let head = object.head();
        let namespaces = self.grant.namespaces();
        let inside = match (namespaces, &head.namespace) {
            (Some(globs), Some(namespace)) => globs.iter().any(|glob| glob.matches(namespace)),
            (Some(_), None) => false,
            (None, _) => true,
        };
        inside && plan.selector.matches(&head.labels)
    }

    /// What this version asks for that the one before it did not, and that the operator does not allow by name. Where
    /// the operator says nothing, what was granted is what the version before asked for.
    pub(crate) fn newly_missing(&self, before: &Self) -> Vec<String> {
        let (asks, had) = (self.guest.manifest(), before.guest.manifest());
        let said = self.settings.grant.as_ref().and_then(|grant| grant.permissions.as_deref());
        let mut missing = Vec::new();
        for asked in &asks.permissions {
            for verb in &asked.verbs {
                let covered = |list: &[Permission]| list.iter().any(|have| covers(have, asked, *verb));
                if !covered(&had.permissions) && !said.is_some_and(covered) {
                    missing.push(permission_in_words(asked, *verb));
                }
            }
        }
        missing.extend(newly_used(&asks.providers, &had.providers));
        missing.extend(newly_looked_after(self, before, said));
        missing
    }
}

/// The controllers that run: those that the operator names, or all.
fn chosen<'a>(manifest: &'a Manifest, names: Option<&[String]>) -> Result<Vec<&'a Controller>, Held> {
    let all = &manifest.controllers;
    let Some(names) = names else { return Ok(all.iter().collect()) };
    let is_known = |name: &&String| all.iter().any(|one| one.name == **name);
    let unknown: Vec<_> = names.iter().filter(|name| !is_known(name)).cloned().collect();
    if names.is_empty() || !unknown.is_empty() {
        let known = all.iter().map(|one| one.name.clone()).collect();
        return Err(Held::Controllers { unknown, known });
    }
    Ok(all.iter().filter(|one| names.contains(&one.name)).collect())
}

/// Kinds that it looks after, all of whose objects it is shown, and that the version before it was not shown.
fn newly_looked_after(new: &Loaded, before: &Loaded, said: Option<&[Permission]>) -> Vec<String> {
    let listed = |list: &[Permission], gvk: &Gvk| {
        let all = |have: &Permission| have.names.is_empty() && have.verbs.contains(&Verb::List);
        list.iter().any(|have| have.gvk == *gvk && all(have))
    };
    // What the operator chose to run of it is the operator's affair.
    let had = before.guest.manifest();
    let knew = |spec: &Controller| {
        // Of a kind of which it saw the metadata it may not come to see the rest.
        let as_much =
            |old: &Controller| old.primary == spec.primary && primary_depth(old) >= primary_depth(spec);
        had.controllers.iter().any(as_much)
            || listed(&had.permissions, &spec.primary)
            || said.is_some_and(|said| listed(said, &spec.primary))
    };
    let plans = new.controllers.iter().map(|plan| &plan.spec).filter(|spec| !knew(spec));
    plans.map(|spec| format!("list {}, for its controller {}", spec.primary, spec.name)).collect()
}

fn permission_in_words(asked: &Permission, verb: Verb) -> String {
    let names = if asked.names.is_empty() { String::new() } else { format!(" {}", asked.names.join(", ")) };
    format!("{} {}{names}", word(verb), asked.gvk)
}

/// What is asked of providers that was not before.
fn newly_used(asks: &[ProviderUse], had: &[ProviderUse]) -> Vec<String> {
    let list = |uses: &[ProviderUse]| -> BTreeSet<String> {
        let words = |used: &ProviderUse| {
            let questions = used.questions.iter().map(|question| format!("ask {} {question}", used.provider));
            let operations = used.operations.iter().map(|one| format!("perform {} {one}", used.provider));
            questions.chain(operations).collect::<Vec<_>>()
        };
        uses.iter().flat_map(words).collect()
    };
    list(asks).difference(&list(had)).cloned().collect()
}

fn covers(have: &Permission, asked: &Permission, verb: Verb) -> bool {
    let names = have.names.is_empty()
        || (!asked.names.is_empty() && asked.names.iter().all(|name| have.names.contains(name)));
    have.gvk == asked.gvk && have.verbs.contains(&verb) && names
}

/// As in a manifest.
fn word(verb: Verb) -> String {
    serde_json::to_value(verb).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn plan(guest: &dyn Guest, spec: &Controller, config: &Json) -> Result<ControllerPlan, Held> {
    // The manifest was checked, so that neither of these fails.
    let bad = |reason: String| Held::Schema { reason: format!("controller {}: {reason}", spec.name) };
    let selector = Selector::parse(&spec.labels).map_err(|error| bad(error.to_string()))?;
    let mut view = spec.view.clone();
    if !view.is_empty() && !view.iter().any(|pointer| DELETION.starts_with(pointer.as_str())) {
        // Whoever looks after an object must learn that it is to go.
        view.push(DELETION.to_owned());
    }
    let view = View::parse(&view).map_err(|error| bad(error.to_string()))?;
    let digester = Digester::new(guest.digest(), config, &spec.name);
    let manager = field_manager(&guest.manifest().name, &spec.name);
    Ok(ControllerPlan { selector, view, digester, manager, spec: spec.clone() })
}

const DELETION: &str = "/metadata/deletionTimestamp";

/// Holds the operator's settings against the plugin's schema.
///
/// # Errors
/// If they do not fit, with the faults and their places; if the schema is not valid.
pub fn check_config(manifest: &Manifest, config: &str) -> Result<(), Held> {
    let config: Value = serde_json::from_str(config)
        .map_err(|error| Held::Config { faults: vec![format!("it is no JSON: {error}")] })?;
    let Some(schema) = &manifest.config_schema else {
        // Nothing can be set, so a setting is a mistake.
        return match &config {
            Value::Object(settings) if settings.is_empty() => Ok(()),
            Value::Null => Ok(()),
            _ => Err(Held::Config { faults: vec!["the plugin takes no settings".to_owned()] }),
        };
    };
    let unsound = |reason: String| Held::Schema { reason };
    let schema: Value = serde_json::from_str(schema).map_err(|error| unsound(error.to_string()))?;
    let validator = jsonschema::validator_for(&schema).map_err(|error| unsound(error.to_string()))?;
    let place = |pointer: String| if pointer.is_empty() { "/".to_owned() } else { pointer };
    let fault = |error: jsonschema::ValidationError<'_>| {
        format!("{}: {error}", place(error.instance_path().to_string()))
    };
    let faults: Vec<_> = validator.iter_errors(&config).map(fault).take(CONFIG_FAULTS_MAX).collect();
    if faults.is_empty() { Ok(()) } else { Err(Held::Config { faults }) }
}

/// Faults of a config that are told at once.
const CONFIG_FAULTS_MAX: usize = 16;

fn not_controllers(unknown: &[String]) -> String {
    if unknown.is_empty() {
        "no controller".to_owned()
    } else {
        format!("controllers that it has not: {}", unknown.join(", "))
    }
}

fn joined(faults: &[ManifestFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
