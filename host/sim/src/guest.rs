//! A plugin under another name for its bytes, or with some of its controllers only; and its calls, each at one go.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};

/// A plugin as a scenario wants it: the guest decides as ever, its description differs.
pub struct Dressed {
    inner: Arc<dyn Guest>,
    manifest: Manifest,
    swaps: u32,
}

struct Costume {
    inner: Arc<dyn Guest>,
    manifest: Manifest,
    digest: String,
}

impl Dressed {
    /// With these controllers only, or all.
    pub fn new(inner: Arc<dyn Guest>, controllers: Option<&[String]>) -> Self {
        let mut manifest = inner.manifest().clone();
        if let Some(wanted) = controllers {
            let wanted: BTreeSet<&String> = wanted.iter().collect();
            manifest.controllers.retain(|controller| wanted.contains(&controller.name));
        }
        Self { inner, manifest, swaps: 0 }
    }

    /// From now on it goes by another digest.
    pub fn redress(&mut self) {
        self.swaps += 1;
    }

    /// The guest as it is now.
    pub fn current(&self) -> Arc<dyn Guest> {
        let digest = match self.swaps {
            0 => self.inner.digest().to_owned(),
            swaps => format!("{}+{swaps}", self.inner.digest()),
        };
        Arc::new(Costume { inner: Arc::clone(&self.inner), manifest: self.manifest.clone(), digest })
    }
}

impl Guest for Costume {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        let call = self.inner.reconcile(request);
        Box::pin(async move { at_one_go(call) })
    }
}

/// How long a call that waits may sleep without being woken.
const LOOK: Duration = Duration::from_millis(1);

/// Drives a call to its end before anything else on this thread goes on.
///
/// The runtime of plugins gives others a turn every few milliseconds of real time, and lets a call wait for a free slot
/// while other scenarios hold them all. In the first case passes would change places, in the second the paused clock would
/// find nothing to do and leap to the next timer: both by the load of the machine alone. On virtual time a call takes none. (So it
/// cannot wait for a timer of this runtime either; a pure function has no reason to.)
fn at_one_go<T>(call: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // Tokio's budget is given back between two turns of a task, and there is none in here.
    let mut call = pin!(tokio::task::coop::unconstrained(call));
    loop {
        match call.as_mut().poll(&mut context) {
            Poll::Ready(reply) => return reply,
            // Whoever wants a turn of tokio's itself is woken by the runtime, which waits for us.
            Poll::Pending => thread::park_timeout(LOOK),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// What a call that waits for another thread makes of the paused clock, and of a task beside it.
    async fn while_waiting(at_one_go_too: bool) -> (Duration, bool) {
        let began = Instant::now();
        let beside = tokio::spawn(async {
            tokio::time::sleep(Duration::from_secs(60)).await;
        });
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = thread::spawn(move || {
            // Long enough for a runtime that finds nothing to do to move its clock.
            thread::park_timeout(Duration::from_millis(50));
            let _ = sender.send(());
        });
        if at_one_go_too {
            at_one_go(receiver).expect("the other thread answers");
        } else {
            receiver.await.expect("the other thread answers");
        }
        other.join().expect("it ends");
        (began.elapsed(), beside.is_finished())
    }

    #[tokio::test(start_paused = true)]
    async fn no_virtual_time_passes_while_a_call_waits_for_another_thread() {
        assert_eq!(while_waiting(true).await, (Duration::ZERO, false));
        // Without that the clock leaps, and what was to come later comes first.
        assert_ne!(while_waiting(false).await.0, Duration::ZERO);
    }

    #[tokio::test]
    async fn a_call_that_gives_others_a_turn_more_often_than_a_task_may_comes_to_its_end() {
        let call = async {
            for _ in 0..200 {
                tokio::task::consume_budget().await;
                tokio::task::yield_now().await;
            }
            7
        };
        assert_eq!(at_one_go(call), 7);
    }
}
