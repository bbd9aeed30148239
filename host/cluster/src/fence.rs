//! Keeps a host from writing while another one may act.
//!
//! A process can be stopped at any point, for any time: between deciding to write and writing, too. So it is not enough
//! to ask once who leads. Each write is let through the fence when it begins, and again before every step that it makes
//! on its way out; it is given up when its time is over, so that nothing of it is left to be sent later. What it has handed
//! on by then lies with its connection, which another task sees to: so connections for writes are let through, too.
//!
//! Two clocks are asked, and the more careful answer counts: tokio's stands still while the machine sleeps, the time of
//! day may be set back.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::client::ClientBuilder;
use tokio::time::Instant;

use crate::Clock;
use crate::rest::lock;

/// Lets writes through for as long as a Lease allows; shut until it is opened.
pub struct Fence {
    clock: Clock,
    open: Mutex<Option<Open>>,
}

/// For how long it is open, by both clocks.
#[derive(Clone, Copy)]
struct Open {
    begin_before: (Instant, Timestamp),
    end_by: (Instant, Timestamp),
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fence").field("open", &self.is_open()).finish_non_exhaustive()
    }
}

impl Fence {
    /// One that is shut. The clock tells the time of day.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, open: Mutex::new(None) })
    }

    /// Lets writes begin for `act`, and go on for `finish`, both from when the Lease was asked for: by tokio's clock and
    /// by the time of day, as they stood then.
    pub fn open(&self, asked: (Instant, Timestamp), act: Duration, finish: Duration) {
        let after = |time: Duration| {
            let by_day = SignedDuration::try_from(time).unwrap_or_default();
            (asked.0 + time, asked.1.saturating_add(by_day).unwrap_or(asked.1))
        };
        *lock(&self.open) = Some(Open { begin_before: after(act), end_by: after(finish) });
    }

    /// Lets nothing through any more; what is on its way is given up.
    pub fn shut(&self) {
        *lock(&self.open) = None;
    }

    /// Whether a write may begin now.
    pub fn is_open(&self) -> bool {
        self.is_before(|open| open.begin_before)
    }

    /// How long a write that begins now may take; none where it may not begin.
    pub(crate) fn allows(&self) -> Option<Duration> {
        let open = (*lock(&self.open))?;
        self.is_open().then(|| open.end_by.0.saturating_duration_since(Instant::now()))
    }

    fn is_before(&self, end: impl Fn(&Open) -> (Instant, Timestamp)) -> bool {
        let Some(open) = *lock(&self.open) else { return false };
        let (by_timer, by_day) = end(&open);
        Instant::now() < by_timer && (self.clock)() < by_day
    }

    /// Goes on with a write, or with an operation outside Kubernetes, for as long as it may go on; none where it had to be
    /// given up.
    pub async fn escort<T>(&self, write: impl Future<Output = T>) -> Option<T> {
        let mut write = pin!(write);
        std::future::poll_fn(|context| {
            // Asked before each step: the process may have been stopped since the last one.
            if !self.is_before(|open| open.end_by) {
                return Poll::Ready(None);
            }
            write.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// A client for writes. Its connections make no step once the time of writes is over, and are cut instead: a request
    /// that they hold by then is never sent.
    ///
    /// # Errors
    /// If the configuration cannot be used.
    pub fn client(self: &Arc<Self>, config: kube::Config) -> Result<kube::Client, kube::Error> {
        Ok(ClientBuilder::try_from((config, Connections(Arc::clone(self))))?.build())
    }
}

/// Runs the connections of a client.
#[derive(Clone)]
struct Connections(Arc<Fence>);

impl<C: Future<Output = ()> + Send + 'static> hyper::rt::Executor<C> for Connections {
    fn execute(&self, connection: C) {
        let fence = Arc::clone(&self.0);
        tokio::spawn(async move { fence.escort(connection).await });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use hyper::rt::Executor as _;

    use tokio::time::sleep;

    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    /// A fence, and a clock that shows how many seconds ago the day began.
    fn fence() -> (Arc<Fence>, Arc<AtomicI64>) {
        let day = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&day);
        let clock = move || Timestamp::from_second(clock.load(Ordering::SeqCst)).unwrap_or_default();
        (Fence::new(Arc::new(clock)), day)
    }

    fn open(fence: &Fence) {
        fence.open((Instant::now(), (fence.clock)()), secs(10), secs(12));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_shut_until_it_is_opened_and_again_when_its_time_is_over() {
        let (fence, _) = fence();
        assert!(!fence.is_open());
        open(&fence);
        assert_eq!(fence.allows(), Some(secs(12)));
        sleep(secs(9)).await;
        assert_eq!(fence.allows(), Some(secs(3)));
        sleep(secs(1)).await;
        assert_eq!(fence.allows(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_slept_finds_it_shut_although_its_timer_stood_still() {
        let (fence, day) = fence();
        open(&fence);
        day.store(11, Ordering::SeqCst);
        assert!(!fence.is_open());
        // A clock that is set back opens nothing for longer.
        day.store(-3600, Ordering::SeqCst);
        sleep(secs(10)).await;
        assert!(!fence.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_for_writes_makes_no_step_once_their_time_is_over() {
        let (fence, day) = fence();
        open(&fence);
        let steps = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&steps);
        Connections(Arc::clone(&fence)).execute(async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                sleep(secs(1)).await;
            }
        });
        sleep(Duration::from_millis(3_500)).await;
        assert_eq!(steps.load(Ordering::SeqCst), 4);
        // The process was stopped meanwhile, and what it was about to send waits to be sent.
        day.store(12, Ordering::SeqCst);
        sleep(secs(5)).await;
        assert_eq!(steps.load(Ordering::SeqCst), 4);
        assert_eq!(Arc::strong_count(&steps), 1, "it is cut");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_on_its_way_is_given_up_at_its_next_step() {
        let (fence, day) = fence();
        open(&fence);
        let sent = AtomicI64::new(0);
        let write = async {
            sleep(secs(5)).await; // As for a token that has to be renewed.
            sent.fetch_add(1, Ordering::SeqCst);
        };
        let slept = async {
            sleep(secs(1)).await;
            day.store(60, Ordering::SeqCst);
        };
        let (came, ()) = tokio::join!(fence.escort(write), slept);
        assert_eq!((came, sent.into_inner()), (None, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_began_in_time_may_end_a_little_later() {
        let (fence, _) = fence();
        open(&fence);
        sleep(secs(9)).await;
        assert_eq!(fence.escort(sleep(secs(2))).await, Some(()));
        assert_eq!(fence.escort(sleep(secs(2))).await, None);
    }
}
