//! The patches that are no apply: pure functions from an object and a patch to an object.

pub(crate) mod json_patch;
pub(crate) mod merge_patch;
pub(crate) mod strategic;
