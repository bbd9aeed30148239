//! Holds virtual time still while a real server is waited for, and lets it leap from timer to timer when told to.
//!
//! Tokio's paused clock leaps to the next timer as soon as nothing is left to do here, and a host that waits for a server looks
//! just so. It does not leap while work of the blocking pool is under way; so a thread that only waits is kept there, but for
//! the moment of a leap.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The hold on the clock of one runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stillness {
    state: Arc<Mutex<State>>,
    landed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Time stands still until this is dropped.
    hold: Option<Sender<()>>,
    /// Where a leap began that is under way.
    leaping: Option<Instant>,
}

/// A runtime whose paused clock is held from the first call of [`Stillness::hold`] on.
///
/// However it ends, be it by a panic, the hold ends first: a runtime waits for the threads of its blocking pool.
#[derive(Debug)]
pub(crate) struct StillRuntime {
    runtime: Runtime,
    stillness: Stillness,
}

impl StillRuntime {
    pub(crate) fn new() -> std::io::Result<Self> {
        let stillness = Stillness::default();
        let own = stillness.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_unpark(move || own.look())
            .build()?;
        Ok(Self { runtime, stillness })
    }

    /// The hold on its clock.
    pub(crate) fn stillness(&self) -> &Stillness {
        &self.stillness
    }

    /// Runs this to its end.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl Drop for StillRuntime {
    fn drop(&mut self) {
        self.stillness.end();
    }
}

impl Stillness {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time stands still from here on. Call it on the runtime.
    pub(crate) fn hold(&self) {
        let (sender, receiver) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            // Ends when the sender is dropped.
            let _ = receiver.recv();
        });
        self.state().hold = Some(sender);
    }

    /// Time runs as it likes again.
    fn end(&self) {
        *self.state() = State::default();
    }

    /// Lets time leap towards the next timer, or to `end` where that is earlier; then it stands still again, before anybody whom
    /// the timer woke has had a turn. It may land before the timer, never behind it: tokio keeps distant timers by coarse steps
    /// of time, and stops at the beginning of the step.
    pub(crate) async fn leap(&self, end: Instant) {
        let landed = self.landed.notified();
        {
            let mut state = self.state();
            state.leaping = Some(Instant::now());
            state.hold = None;
        }
        tokio::select! {
            biased; // The same order in each run.
            () = landed => {}
            () = tokio::time::sleep_until(end) => {}
        }
        // Where it was at its end from the beginning nothing has moved.
        if self.state().leaping.take().is_some() {
            self.hold();
        }
    }

    /// After each wait of the runtime: if that moved the clock, it has moved far enough.
    fn look(&self) {
        let landed = self.state().leaping.take_if(|from| Instant::now() > *from).is_some();
        if landed {
            self.hold();
            self.landed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Runs this on a thread of its own, which has to end within ten real seconds.
    fn in_time(what: impl FnOnce() + Send + 'static) -> thread::Result<()> {
        let (ended, end) = std::sync::mpsc::channel();
        let running = thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
            let _ = ended.send(());
            result
        });
        end.recv_timeout(Duration::from_secs(10)).expect("it ends");
        running.join().expect("caught")
    }

    #[test]
    fn time_stands_still_while_another_thread_is_waited_for_and_leaps_towards_timers() {
        let runtime = StillRuntime::new().expect("a runtime");
        let stillness = runtime.stillness().clone();
        runtime.block_on(async {
            stillness.hold();
            let began = Instant::now();
            let woken = Arc::new(Mutex::new(Vec::new()));
            for seconds in [60, 20] {
                let woken = woken.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    woken.lock().expect("no panic").push(seconds);
                });
            }
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let other = thread::spawn(move || {
                // Long enough for a runtime that finds nothing to do to move its clock.
                thread::park_timeout(Duration::from_millis(50));
                let _ = sender.send(());
            });
            receiver.await.expect("the other thread answers");
            other.join().expect("it ends");
            assert_eq!(began.elapsed(), Duration::ZERO);

            let end = began + Duration::from_secs(45);
            let mut landings = Vec::new();
            while Instant::now() < end {
                stillness.leap(end).await;
                landings.push(began.elapsed().as_secs());
            }
            // Each timer has a landing of its own. What else there is comes from tokio's steps of 64 ms, 4 s and 4 min.
            assert!(landings.contains(&20) && landings.last() == Some(&45), "{landings:?}");
            assert!(landings.len() <= 6, "{landings:?}");
            assert_eq!(*woken.lock().expect("no panic"), [20]);

            stillness.leap(began).await;
            tokio::task::yield_now().await;
            assert_eq!(
                began.elapsed().as_secs(),
                45,
                "a leap to where it stands moves nothing, and holds on"
            );
        });
    }

    #[test]
    fn a_runtime_that_is_left_by_a_panic_ends_all_the_same() {
        let panicked = in_time(|| {
            let runtime = StillRuntime::new().expect("a runtime");
            let stillness = runtime.stillness().clone();
            runtime.block_on(async {
                stillness.hold();
                panic!("a scenario goes wrong");
            });
        });
        assert!(panicked.is_err());
    }
}
