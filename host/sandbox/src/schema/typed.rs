//! One served kind and version, and what the API server does to a body of it.

use std::sync::Arc;

use super::builtin as data_file;
use super::{Gvk, Schema};

/// A served kind and version: cheap to clone.
#[derive(Clone, Debug)]
pub struct Type {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    schema: Arc<Schema>,
}

impl Type {
    /// The schema of the whole object, with `apiVersion`, `kind` and `metadata`.
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }
}

/// A built-in kind; none if the data file does not have it.
pub fn builtin(gvk: Gvk<'_>) -> Option<Type> {
    let schema = data_file::schema(gvk)?;
    Some(Type { inner: Arc::new(Inner { schema }) })
}
