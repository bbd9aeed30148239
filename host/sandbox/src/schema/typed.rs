//! One served kind and version, and what the API server does to a body of it.

use std::sync::Arc;

use serde_json::Value;

use super::crd::Scale;
use super::custom::Custom;
use super::field_error::FieldError;
use super::native::Native;
use super::structural::Schema;
use super::{Gvk, builtin as data_file, cel};

/// A served kind and version: cheap to clone.
#[derive(Clone, Debug)]
pub struct Type {
    inner: Arc<Inner>,
}

#[derive(Debug)]
enum Inner {
    Native(Native),
    Custom(Box<Custom>),
}

/// An empty list or map that a body spelled out.
#[derive(Clone, Debug)]
pub(crate) struct Empty {
    /// Its path in messages, as in `spec.ports`.
    pub(crate) path: String,
    /// Its path as a JSON pointer.
    pub(crate) pointer: String,
    /// `[]` or `{}`.
    pub(crate) value: Value,
}

/// A body that cannot be read as the kind, in the words that follow `cannot be handled as a X: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

impl Type {
    pub(crate) fn custom(gvk: Gvk<'_>, namespaced: bool, schema: Schema, scale: Option<Scale>) -> Type {
        let custom = Custom {
            group: gvk.group.to_owned(),
            version: gvk.version.to_owned(),
            kind: gvk.kind.to_owned(),
            namespaced,
            scale,
            rules: cel::Validator::compile(&schema),
            schema,
        };
        Type { inner: Arc::new(Inner::Custom(Box::new(custom))) }
    }

    /// The schema of the whole object, with `apiVersion`, `kind` and `metadata`.
    pub fn schema(&self) -> &Schema {
        match &*self.inner {
            Inner::Native(native) => native.schema(),
            Inner::Custom(custom) => &custom.schema,
        }
    }

    /// Takes a body as the server reads it: fields that the kind does not have are dropped and told (`unknown field
    /// "spec.foo"`, in the order of the real server), nulls and empty values fall away, quantities become canonical.
    pub fn decode(&self, body: &mut Value) -> Result<Vec<String>, DecodeError> {
        match &*self.inner {
            Inner::Native(native) => native.decode(body),
            Inner::Custom(custom) => custom.decode(body),
        }
        .map_err(DecodeError)
    }

    /// The same for the result of an apply, in which upstream leaves the nulls of custom resources.
    pub(crate) fn decode_applied(&self, body: &mut Value) -> Result<Vec<String>, DecodeError> {
        match &*self.inner {
            Inner::Native(native) => native.decode(body),
            Inner::Custom(custom) => custom.decode_applied(body),
        }
        .map_err(DecodeError)
    }

    /// The empty lists and maps of a body of a built-in kind, which decoding takes away, with their paths.
    pub(crate) fn empties(&self, body: &Value) -> Vec<Empty> {
        match &*self.inner {
            Inner::Native(native) => native.empties(body),
            Inner::Custom(_) => Vec::new(),
        }
    }

    /// Fills in what the author left out. Doing it twice changes nothing. Custom resources get it on each read as well.
    pub fn default(&self, body: &mut Value) {
        match &*self.inner {
            Inner::Native(native) => native.default(body),
            Inner::Custom(custom) => custom.default(body),
        }
    }

    /// Fills in what Go writes of a built-in kind of which nothing was given.
    pub(crate) fn fill_zero(&self, body: &mut Value) {
        if let Inner::Native(native) = &*self.inner {
            native.fill_zero(body);
        }
    }

    /// What a new object of a built-in kind starts with, and what its author may not set. Custom resources are left alone:
    /// whether they have a status of their own is the definition's say.
    pub fn prepare_create(&self, body: &mut Value) {
        if let Inner::Native(native) = &*self.inner {
            native.prepare_create(body);
        }
    }

    /// What an update of a built-in kind may not touch.
    pub fn prepare_update(&self, body: &mut Value, old: &Value) {
        if let Inner::Native(native) = &*self.inner {
            native.prepare_update(body, old);
        }
    }

    /// What is told of an object although it is taken.
    pub(crate) fn warnings(&self, body: &Value) -> Vec<String> {
        match &*self.inner {
            Inner::Native(native) => native.warnings(body),
            Inner::Custom(_) => Vec::new(),
        }
    }

    /// What is wrong with a new object.
    pub fn validate_create(&self, body: &Value) -> Vec<FieldError> {
        match &*self.inner {
            Inner::Native(native) => native.validate_create(body),
            Inner::Custom(custom) => custom.validate_create(body),
        }
    }

    /// What is wrong with an update; `subresource` is the one that it came by, as in `status`.
    pub fn validate_update(&self, body: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldError> {
        match &*self.inner {
            Inner::Native(native) => native.validate_update(body, old, subresource),
            Inner::Custom(custom) => custom.validate_update(body, old, subresource),
        }
    }
}

/// A built-in kind; none if the data file does not have it.
pub fn builtin(gvk: Gvk<'_>) -> Option<Type> {
    let definition = data_file::definition_name(gvk)?;
    Some(Type { inner: Arc::new(Inner::Native(Native::new(gvk, definition))) })
}
