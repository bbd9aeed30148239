//! Time and memory of this process.

use std::time::{Duration, Instant};

/// The time, which a benchmark may take.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Processor time of this process so far. Threads that have ended are not in it.
pub fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let on_cpu = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(on_cpu.sum())
}

/// Runs something so many times and gives its times, sorted.
pub fn times(runs: usize, mut one: impl FnMut()) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let began = now();
            one();
            began.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// The value at a share of a sorted list.
pub fn at(times: &[Duration], share: f64) -> Duration {
    let index = ((times.len().saturating_sub(1)) as f64 * share) as usize;
    times.get(index).copied().unwrap_or_default()
}

/// Microseconds with a decimal.
pub fn micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// Milliseconds with a decimal.
pub fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A share of a time.
pub fn each(time: Duration, count: u64) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() / count.max(1) as f64)
}

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// In RAM now.
    pub resident: u64,
    /// Of that, what is this process's alone and not in any file.
    pub private: u64,
    /// The most that was ever in RAM.
    pub peak: u64,
}

impl Memory {
    /// Now.
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name: &str| field(name).unwrap_or(0) * 1024;
        Self { resident: bytes("VmRSS"), private: bytes("RssAnon"), peak: bytes("VmHWM") }
    }
}

/// Bytes as MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}
