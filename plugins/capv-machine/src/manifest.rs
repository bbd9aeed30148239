//! What the plugin is and needs. An operator reads it.

use std::time::Duration;

use evenkeel_sdk::{Manifest, controller, crd, manifest, permit};
use k8s_openapi::api::core::v1::Secret;

use crate::api::VSphereMachine;
use crate::config::Config;
use crate::{machine, names, seam};

/// What keeps a machine right where vCenter says nothing of a change.
const RESYNC: Duration = Duration::from_secs(600);

/// The manifest of the plugin.
pub(crate) fn describe() -> Manifest {
    manifest(
        "capv-machine",
        env!("CARGO_PKG_VERSION"),
        "Machines of a cluster, as virtual machines on vSphere",
    )
    .crd(&crd::<VSphereMachine>())
    .config::<Config>()
    .controller(controller::<VSphereMachine>(names::CONTROLLER).view(machine::VIEW).resync(RESYNC))
    .permit(permit::<VSphereMachine>().read().apply_status().patch().finalize().publish())
    // No list: the host watches the Secrets of its machines one by one, never all Secrets of the cluster.
    .permit(permit::<Secret>().get())
    .provider(names::PROVIDER, seam::QUESTIONS, seam::OPERATIONS)
    .build()
}
