//! A sandbox that is kept in one file and comes back after a crash with every write that was answered.
//!
//! The file holds a line for each request that wrote: a checksum, and what the request changed. It is forced to the disk before
//! the request is answered and before anybody else can read what was written, so nobody ever saw what is lost. A line that a
//! crash cut off is left out; a line that is wrong anywhere else is told, and nothing is overwritten. When the file is opened, and
//! whenever it has grown to several times what it holds, it is written anew, beside the old one, and takes its place.
//!
//! The history of watches is not kept: a client that comes back with an old version is told `410 Expired`, and lists anew.

mod file;
mod line;

use crate::error::ApiError;
use crate::sandbox::{Sandbox, SandboxOptions};
use crate::store::Change;
use crate::store::object::Key;
use crate::turn::{State, Turn, WriteOptions};
use file::Log;
use line::{Entry, Transaction};
use serde_json::Value;
use std::path::Path;

pub use file::OpenError;

/// The resource whose objects say what else is served.
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Keeps what the store changes.
pub(crate) struct Keeper {
    log: Log,
    /// A write could not be kept: what is in memory is ahead of the file, and no write is answered any more.
    broken: bool,
}

impl Sandbox {
    /// A sandbox that is kept in a file: what an earlier one left there is there again. The file is new, or was made by this
    /// function; only one process at a time has it open. `options.bootstrap` counts for a new file only.
    ///
    /// # Errors
    /// Where the file cannot be read or written, is open elsewhere, is no such file, or is damaged. It is left as it was then.
    pub fn open(options: SandboxOptions, path: &Path) -> Result<Sandbox, OpenError> {
        let bootstrap = options.bootstrap;
        let sandbox = Sandbox::new(SandboxOptions { bootstrap: false, ..options });
        let (mut log, transactions) = Log::open(path)?;
        let new = transactions.is_empty();
        {
            let now = sandbox.now();
            let mut state = sandbox.inner.write();
            for transaction in transactions {
                Turn::new(&mut state, now, WriteOptions::default()).replay(&transaction)?;
            }
            state.book_addresses();
            state.store.forget_history();
        }
        if new && bootstrap {
            sandbox.bootstrap();
        }
        {
            let mut state = sandbox.inner.write();
            log.rewrite(&state.snapshot())?;
            state.store.note_changes();
            state.keeper = Some(Keeper { log, broken: false });
        }
        Ok(sandbox)
    }
}

impl State {
    /// Makes what was changed last as long as the disk.
    pub(crate) fn keep(&mut self) -> Result<(), ApiError> {
        let changes = self.store.take_changes();
        if self.keeper.is_none() || changes.is_empty() {
            return Ok(());
        }
        let text = self.transaction(&changes);
        let lost =
            || ApiError::new(500, "InternalError", "Internal error occurred: the write could not be kept");
        let Some(keeper) = self.keeper.as_mut().filter(|keeper| !keeper.broken) else { return Err(lost()) };
        if let Err(error) = keeper.log.append(&text) {
            tracing::error!(%error, "the sandbox's file cannot be written: no write is answered any more");
            keeper.broken = true;
            return Err(lost());
        }
        if keeper.log.is_mostly_old() {
            self.rewrite();
        }
        Ok(())
    }

    /// Writes the file anew. Where that fails the old one goes on.
    fn rewrite(&mut self) {
        let snapshot = self.snapshot();
        if let Some(keeper) = &mut self.keeper
            && let Err(error) = keeper.log.rewrite(&snapshot)
        {
            tracing::warn!(%error, "the sandbox's file could not be written anew");
        }
    }

    fn transaction(&self, changes: &[Change]) -> Vec<u8> {
        let entries = changes.iter().filter_map(|change| {
            // A table that is gone took its objects along.
            let resource = self.registry.of_table(change.table)?;
            let of = format!("{}/{}", resource.group, resource.plural);
            Some(match &change.stored {
                Some(stored) => Entry::Put { of, json: &stored.json },
                None => Entry::Remove { of, key: change.key.to_string() },
            })
        });
        line::encode(self.store.revision(), self.identities.counts(), entries)
    }

    /// Everything, as one transaction; definitions first, so that their kinds are there.
    fn snapshot(&self) -> Vec<u8> {
        let is_definition =
            |table| self.registry.of_table(table).is_some_and(|one| one.is(DEFINITIONS.0, DEFINITIONS.1));
        let mut tables: Vec<_> = self.store.tables().collect();
        tables.sort_by_key(|(id, _)| !is_definition(*id));
        let changes: Vec<Change> = tables
            .into_iter()
            .flat_map(|(table, content)| {
                let objects = content.objects.iter();
                objects.map(move |(key, stored)| Change {
                    table,
                    key: key.clone(),
                    stored: Some(stored.clone()),
                })
            })
            .collect();
        self.transaction(&changes)
    }

    fn book_addresses(&mut self) {
        let Some(services) = self.registry.find("", "services") else { return };
        let Some(table) = self.store.table(services.table) else { return };
        for stored in table.objects.values() {
            self.addresses.book(&stored.value());
        }
    }
}

impl Turn<'_> {
    /// Puts back what a request changed.
    fn replay(&mut self, transaction: &Transaction) -> Result<(), OpenError> {
        for change in &transaction.changes {
            let (group, plural) = change.of.split_once('/').unwrap_or_default();
            let Some(resource) = self.state.registry.find(group, plural).cloned() else {
                return Err(OpenError::Unserved { resource: change.of.clone() });
            };
            let definition = resource.is(DEFINITIONS.0, DEFINITIONS.1);
            match (&change.put, &change.remove) {
                (Some(object), _) => {
                    let key = self.state.store.restore(resource.table, object);
                    if definition {
                        self.serve_again(&key);
                    }
                }
                (None, Some(key)) => {
                    let last = self.state.store.take(resource.table, key);
                    if definition && let Some(last) = last {
                        let spec = &last.value()["spec"];
                        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
                        self.state
                            .store
                            .clear(self.state.registry.find(&group, &plural).map(|one| one.table));
                        self.unserve(&last.head.name, &group, &plural);
                    }
                }
                (None, None) => {}
            }
        }
        self.state.store.advance(transaction.revision);
        self.state.identities.resume(transaction.uids, transaction.suffixes);
        Ok(())
    }

    fn serve_again(&mut self, key: &Key) {
        let found = self.state.registry.find(DEFINITIONS.0, DEFINITIONS.1).cloned();
        let stored = found.and_then(|definitions| self.state.store.get(definitions.table, key).cloned());
        let Some(stored) = stored else { return };
        let definition = stored.value();
        if let Ok(compiled) = crate::schema::crd::compile(&definition) {
            self.serve(&compiled, &stored, &definition["spec"]);
        }
    }
}

#[cfg(test)]
mod tests;
