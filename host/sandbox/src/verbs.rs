//! The verbs that write, in the order of steps of the real server.

pub(crate) mod admit;
pub(crate) mod bind;
pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod empty;
pub(crate) mod finish;
pub(crate) mod patch;
pub(crate) mod pods;
pub(crate) mod scale;
pub(crate) mod update;
