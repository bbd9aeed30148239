//! The moments at which a power cut may come: what a test counts, and where it ends the process.

use std::fmt;
use std::sync::Arc;

/// Told of each step that changes what a restart finds, between two of which nothing does. Nobody listens on a device.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Listener>>);

type Listener = dyn Fn(&str) + Send + Sync;

impl Steps {
    /// Tells this one.
    pub fn told(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// This step has just been made.
    pub fn made(&self, what: &str) {
        if let Some(listener) = &self.0 {
            listener(what);
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Steps(told)" } else { "Steps" })
    }
}
