//! What a look at a key notes down for the journal.
use evenkeel_core::contract::{Action, Observation, Reply};
use evenkeel_core::guest::CallStats;
use crate::shim::admit::Verdict;
use crate::shared::Shared;
use crate::state::Taken;
pub(crate) struct Notes {}
impl Notes {
    pub(crate) fn begin(_: &Shared, _: &Taken) -> Self { Self {} }
    pub(crate) fn replied(&mut self, _: &Reply, _: CallStats) {}
    pub(crate) fn gave_up(&mut self, _: CallStats) {}
    pub(crate) fn observed(&mut self, _: &[Observation]) {}
    pub(crate) fn judged(&mut self, _: &Action, _: &Verdict) {}
    pub(crate) fn sent<T>(&mut self, _: &T) {}
}
