//! Server-side apply: who owns which field, and what an apply makes of an object.
//!
//! The rules are those of structured-merge-diff: an object is walked with its schema, which says what is a leaf; a
//! manager's fields are a set of paths. [`set`] has the sets, [`walk`] what schemas mean for a walk, [`check`], [`compare`],
//! [`merge`] and [`remove`] the walks, [`managers`] the bookkeeping of `metadata.managedFields`, and [`update`] the two
//! operations.

pub(crate) mod check;
pub(crate) mod compare;
#[cfg(test)]
mod laws;
pub(crate) mod managers;
pub(crate) mod merge;
pub(crate) mod path;
pub(crate) mod remove;
pub(crate) mod scale;
pub(crate) mod set;
pub(crate) mod update;
pub(crate) mod walk;

pub(crate) use update::Applier;
