//! What must hold at any scale.

use std::collections::HashMap;

use anyhow::ensure;
use evenkeel_sandbox::{Sandbox, WriteRecord};

/// Begins the field manager of whatever the host writes for a plugin.
const HOST: &str = "evenkeel/";

/// The writes of the host, read from the API server's log in small portions, since the log forgets.
#[derive(Default)]
pub struct Writes {
    read: u64,
    /// The last body that a manager applied to an object, or to a subresource of it, and how often it applied.
    last: HashMap<Place, (String, u64)>,
    /// Writes that said what the one before of the same manager had said; right where a sibling had taken a shared
    /// status over in between.
    pub repeated: Vec<String>,
    /// Writes that changed nothing.
    idle: Vec<String>,
    /// All writes.
    pub count: u64,
    /// Requests that wrote, or tried to, and failed.
    pub refused: u64,
}

/// Manager, kind, namespace, name, subresource.
type Place = (String, String, String, String, String);

impl Writes {
    /// Begins after all that was written so far.
    pub fn after(sandbox: &Sandbox) -> Self {
        Self { read: sandbox.last_write(), ..Self::default() }
    }

    /// Reads on.
    pub fn read(&mut self, sandbox: &Sandbox) {
        for write in sandbox.writes(self.read) {
            self.read = write.sequence;
            if write.field_manager.starts_with(HOST) {
                self.note(write);
            }
        }
    }

    fn note(&mut self, write: WriteRecord) {
        self.count += 1;
        if write.code >= 300 {
            self.refused += 1;
            return;
        }
        let WriteRecord { verb, field_manager, kind, namespace, name, subresource, body, changed, .. } =
            write;
        let said = format!("{field_manager}: {verb} {kind} {namespace}/{name} {subresource}");
        let place = (field_manager, kind, namespace, name, subresource);
        if !changed {
            self.idle.push(said.clone());
        }
        let (last, times) = self.last.entry(place).or_default();
        if *times > 0 && *last == body {
            self.repeated.push(said);
        }
        (*last, *times) = (body, *times + 1);
    }

    /// Objects, subresources apart, that were written.
    pub fn places(&self) -> usize {
        self.last.len()
    }

    /// No write changed nothing.
    pub fn check(&self) -> anyhow::Result<()> {
        let some: Vec<_> = self.idle.iter().take(5).map(String::as_str).collect();
        ensure!(some.is_empty(), "{} writes change nothing: {}", self.idle.len(), some.join(", "));
        Ok(())
    }
}
