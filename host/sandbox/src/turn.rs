//! One request's turn at the state: what it reads, writes, and which chores its writes leave to the controllers.

use crate::durable::Keeper;
use crate::error::ApiError;
use crate::identity::Identities;
use crate::lifecycle::Chore;
use crate::resources::{Offers, Registry, Resource};
use crate::schema::{Empty, FieldError};
use crate::services::Addresses;
use crate::store::object::{Stored, key_of};
use crate::store::{Store, TableId};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Everything that the sandbox knows, under one lock.
pub(crate) struct State {
    pub store: Store,
    pub registry: Registry,
    pub identities: Identities,
    pub addresses: Addresses,
    /// UIDs of objects whose next write counts even if it changes nothing: upstream stored them in another form than it reads.
    pub unclean: BTreeSet<Arc<str>>,
    /// Where the state is kept, if it is.
    pub keeper: Option<Keeper>,
}

impl State {
    /// Another state that knows the same, and is kept nowhere.
    pub(crate) fn fork(&self) -> State {
        State {
            store: self.store.fork(),
            registry: self.registry.clone(),
            identities: self.identities.clone(),
            addresses: self.addresses.clone(),
            unclean: self.unclean.clone(),
            keeper: None,
        }
    }
}

/// What to make of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// The `fieldManager` parameter, else the user agent up to the first slash.
    pub manager: String,
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub force: bool,
}

/// The resource, version and place that a request is about.
#[derive(Clone)]
pub(crate) struct Target {
    pub resource: Arc<Resource>,
    /// Index of the version that the client speaks.
    pub version: usize,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Empty for a create or a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

impl Target {
    pub(crate) fn key(&self) -> Arc<str> {
        key_of(&self.namespace, &self.name)
    }

    /// Whether a PUT or an apply here makes an object that is not there.
    pub(crate) fn creates_on_update(&self) -> bool {
        self.resource.traits.create_on_update && matches!(self.subresource.as_str(), "" | "status")
    }

    pub(crate) fn served(&self) -> &crate::resources::Version {
        &self.resource.versions[self.version]
    }

    pub(crate) fn not_found(&self) -> ApiError {
        let mut subject = self.resource.subject();
        if self.resource.traits.offers == Offers::Reads {
            subject.kind = &self.resource.singular;
        }
        ApiError::not_found(subject, &self.name)
    }
}

/// One request at work.
pub(crate) struct Turn<'a> {
    pub state: &'a mut State,
    pub now: Timestamp,
    /// `now` as objects write it.
    pub now_text: String,
    pub options: WriteOptions,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Paths of empty lists and maps that the body spelled out. They are not stored; some messages and generations tell them
    /// from those that were left out.
    pub empties: Vec<Empty>,
    /// Empty parts of the metadata that are stored, and that nobody reads again.
    pub unclean: Map<String, Value>,
    pub(crate) chores: VecDeque<Chore>,
    pub(crate) pending: BTreeSet<Chore>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(state: &'a mut State, now: Timestamp, options: WriteOptions) -> Turn<'a> {
        let now_text = second(now);
        Turn {
            state,
            now,
            now_text,
            options,
            warnings: Vec::new(),
            empties: Vec::new(),
            unclean: Map::new(),
            chores: VecDeque::new(),
            pending: BTreeSet::new(),
        }
    }

    /// The live object of the target.
    pub(crate) fn live(&self, target: &Target) -> Result<Arc<Stored>, ApiError> {
        self.find(target).ok_or_else(|| target.not_found())
    }

    pub(crate) fn find(&self, target: &Target) -> Option<Arc<Stored>> {
        self.state.store.get(target.resource.table, &target.key()).cloned()
    }

    /// Stores an object (in the storage version), unless this is a dry run.
    pub(crate) fn put(&mut self, resource: &Arc<Resource>, object: Value) -> Arc<Stored> {
        if self.options.dry_run {
            return Arc::new(Stored::freeze(&object, 0));
        }
        let stored = self.state.store.put(resource.table, object);
        self.written(resource, &stored);
        stored
    }

    /// Removes an object, unless this is a dry run; returns its last state.
    pub(crate) fn remove(&mut self, resource: &Arc<Resource>, key: &str) -> Option<Arc<Stored>> {
        if self.options.dry_run {
            return self.state.store.get(resource.table, key).cloned();
        }
        let last = self.state.store.remove(resource.table, key)?;
        self.removed(resource, &last);
        Some(last)
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Whether the body spelled out an empty list or map in a top-level field.
    pub(crate) fn says_empty(&self, field: &str) -> bool {
        let inside = |path: &str| path.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'));
        self.empties.iter().any(|empty| inside(&empty.path))
    }

    /// The errors with empty values shown as they were given.
    pub(crate) fn as_given(&self, mut errors: Vec<FieldError>) -> Vec<FieldError> {
        for error in errors.iter_mut().filter(|error| error.bad_value == Some(Value::Null)) {
            if let Some(empty) = self.empties.iter().find(|empty| empty.path == error.field) {
                error.bad_value = Some(empty.value.clone());
            }
        }
        errors
    }

    /// Remembers whether the stored form of an object is another than the one that is read.
    pub(crate) fn note_unclean(&mut self, stored: &Stored, unclean: bool) {
        if self.options.dry_run {
            return;
        }
        match unclean {
            true => self.state.unclean.insert(stored.head.uid.clone()),
            false => self.state.unclean.remove(&stored.head.uid),
        };
    }

    /// The resource of a table.
    pub(crate) fn resource_of(&self, table: TableId) -> Option<Arc<Resource>> {
        self.state.registry.of_table(table).cloned()
    }
}

/// A time as objects write it: RFC 3339, whole seconds.
pub(crate) fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
