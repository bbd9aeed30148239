//! The clock of running guests: a thread that raises the engine's epoch.
//!
//! It is a thread of its own, so that a full queue of the async runtime does not delay it. It holds the engine weakly
//! and ends with it, and it rests while no guest runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use wasmtime::{Engine, EngineWeak};

/// Time between two ticks: how long a guest may keep a worker before others get a turn.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Ticks without a running guest after which the thread rests.
const IDLE_TICKS_MAX: u32 = 200;

/// The longest rest; then it looks whether the engine is still there.
const REST: Duration = Duration::from_secs(1);

/// Raises the epoch of one engine while guests run.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    running: AtomicUsize,
    resting: AtomicBool,
}

/// A guest is running for as long as this lives.
#[derive(Debug)]
pub(crate) struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let weak = engine.weak();
        let theirs = shared.clone();
        let handle = std::thread::Builder::new()
            .name("evenkeel-ticker".to_owned())
            .spawn(move || run(&weak, &theirs))?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Keeps the clock going until the result is dropped.
    pub(crate) fn running(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.resting.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(self.shared.clone())
    }
}

/// Ticks in `time`, and one more: the first may come at once.
pub(crate) fn ticks(time: Duration) -> u64 {
    let ticks = time.as_nanos().div_ceil(TICK.as_nanos());
    u64::try_from(ticks).unwrap_or(u64::MAX).saturating_add(1)
}

fn run(engine: &EngineWeak, shared: &Shared) {
    let mut idle = 0;
    loop {
        std::thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        engine.increment_epoch();
        drop(engine);
        idle = if shared.running.load(Ordering::SeqCst) == 0 { IDLE_TICKS_MAX.min(idle + 1) } else { 0 };
        if idle == IDLE_TICKS_MAX {
            rest(shared);
        }
    }
}

/// Waits until a guest runs, or a while. The flag is raised before the count is read, so a call in between is seen.
fn rest(shared: &Shared) {
    shared.resting.store(true, Ordering::SeqCst);
    if shared.running.load(Ordering::SeqCst) == 0 {
        std::thread::park_timeout(REST);
    }
    shared.resting.store(false, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_never_shorter_than_it_says() {
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(Duration::from_millis(5)), 2);
        assert_eq!(ticks(Duration::from_millis(6)), 3);
        assert_eq!(ticks(Duration::from_secs(2)), 401);
        assert_eq!(ticks(Duration::MAX), u64::MAX);
    }

    #[test]
    fn the_thread_ends_with_the_engine() -> std::io::Result<()> {
        let engine = Engine::default();
        let weak = engine.weak();
        let ticker = Ticker::start(&engine)?;
        drop(ticker.running());
        drop(engine);
        // The thread may hold the engine for the length of one tick.
        while weak.upgrade().is_some() {
            std::thread::yield_now();
        }
        Ok(())
    }
}
