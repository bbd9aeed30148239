//! What a plugin may use, and the limiter that says so to a running instance.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// What a plugin may use. Each is a hard limit of one call, but for the size of the component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest component that is taken, in bytes.
    pub component: u64,
    /// Most linear memory of an instance, all its memories together, in bytes.
    pub memory: u64,
    /// Longest that a call may compute. Only time in which the guest had a turn counts, so a busy host fails no
    /// plugin for it.
    pub time: Duration,
    /// Largest reply, in bytes of its strings and lists.
    pub reply: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { component: 64 << 20, memory: 64 << 20, time: Duration::from_secs(2), reply: 8 << 20 }
    }
}

/// Core instances, tables and memories of one instance: languages with a runtime of their own bring several.
const CORE_INSTANCES_MAX: usize = 64;
const TABLES_MAX: usize = 64;
const MEMORIES_MAX: usize = 16;
/// Entries of one table; each costs the host a pointer.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 20_000;

/// Judges each growth of one instance, and remembers that it refused one: the guest's own answer to a refusal is
/// mostly a trap that says nothing about memory.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: u64,
    memory: u64,
    refused: bool,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limit: limits.memory, memory: 0, refused: false }
    }

    /// Linear memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether the instance wanted more than it may have.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let grown = self.memory.saturating_add(desired.saturating_sub(current) as u64);
        if grown > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.memory = grown;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= TABLE_ELEMENTS_MAX;
        self.refused |= !fits;
        Ok(fits)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        TABLES_MAX
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory: u64) -> Limiter {
        Limiter::new(&Limits { memory, ..Limits::default() })
    }

    #[test]
    fn memories_count_together() {
        let mut limiter = limiter(100);
        assert!(limiter.memory_growing(0, 60, None).is_ok_and(|fits| fits));
        assert!(limiter.memory_growing(0, 40, None).is_ok_and(|fits| fits));
        assert!(!limiter.refused());
        assert!(limiter.memory_growing(40, 41, None).is_ok_and(|fits| !fits));
        assert!(limiter.refused());
        assert_eq!(limiter.memory(), 100);
    }

    #[test]
    fn the_largest_number_is_refused_and_does_not_wrap() {
        let mut limiter = limiter(u64::MAX - 1);
        assert!(limiter.memory_growing(0, usize::MAX, None).is_ok_and(|fits| !fits));
        assert!(limiter.table_growing(0, usize::MAX, None).is_ok_and(|fits| !fits));
    }
}
