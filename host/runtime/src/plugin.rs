//! A loaded plugin.

use std::sync::Arc;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{CallError, Guest, GuestFuture, GuestReply};
use tokio::sync::Semaphore;

use crate::call::{Caller, Typed};

/// A component that was found fit, with what it said of itself. Dropping the last handle unloads it; calls under way
/// keep it until they end.
pub struct Plugin {
    pub(crate) caller: Arc<Caller>,
    pub(crate) typed: Typed,
    /// Its share of the caller's slots.
    pub(crate) share: Semaphore,
    pub(crate) digest: String,
    pub(crate) manifest: Manifest,
}

impl Plugin {
    /// What it is and needs.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Names the bytes of the component, as in `sha256:…`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// One call of a pass, in a fresh instance.
    pub async fn reconcile(&self, request: &Request) -> Result<GuestReply, CallError> {
        self.caller.reconcile(&self.typed, &self.share, request).await
    }
}

impl Guest for Plugin {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(self.caller.reconcile(&self.typed, &self.share, request))
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.manifest.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
