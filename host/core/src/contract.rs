//! The words of the contract (`wit/types.wit`) as the host holds them.
//!
//! `evenkeel-runtime` alone turns these into the component model's types and back. Everything here serializes,
//! because the journal keeps whole passes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::FAILURE_MESSAGE_BYTES_MAX;

/// UTF-8 JSON text. It is passed on as it is; whoever needs a part of it parses it.
pub type Json = Arc<str>;

/// A resource type; `group` is "" for the core group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gvk {
    /// API group, "" for the core group.
    pub group: Arc<str>,
    /// API version, as in `v1`.
    pub version: Arc<str>,
    /// Kind, as in `ConfigMap`.
    pub kind: Arc<str>,
}

impl Gvk {
    /// From its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From an object's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        match api_version.rsplit_once('/') {
            Some((group, version)) => Self::new(group, version, kind),
            None => Self::new("", api_version, kind),
        }
    }

    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    /// `Kind` for the core group, else `Kind.group`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// Where one object lives; `namespace` is none for a cluster-scoped kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its type.
    pub gvk: Gvk,
    /// Its namespace, none for a cluster-scoped kind.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// From its parts.
    pub fn new(gvk: Gvk, namespace: Option<&str>, name: &str) -> Self {
        Self { gvk, namespace: namespace.map(Into::into), name: name.into() }
    }
}

impl fmt::Display for ObjectRef {
    /// `Kind namespace/name`, or `Kind name` where there is no namespace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.gvk.kind, self.name),
            None => write!(f, "{} {}", self.gvk.kind, self.name),
        }
    }
}

// ---- observing ---------------------------------------------------------------------------------------------------

/// Something a pass wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Query {
    /// One object.
    Get(GetQuery),
    /// Every object of a kind that matches.
    List(ListQuery),
    /// The current time; no input of the memo.
    Clock,
    /// A question to a provider.
    External(ExternalQuery),
}

/// A question for one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GetQuery {
    /// The object asked for.
    pub object: ObjectRef,
    /// JSON pointers of the parts wanted; empty for the whole.
    #[serde(default)]
    pub view: Vec<String>,
}

/// A question for every object of a kind that matches all of the conditions given.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ListQuery {
    /// The kind.
    pub gvk: Gvk,
    /// None for every namespace.
    pub namespace: Option<Arc<str>>,
    /// A label selector as kubectl writes it; "" for any.
    pub labels: String,
    /// Fields that must equal a value.
    pub fields: Vec<FieldMatch>,
    /// Only objects whose controller owner reference has this UID.
    pub controlled_by: Option<String>,
    /// JSON pointers of the parts wanted; empty for the whole.
    pub view: Vec<String>,
}

/// A field that must equal a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FieldMatch {
    /// JSON pointer of the field.
    pub pointer: String,
    /// The value, as JSON text.
    pub value: Json,
}

/// A question to a system outside Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExternalQuery {
    /// The provider asked.
    pub provider: String,
    /// The question, by the provider's name for it.
    pub question: String,
    /// Its arguments.
    pub arguments: Json,
}

/// What the host answers to a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The object, or none where there is none.
    Object(Option<Json>),
    /// The matches, ordered by namespace and name.
    Objects(Vec<Json>),
    /// The API server does not serve that kind.
    Unserved,
    /// RFC 3339, UTC.
    Time(String),
    /// The provider's answer, or why there is none.
    External(Result<Json, Failure>),
}

/// A question of a pass with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The question.
    pub query: Query,
    /// The answer.
    pub answer: Answer,
}

// ---- acting ------------------------------------------------------------------------------------------------------

/// A change to the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Create an object; one that exists already is a conflict.
    Create(Apply),
    /// Server-side apply under the controller's own field manager.
    Apply(Apply),
    /// Server-side apply to the status subresource.
    ApplyStatus(Apply),
    /// Delete an object; one that is gone already is a success.
    Delete(Deletion),
    /// Add a finalizer.
    AddFinalizer(Finalizer),
    /// Remove a finalizer.
    RemoveFinalizer(Finalizer),
    /// A JSON merge patch, guarded by the resourceVersion that the pass saw.
    Patch(Patch),
    /// Publish a Kubernetes Event.
    Publish(Event),
    /// Ask for a pass of another object.
    Enqueue(Enqueue),
    /// Have a provider do something.
    External(Operation),
}

/// An object to create or apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Apply {
    /// The object with just the fields to own.
    pub object: Json,
    /// Take over fields that another manager owns.
    pub force: bool,
    /// Make the pass's primary its controller owner.
    pub controlled: bool,
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deletion {
    /// The object.
    pub object: ObjectRef,
    /// The UID of the object meant; none for whichever bears the name.
    pub uid: Option<String>,
    /// What becomes of its dependents.
    pub propagation: Propagation,
}

/// What becomes of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Propagation {
    /// Collected after it.
    Background,
    /// Collected before it.
    Foreground,
    /// Left alone.
    Orphan,
}

/// A finalizer to add or remove.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finalizer {
    /// The object.
    pub object: ObjectRef,
    /// The finalizer's name.
    pub name: String,
}

/// A JSON merge patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Patch {
    /// The object.
    pub object: ObjectRef,
    /// The merge patch.
    pub merge: Json,
}

/// How serious an Event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub enum EventType {
    /// Something happened.
    Normal,
    /// Something is wrong.
    Warning,
}

/// A Kubernetes Event to publish.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// What it is about.
    pub about: ObjectRef,
    /// Normal or Warning.
    pub severity: EventType,
    /// PascalCase reason.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

/// A pass of another object to ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Enqueue {
    /// A controller of the same plugin.
    pub controller: String,
    /// The primary object.
    pub object: ObjectRef,
}

/// Something a provider does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operation {
    /// The same key within one object's life means the same operation.
    pub key: String,
    /// The provider.
    pub provider: String,
    /// The operation, by the provider's name for it.
    pub operation: String,
    /// Its arguments.
    pub arguments: Json,
}

/// What came of an action that was performed earlier in a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Performed {
    /// The action.
    pub action: Action,
    /// The object or answer that came of it, or why it failed.
    pub outcome: Result<Option<Json>, Failure>,
}

// ---- the pass ----------------------------------------------------------------------------------------------------

/// One call of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Request {
    /// The controller asked.
    pub controller: String,
    /// The primary's place.
    pub key: ObjectRef,
    /// The primary; none once it is gone.
    pub primary: Option<Json>,
    /// What was last seen of a primary that is gone.
    pub last_seen: Option<Json>,
    /// Everything observed so far in this pass, oldest first.
    pub observations: Vec<Observation>,
    /// Everything performed so far in this pass, oldest first.
    pub performed: Vec<Performed>,
    /// How the previous pass of this object failed, if it did.
    pub last_failure: Option<FailedPass>,
    /// The operator's settings.
    pub config: Json,
}

/// How a pass failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedPass {
    /// Why.
    pub failure: Failure,
    /// The action that failed; none where the plugin itself did.
    pub action: Option<Action>,
    /// Failures in a row, this one included.
    pub count: u32,
}

/// What a plugin answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What to do next.
    pub step: Step,
    /// What it wants logged.
    pub log: Vec<LogLine>,
}

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// For the author.
    Debug,
    /// Life cycle.
    Info,
    /// Degraded.
    Warn,
    /// Somebody must act.
    Error,
}

/// A line for the host's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// How loud.
    pub level: LogLevel,
    /// The text.
    pub message: String,
}

/// What to do next in a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Look these up, then call again.
    Observe(Vec<Query>),
    /// Do these, then call again.
    Perform(Vec<Action>),
    /// Do these; the pass is over.
    Finish(Conclusion),
}

/// The end of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Conclusion {
    /// Done in order; the first that fails ends the pass.
    pub actions: Vec<Action>,
    /// Kinds of which objects controlled by the primary are deleted unless this conclusion applied them.
    pub prune: Vec<Gvk>,
    /// Run again after this many milliseconds at the latest.
    pub requeue_after: Option<u64>,
}

/// What kind of failure it is; the retry follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Worth another try, with back-off.
    Transient,
    /// The input is at fault.
    Invalid,
    /// Not allowed.
    Denied,
    /// Somebody else changed or owns it.
    Conflict,
    /// Not there.
    NotFound,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// One sentence for a person.
    pub message: String,
    /// Not before this many milliseconds.
    pub retry_after: Option<u64>,
}

impl Failure {
    /// Without a time to wait.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// With no longer a message than the host takes from a plugin or a system outside.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.message.truncate(self.message.floor_char_boundary(FAILURE_MESSAGE_BYTES_MAX));
        self
    }
}

// ---- the manifest ------------------------------------------------------------------------------------------------

/// What a plugin is and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Manifest {
    /// The plugin's name.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub summary: String,
    /// Its controllers.
    pub controllers: Vec<Controller>,
    /// All that it may ask for or do.
    pub permissions: Vec<Permission>,
    /// Providers used.
    pub providers: Vec<ProviderUse>,
    /// CustomResourceDefinitions that it brings along.
    pub crds: Vec<Json>,
    /// JSON Schema of the config; none where there is nothing to set.
    pub config_schema: Option<Json>,
}

/// A controller of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// Its name.
    pub name: String,
    /// The kind of its primaries.
    pub primary: Gvk,
    /// Only primaries that match this label selector; "" for all.
    pub labels: String,
    /// JSON pointers of the parts of the primary that matter; empty for all.
    pub view: Vec<String>,
    /// A pass of each primary at least this often, in milliseconds.
    pub resync: Option<u64>,
}

/// What may be done with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Ask for one object.
    Get,
    /// Ask for many.
    List,
    /// Create.
    Create,
    /// Apply.
    Apply,
    /// Apply to the status subresource.
    ApplyStatus,
    /// Patch.
    Patch,
    /// Delete.
    Delete,
    /// Add and remove finalizers.
    Finalize,
    /// Publish Events about it.
    Publish,
}

/// What a plugin may do with a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// The kind.
    pub gvk: Gvk,
    /// What may be done.
    pub verbs: Vec<Verb>,
    /// Globs of object names; empty for all.
    pub names: Vec<String>,
}

/// A provider that a plugin uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderUse {
    /// The provider.
    pub provider: String,
    /// The questions asked of it.
    pub questions: Vec<String>,
    /// The operations that it is asked for.
    pub operations: Vec<String>,
}
