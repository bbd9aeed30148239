//! Where a simulation may make the host fail: before and after each thing that it does to the world.

use evenkeel_core::contract::{Action, Failure, ObjectRef};

/// An action that the host is about to carry out.
#[derive(Clone, Copy, Debug)]
pub struct Deed<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// Its controller.
    pub controller: &'a str,
    /// The primary.
    pub key: &'a ObjectRef,
    /// What it wants done.
    pub action: &'a Action,
}

/// What becomes of a deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing happens to it.
    Proceed,
    /// It fails and was not done.
    FailBefore(Failure),
    /// It is done, but its answer is lost.
    FailAfter(Failure),
}

/// Decides what goes wrong; a production host has none.
pub trait Faults: Send + Sync {
    /// Asked once for each action, before it is carried out.
    fn strike(&self, deed: Deed<'_>) -> Fate;
}
