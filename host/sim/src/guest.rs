//! A plugin under another name for its bytes, or with some of its controllers only.

use std::collections::BTreeSet;
use std::sync::Arc;

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
        self.inner.reconcile(request)
    }
}
