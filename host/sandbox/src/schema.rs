//! What the API server knows of kinds: their schemas, and what it does to a body because of them.
//!
//! [`Type`] is one served kind and version, built in or custom. It says what happens to a body on its way in: decoding,
//! pruning, defaults, validation, all with the words of kube-apiserver. [`Schema`] answers the merge code: which lists are
//! sets, which are maps and by what keys, what is atomic.
//!
//! Knows nothing of storage, requests or time.

mod builtin;
mod cel;
pub mod columns;
mod correlate;
pub mod crd;
mod custom;
mod default;
mod field_error;
mod formats;
pub mod jsonpath;
mod list_type;
mod merge;
pub mod metadata;
pub mod names;
mod native;
mod openapi;
mod path;
mod prune;
mod structural;
mod typed;
mod validate;

#[cfg(test)]
mod tests;

pub use builtin::{builtin_groups, openapi_v3};
pub use cel::Expression;
pub(crate) use field_error::go_json;
pub use field_error::{Cause, ErrorKind, FieldError, aggregate};
pub use merge::{ListKind, MergeType, PatchStrategy};
pub use native::quantity::Quantity;
pub use structural::{JsonType, Schema};
pub(crate) use typed::Empty;
pub use typed::{DecodeError, Type, builtin};

/// The name of a kind in a version of a group; the core group is the empty text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk<'a> {
    /// API group, as in `apps`.
    pub group: &'a str,
    /// Version, as in `v1`.
    pub version: &'a str,
    /// Kind, as in `Deployment`.
    pub kind: &'a str,
}

impl<'a> Gvk<'a> {
    /// Puts the three names together.
    pub fn new(group: &'a str, version: &'a str, kind: &'a str) -> Self {
        Gvk { group, version, kind }
    }

    /// The kind that an object says it is; empty texts where it says nothing.
    pub fn of(object: &'a serde_json::Value) -> Self {
        let text = |field: &str| object.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        Gvk { group, version, kind: text("kind") }
    }
}
