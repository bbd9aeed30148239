//! What the plugin is and needs. An operator reads it.

use evenkeel_sdk::{Manifest, controller, manifest, permit};

use crate::config::Config;
use crate::primary::{self, Object};
use crate::{crd, names, words};

/// The manifest of the plugin.
pub(crate) fn describe() -> Manifest {
    manifest(
        "device-update",
        env!("CARGO_PKG_VERSION"),
        "Updates of the machine that the host runs on: files, hooks, applications, operating system, and the way back",
    )
    .crd(&crd::device())
    .config::<Config>()
    // No resync: the provider tells of every change, and a device at rest does nothing at all.
    .controller(controller::<Object>(names::CONTROLLER).view(primary::VIEW))
    .permit(permit::<Object>().read().apply_status().publish())
    .provider(words::NAME, &words::QUESTIONS, &words::OPERATIONS)
    .build()
}
