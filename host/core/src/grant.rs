//! What a plugin may ask for and do: its manifest, narrowed by what the operator allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::contract::{Action, Failure, FailureKind, Gvk, Manifest, ObjectRef, Permission, Query, Verb};
use crate::names::Glob;
use crate::target::ActionTarget;

/// Why a plugin may not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("may not {verb} {object}: {missing}{}", told(line.as_deref()))]
pub struct Denial {
    /// What it wanted to do.
    pub verb: &'static str,
    /// With what.
    pub object: String,
    /// What is missing.
    pub missing: Missing,
    /// The line of permissions that would allow it, as manifests and grants have it, where one would.
    pub line: Option<String>,
}

fn told(line: Option<&str>) -> String {
    line.map(|line| format!("; the line {line} is missing")).unwrap_or_default()
}

impl Denial {
    /// The failure of the pass.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Denied, self.to_string())
    }
}

/// What is missing for something to be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// A permission with this verb.
    #[error("{layer} has no permission to {} {gvk}", word(*.verb))]
    Verb {
        /// Whose permissions lack it.
        layer: Layer,
        /// The verb.
        verb: Verb,
        /// The kind.
        gvk: Gvk,
    },
    /// A permission for an object of this name.
    #[error("{layer} does not allow that name")]
    Name {
        /// Whose permissions lack it.
        layer: Layer,
    },
    /// A permission that names Secrets: without names it stands for none.
    #[error("{layer} does not name that Secret")]
    Secret {
        /// Whose permissions lack it.
        layer: Layer,
    },
    /// The operator narrowed the plugin to some namespaces.
    #[error("the operator's grant is for the namespaces {} only", .allowed.join(", "))]
    Namespace {
        /// Those.
        allowed: Vec<String>,
    },
    /// An owner and what it controls live in one namespace.
    #[error("its owner {owner} lives in another namespace")]
    Owner {
        /// The primary.
        owner: String,
    },
    /// A controller of that name, for that kind.
    #[error("the plugin has no controller {controller:?} for that kind")]
    Controller {
        /// The name given.
        controller: String,
    },
    /// The manifest names what it uses of providers.
    #[error("the plugin's manifest does not name {used:?} of the provider {provider:?}")]
    Provider {
        /// The provider.
        provider: String,
        /// The question or operation.
        used: String,
    },
}

impl Missing {
    /// The line of permissions that would allow it, where one would.
    fn line(&self, verb: Verb, gvk: &Gvk, name: Option<&str>) -> Option<String> {
        let name = match self {
            Self::Verb { .. } => name.filter(|_| is_secret(gvk)),
            Self::Name { .. } | Self::Secret { .. } => Some(name?),
            Self::Namespace { .. } | Self::Owner { .. } | Self::Controller { .. } | Self::Provider { .. } => {
                return None;
            }
        };
        let verb = serde_json::to_value(verb).ok()?;
        let names = name.map(|name| format!(", names: [{name}]")).unwrap_or_default();
        let (version, kind) = (gvk.api_version(), &gvk.kind);
        Some(format!("{{apiVersion: {version}, kind: {kind}, verbs: [{}]{names}}}", verb.as_str()?))
    }
}

/// Whose permissions are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// What the plugin asks for.
    Manifest,
    /// What the operator allows.
    Operator,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manifest => "the plugin's manifest",
            Self::Operator => "the operator's grant",
        })
    }
}

#[derive(Clone, Debug)]
struct Rule {
    verbs: BTreeSet<Verb>,
    names: Vec<Glob>,
}

impl Rule {
    /// Whether it is for that name and not just for any.
    fn names_it(&self, object: &ObjectRef) -> bool {
        self.names.iter().any(|glob| glob.says_something() && glob.matches(&object.name))
    }
}

type Rules = BTreeMap<Gvk, Vec<Rule>>;

/// What one plugin may do.
#[derive(Clone, Debug)]
pub struct Grant {
    layers: Vec<(Layer, Rules)>,
    namespaces: Option<Vec<Glob>>,
    controllers: BTreeMap<String, Gvk>,
    providers: BTreeMap<String, Uses>,
}

#[derive(Clone, Debug, Default)]
struct Uses {
    questions: BTreeSet<String>,
    operations: BTreeSet<String>,
}

impl Grant {
    /// What the manifest asks for and, where the operator says anything, the operator allows too. Both may use globs
    /// in names, the operator also in namespaces.
    pub fn new(manifest: &Manifest, operator: Option<&[Permission]>, namespaces: Option<&[String]>) -> Self {
        let mut layers = vec![(Layer::Manifest, rules(&manifest.permissions))];
        layers.extend(operator.map(|permissions| (Layer::Operator, rules(permissions))));
        let controllers = manifest.controllers.iter().map(|c| (c.name.clone(), c.primary.clone())).collect();
        let mut providers: BTreeMap<String, Uses> = BTreeMap::new();
        for used in &manifest.providers {
            let uses = providers.entry(used.provider.clone()).or_default();
            uses.questions.extend(used.questions.iter().cloned());
            uses.operations.extend(used.operations.iter().cloned());
        }
        let namespaces = namespaces.map(|names| names.iter().map(|name| Glob::new(name)).collect());
        Self { layers, namespaces, controllers, providers }
    }

    /// Whether the plugin may put a query.
    pub fn allows_query(&self, query: &Query) -> Result<(), Denial> {
        match query {
            Query::Get(get) => self.allows(Verb::Get, &get.object).map_err(|missing| {
                let line = missing.line(Verb::Get, &get.object.gvk, Some(&get.object.name));
                Denial { verb: "get", object: get.object.to_string(), missing, line }
            }),
            Query::List(list) => {
                let object = match &list.namespace {
                    Some(namespace) => format!("{} in {namespace}", list.gvk),
                    None => format!("{} in all namespaces", list.gvk),
                };
                let missing = |missing: Missing| {
                    let line = missing.line(Verb::List, &list.gvk, None);
                    Denial { verb: "list", object, missing, line }
                };
                self.allows_list(&list.gvk, list.namespace.as_deref()).map_err(missing)
            }
            Query::Clock => Ok(()),
            Query::External(query) => {
                self.uses(&query.provider, &query.question, |uses| &uses.questions).map_err(|missing| {
                    Denial { verb: "ask", object: query.provider.clone(), missing, line: None }
                })
            }
        }
    }

    /// Whether the plugin may carry out an action in a pass of this primary.
    pub fn allows_action(&self, target: &ActionTarget<'_>, primary: &ObjectRef) -> Result<(), Denial> {
        let about = target.object().map_or_else(String::new, ToString::to_string);
        let denied = |missing| Denial { verb: target.verb(), object: about.clone(), missing, line: None };
        if let Action::External(operation) = target.action() {
            let uses = self.uses(&operation.provider, &operation.operation, |uses| &uses.operations);
            return uses.map_err(|missing| Denial {
                verb: "perform",
                object: operation.provider.clone(),
                missing,
                line: None,
            });
        }
        let Some(object) = target.object() else { return Ok(()) };
        let verb = match target.action() {
            Action::Create(_) => Verb::Create,
            Action::Apply(_) => Verb::Apply,
            Action::ApplyStatus(_) => Verb::ApplyStatus,
            Action::Delete(_) => Verb::Delete,
            Action::AddFinalizer(_) | Action::RemoveFinalizer(_) => Verb::Finalize,
            Action::Patch(_) => Verb::Patch,
            Action::Publish(_) => Verb::Publish,
            Action::Enqueue(enqueue) => {
                if self.controllers.get(&enqueue.controller) != Some(&object.gvk) {
                    return Err(denied(Missing::Controller { controller: enqueue.controller.clone() }));
                }
                // Nobody looks after an object there, so nobody is to be asked to.
                return match &object.namespace {
                    None if !is_namespace(&object.gvk) => self.everywhere(),
                    namespace => self.in_namespace(&object.gvk, namespace.as_deref(), &object.name),
                }
                .map_err(denied);
            }
            Action::External(_) => return Ok(()),
        };
        let allowed = |verb: Verb| {
            self.allows(verb, object).map_err(|missing| {
                let line = missing.line(verb, &object.gvk, Some(&object.name));
                Denial { line, ..denied(missing) }
            })
        };
        allowed(verb)?;
        if target.touches_finalizers() {
            allowed(Verb::Finalize)?;
        }
        if target.patches_status() {
            allowed(Verb::ApplyStatus)?;
        }
        owned(target, object, primary).map_err(denied)
    }

    /// Whether the plugin may have the one thing done to the one object.
    pub fn allows(&self, verb: Verb, object: &ObjectRef) -> Result<(), Missing> {
        let ObjectRef { gvk, namespace, name } = object;
        match namespace {
            // What lies in no namespace may be looked at; who may change it changes it for every namespace.
            None if verb != Verb::Get && !is_namespace(gvk) => self.everywhere()?,
            _ => self.in_namespace(gvk, namespace.as_deref(), name)?,
        }
        for (layer, rules) in &self.layers {
            allowed_by(*layer, rules, verb, object)?;
        }
        if shows_secret(verb, &object.gvk) { self.operator_chose(verb, object) } else { Ok(()) }
    }

    /// Which Secrets a plugin is shown is said by names, by whoever has the last word, or by the operator's namespaces.
    fn operator_chose(&self, verb: Verb, object: &ObjectRef) -> Result<(), Missing> {
        let narrow = |globs: &[Glob]| globs.iter().all(Glob::says_something);
        let chosen = self.namespaces.as_deref().is_some_and(narrow)
            || self.layers.last().is_some_and(|(_, rules)| {
                with_verb(rules, verb, &object.gvk).any(|rule| rule.names_it(object))
            });
        if chosen { Ok(()) } else { Err(Missing::Secret { layer: Layer::Operator }) }
    }

    /// Whether it may list a kind, so that a watch of all its objects may be kept. A kind that it may only get is
    /// watched object by object, one that it may list by names as [`Grant::listed_names`] says.
    pub fn may_list(&self, gvk: &Gvk) -> bool {
        let namespace = self.namespaces.as_ref().and_then(|names| names.first()).map(Glob::as_str);
        self.allows_list(gvk, namespace).is_ok()
    }

    /// Whether it may put objects of a kind in place: what it has put there will have to be known whole, to see whether it is still
    /// as it was put.
    pub fn may_put(&self, gvk: &Gvk) -> bool {
        let puts = [Verb::Create, Verb::Apply, Verb::ApplyStatus];
        let by_rules = |rules| puts.iter().any(|verb| with_verb(rules, *verb, gvk).next().is_some());
        self.layers.iter().all(|(_, rules)| by_rules(rules))
    }

    /// The names that one watch may be of which covers this object: a permission to list some names. It is just the
    /// object's own name where somebody gives that, else every pattern of that permission. None where its kind may
    /// not be listed even so; Secrets never are.
    pub fn listed_names(&self, object: &ObjectRef) -> Option<Vec<Glob>> {
        let ObjectRef { gvk, namespace, name } = object;
        if is_secret(gvk) || self.in_namespace(gvk, namespace.as_deref(), name).is_err() {
            return None;
        }
        let mut patterns = None;
        for (_, rules) in &self.layers {
            let allowed: Vec<_> = with_verb(rules, Verb::List, gvk).collect();
            let globs = || allowed.iter().flat_map(|rule| &rule.names);
            if let Some(own) = globs().find(|glob| glob.is_literal() && *glob.as_str() == **name) {
                patterns = Some(vec![own.clone()]);
            } else if allowed.iter().any(|rule| rule.names.is_empty()) {
                continue;
            } else if globs().any(|glob| glob.matches(name)) {
                patterns.get_or_insert_with(|| globs().filter(|glob| !glob.is_literal()).cloned().collect());
            } else {
                return None;
            }
        }
        let mut patterns: Vec<Glob> = patterns?;
        patterns.sort_unstable();
        patterns.dedup();
        Some(patterns)
    }

    /// The only namespaces that it may look into, as globs; none for the whole cluster.
    pub fn namespaces(&self) -> Option<&[Glob]> {
        self.namespaces.as_deref()
    }

    /// A list holds every name, so a permission for some names does not allow it. Secrets are never listed.
    fn allows_list(&self, gvk: &Gvk, namespace: Option<&str>) -> Result<(), Missing> {
        match namespace {
            Some(namespace) => self.in_namespace(gvk, Some(namespace), "")?,
            None => self.everywhere()?,
        }
        for (layer, rules) in &self.layers {
            let layer = *layer;
            let mut with_verb = with_verb(rules, Verb::List, gvk).peekable();
            if with_verb.peek().is_none() {
                return Err(Missing::Verb { layer, verb: Verb::List, gvk: gvk.clone() });
            }
            if is_secret(gvk) {
                return Err(Missing::Secret { layer });
            }
            if !with_verb.any(|rule| rule.names.is_empty() || rule.names.iter().any(Glob::is_anything)) {
                return Err(Missing::Name { layer });
            }
        }
        Ok(())
    }

    fn in_namespace(&self, gvk: &Gvk, namespace: Option<&str>, name: &str) -> Result<(), Missing> {
        // A namespace itself counts as being in it; other cluster-wide objects are in none.
        let namespace = if is_namespace(gvk) { Some(name) } else { namespace };
        let (Some(globs), Some(namespace)) = (&self.namespaces, namespace) else { return Ok(()) };
        if globs.iter().any(|glob| glob.matches(namespace)) { Ok(()) } else { self.everywhere() }
    }

    fn everywhere(&self) -> Result<(), Missing> {
        match &self.namespaces {
            Some(globs) => Err(Missing::Namespace {
                allowed: globs.iter().map(|glob| glob.as_str().to_owned()).collect(),
            }),
            None => Ok(()),
        }
    }

    fn uses(
        &self,
        provider: &str,
        used: &str,
        pick: impl Fn(&Uses) -> &BTreeSet<String>,
    ) -> Result<(), Missing> {
        match self.providers.get(provider).filter(|uses| pick(uses).contains(used)) {
            Some(_) => Ok(()),
            None => Err(Missing::Provider { provider: provider.to_owned(), used: used.to_owned() }),
        }
    }
}

fn rules(permissions: &[Permission]) -> Rules {
    let mut rules = Rules::new();
    for permission in permissions {
        rules.entry(permission.gvk.clone()).or_default().push(Rule {
            verbs: permission.verbs.iter().copied().collect(),
            names: permission.names.iter().map(|name| Glob::new(name)).collect(),
        });
    }
    rules
}

fn with_verb<'r>(rules: &'r Rules, verb: Verb, gvk: &Gvk) -> impl Iterator<Item = &'r Rule> {
    rules.get(gvk).into_iter().flatten().filter(move |rule| rule.verbs.contains(&verb))
}

fn allowed_by(layer: Layer, rules: &Rules, verb: Verb, object: &ObjectRef) -> Result<(), Missing> {
    let mut with_verb = with_verb(rules, verb, &object.gvk).peekable();
    if with_verb.peek().is_none() {
        return Err(Missing::Verb { layer, verb, gvk: object.gvk.clone() });
    }
    if shows_secret(verb, &object.gvk) {
        let ok = with_verb.any(|rule| rule.names.is_empty() || rule.names_it(object));
        return if ok { Ok(()) } else { Err(Missing::Secret { layer }) };
    }
    let named =
        |rule: &Rule| rule.names.is_empty() || rule.names.iter().any(|glob| glob.matches(&object.name));
    if with_verb.any(named) { Ok(()) } else { Err(Missing::Name { layer }) }
}

/// A namespaced owner cannot own anything elsewhere: the garbage collector would delete it at once.
fn owned(target: &ActionTarget<'_>, object: &ObjectRef, primary: &ObjectRef) -> Result<(), Missing> {
    let (Action::Create(apply) | Action::Apply(apply)) = target.action() else { return Ok(()) };
    if apply.controlled && primary.namespace.is_some() && primary.namespace != object.namespace {
        return Err(Missing::Owner { owner: primary.to_string() });
    }
    Ok(())
}

/// Whether what is done shows a Secret's content to the plugin. An apply answers with the whole object, so it does; what
/// comes back from a finalizer's write is kept from the plugin, and an Event shows nothing of what it is about.
fn shows_secret(verb: Verb, gvk: &Gvk) -> bool {
    is_secret(gvk) && !matches!(verb, Verb::Publish | Verb::Finalize)
}

fn is_namespace(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Namespace"
}

fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::List => "list",
        Verb::Create => "create",
        Verb::Apply => "apply",
        Verb::ApplyStatus => "apply the status of",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        Verb::Finalize => "finalize",
        Verb::Publish => "publish Events about",
    }
}

#[cfg(test)]
mod tests;
