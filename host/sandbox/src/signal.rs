//! What watches are woken by.
//!
//! Tokio's `watch` channel wakes those who wait in an order by chance, and with it the order of all that follows. These are woken
//! in the order in which they began to wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What a watcher is woken with: the newest revision of the table, and how often its watches were cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    pub revision: u64,
    pub cuts: u64,
}

/// Gives signals; with its end no more come.
#[derive(Debug)]
pub(crate) struct Bell(Arc<Shared>);

/// Hears the signals of a bell.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    /// How many it has heard.
    heard: u64,
}

/// No more signals come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    rung: Notify,
}

#[derive(Debug)]
struct State {
    signal: Signal,
    /// How often it was rung.
    count: u64,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    pub(crate) fn new(revision: u64) -> Self {
        let state = State { signal: Signal { revision, cuts: 0 }, count: 0, over: false };
        Self(Arc::new(Shared { state: Mutex::new(state), rung: Notify::new() }))
    }

    /// Changes the signal and wakes whoever waits for that.
    pub(crate) fn ring(&self, change: impl FnOnce(&mut Signal)) {
        {
            let mut state = self.0.state();
            change(&mut state.signal);
            state.count += 1;
        }
        self.0.rung.notify_waiters();
    }

    /// Hears all that comes from now on.
    pub(crate) fn listener(&self) -> Listener {
        Listener { heard: self.0.state().count, shared: Arc::clone(&self.0) }
    }

    pub(crate) fn has_listeners(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.rung.notify_waiters();
    }
}

impl Listener {
    /// The signal as it is now, which counts as heard.
    pub(crate) fn hear(&mut self) -> Signal {
        let state = self.shared.state();
        self.heard = state.count;
        state.signal
    }

    /// Waits for a signal that was not heard yet.
    pub(crate) async fn changed(&mut self) -> Result<(), Over> {
        loop {
            // Before the look, so that nothing rings between the two unheard.
            let rung = self.shared.rung.notified();
            {
                let state = self.shared.state();
                if state.count != self.heard {
                    self.heard = state.count;
                    return Ok(());
                }
                if state.over {
                    return Err(Over);
                }
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_began_to_wait_first_is_woken_first() {
        let bell = Bell::new(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..50)
            .map(|number| {
                let (mut listener, order) = (bell.listener(), Arc::clone(&order));
                tokio::spawn(async move {
                    listener.changed().await.expect("it rings");
                    order.lock().expect("no panic").push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        bell.ring(|signal| signal.revision = 2);
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(*order.lock().expect("no panic"), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_rang_before_somebody_waits_is_heard_once() {
        let bell = Bell::new(1);
        let mut listener = bell.listener();
        bell.ring(|signal| signal.cuts += 1);
        bell.ring(|signal| signal.revision = 5);
        assert_eq!(listener.changed().await, Ok(()));
        assert_eq!(listener.hear(), Signal { revision: 5, cuts: 1 });
        drop(bell);
        assert_eq!(listener.changed().await, Err(Over));
    }

    #[test]
    fn who_listens_is_known() {
        let bell = Bell::new(1);
        assert!(!bell.has_listeners());
        let listener = bell.listener();
        assert!(bell.has_listeners());
        drop(listener);
        assert!(!bell.has_listeners());
    }
}
