//! What the host logs while a scenario runs, at every level: a text that must not be put out must not stand there either.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// Lines of the host's log. The sandbox's own are not among them: it plays the API server, which has seen everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens on this thread until the guard is dropped.
    pub(super) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let sink = log.clone();
        let filter = Targets::new()
            .with_default(LevelFilter::DEBUG)
            .with_target("evenkeel", LevelFilter::TRACE)
            .with_target("evenkeel_sandbox", LevelFilter::OFF);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || Sink(sink.clone()))
            .with_ansi(false)
            .without_time();
        let subscriber = tracing_subscriber::registry().with(filter).with(lines);
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that hold a text.
    pub(super) fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = String::from_utf8_lossy(&bytes);
        lines.lines().filter(|line| line.contains(text)).map(|line| line.trim().to_owned()).collect()
    }
}

struct Sink(Log);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_logs_is_kept_down_to_the_finest_level_and_no_longer() {
        let (log, guard) = Log::listen();
        tracing::trace!(target: "evenkeel_engine::worker", body = "hunter2", "sent");
        tracing::trace!(target: "evenkeel_sandbox::api", body = "hunter2", "received");
        drop(guard);
        tracing::error!(target: "evenkeel_engine::worker", body = "hunter2", "after");
        let lines = log.lines_with("hunter2");
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("evenkeel_engine::worker") && lines[0].contains("sent"), "{lines:?}");
    }
}
