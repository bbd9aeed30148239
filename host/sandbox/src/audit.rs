//! The log of requests that write, for tests that ask who did what.

use std::collections::VecDeque;

/// Requests kept; the oldest go first.
const RECORDS_MAX: usize = 100_000;

/// One request that wrote, or tried to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteRecord {
    /// Counts up from 1 over the life of the sandbox.
    pub sequence: u64,
    /// `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// API version, as in `v1`.
    pub version: String,
    /// Kind, as in `Pod`.
    pub kind: String,
    /// Plural, as in `pods`.
    pub resource: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object; empty for a generated one that was refused.
    pub name: String,
    /// Field manager: the parameter, else the user agent's first word.
    pub field_manager: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Media type of a patch.
    pub content_type: String,
    /// Whether a server-side apply was forced.
    pub force: bool,
    /// Nothing was stored by request.
    pub dry_run: bool,
    /// HTTP status code of the answer.
    pub code: u16,
    /// Revision of the store after it.
    pub revision: u64,
    /// Whether the revision moved: false for a write without a change.
    pub changed: bool,
    /// The body as it was sent.
    pub body: String,
}

#[derive(Debug, Default)]
pub(crate) struct Audit {
    records: VecDeque<WriteRecord>,
    sequence: u64,
}

impl Audit {
    pub(crate) fn add(&mut self, mut record: WriteRecord) {
        self.sequence += 1;
        record.sequence = self.sequence;
        self.records.push_back(record);
        if self.records.len() > RECORDS_MAX {
            self.records.pop_front();
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn since(&self, sequence: u64) -> Vec<WriteRecord> {
        self.records.iter().filter(|record| record.sequence > sequence).cloned().collect()
    }
}
