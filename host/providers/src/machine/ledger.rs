//! Which operations were given for which machine, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as Turn;

/// Machines of which operations are remembered. Past it the oldest are forgotten; a driver finds their VMs all the same.
const MACHINES_MAX: usize = 100_000;

/// Operations of one machine that are remembered: initialisations that fail have a key each.
const KEYS_MAX: usize = 64;

/// The operations by the UIDs of their machines.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    machines: BTreeMap<String, Machine>,
    order: VecDeque<String>,
}

#[derive(Default)]
struct Machine {
    keys: BTreeSet<String>,
    turn: Arc<Turn<()>>,
}

impl Ledger {
    /// Notes an operation before it begins. Who holds the turn that it gives is alone with the machine.
    pub(super) fn begin(&self, uid: &str, key: &str) -> Arc<Turn<()>> {
        let mut book = self.lock();
        if !book.machines.contains_key(uid) {
            book.order.push_back(uid.to_owned());
            if book.order.len() > MACHINES_MAX
                && let Some(oldest) = book.order.pop_front()
            {
                book.machines.remove(&oldest);
            }
        }
        let machine = book.machines.entry(uid.to_owned()).or_default();
        if machine.keys.len() < KEYS_MAX {
            machine.keys.insert(key.to_owned());
        }
        Arc::clone(&machine.turn)
    }

    /// The VM is gone: nothing is left to be known of it.
    pub(super) fn end(&self, uid: &str) {
        let mut book = self.lock();
        book.machines.remove(uid);
        book.order.retain(|known| known != uid);
    }

    /// The keys of a machine's operations.
    pub(super) fn keys(&self, uid: &str) -> Vec<String> {
        self.lock()
            .machines
            .get(uid)
            .map(|machine| machine.keys.iter().cloned().collect())
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_known_until_the_vm_is_gone() {
        let ledger = Ledger::default();
        ledger.begin("u", "create/u");
        ledger.begin("u", "initialize/u/0");
        assert_eq!(ledger.keys("u"), ["create/u", "initialize/u/0"]);
        assert!(ledger.keys("v").is_empty());
        ledger.end("u");
        assert!(ledger.keys("u").is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_machines_is_forgotten() {
        let ledger = Ledger::default();
        for n in 0..=MACHINES_MAX {
            ledger.begin(&n.to_string(), "k");
        }
        assert!(ledger.keys("0").is_empty());
        assert_eq!(ledger.keys("1"), ["k"]);
    }
}
