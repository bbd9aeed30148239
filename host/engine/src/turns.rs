//! Writes of one object in turn: two keys may come to the same conclusion about it at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::contract::ObjectRef;
use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

/// Who may write which object now. Each write is then judged by what the one before it has left.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<ObjectRef, Arc<Gate<()>>>>);

/// A turn, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    object: &'a ObjectRef,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody else writes the object. Those who wait come in the order in which they asked.
    pub(crate) async fn of<'a>(&'a self, object: &'a ObjectRef) -> Turn<'a> {
        let gate = self.gates().entry(object.clone()).or_default().clone();
        let guard = Some(gate.lock_owned().await);
        Turn { turns: self, object, guard }
    }

    fn gates(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectRef, Arc<Gate<()>>>> {
        // Nothing panics between two changes of the map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut gates = self.turns.gates();
        // Whoever waits holds the gate, too.
        if gates.get(self.object).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(self.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use evenkeel_core::contract::Gvk;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_writes_an_object_and_nothing_is_left_behind() {
        let turns = Arc::new(Turns::default());
        let log = Arc::new(Mutex::new(Vec::new()));
        let write = |name: &'static str, object: &str| {
            let object = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), object);
            let (turns, log) = (turns.clone(), log.clone());
            async move {
                let _turn = turns.of(&object).await;
                log.lock().expect("no panic").push(format!("{name} begins"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                log.lock().expect("no panic").push(format!("{name} ends"));
            }
        };
        let given_up = tokio::time::timeout(Duration::from_millis(10), write("0", "x"));
        let _ = tokio::join!(given_up, write("1", "x"), write("2", "x"), write("3", "y"));
        let log = log.lock().expect("no panic").join(", ");
        assert_eq!(log, "0 begins, 3 begins, 1 begins, 3 ends, 1 ends, 2 begins, 2 ends");
        assert!(turns.gates().is_empty());
    }
}
