//! What the plugin is and needs. An operator reads the permissions, so each kind stands here once with all that is done to it.

use std::time::Duration;

use evenkeel_sdk::{Manifest, controller, manifest, permit};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;

use crate::config::Config;
use crate::kinds::{
    ClassHead, Machine, MachineClass, MachineDeployment, MachineSet, Node, Secret, SecretHead,
};
use crate::machine::token::TokenSecret;
use crate::{class, crd, machine, names, orphans};

/// A safety net, not the way anything gets done: a pass whose input is as it was is not run at all.
const RESYNC: Duration = Duration::from_secs(600);

/// The manifest of the plugin.
pub(crate) fn describe() -> Manifest {
    let mut plugin = manifest(
        "machine-class",
        env!("CARGO_PKG_VERSION"),
        "Gardener's machine classes, their Secrets, and the machines made of them",
    );
    for definition in crd::all() {
        plugin = plugin.crd(&definition);
    }
    plugin
        .config::<Config>()
        .provider(
            names::PROVIDER,
            &["status", "operations", "list"],
            &["create", "initialize", "delete", "collect", "token"],
        )
        .controller(controller::<ClassHead>(names::MACHINE_CLASS).view(class::VIEW).resync(RESYNC))
        .controller(controller::<SecretHead>(names::SECRET).resync(RESYNC))
        .controller(controller::<Machine>(names::MACHINE).view(machine::VIEW).resync(RESYNC))
        .controller(controller::<MachineClass>(names::ORPHANS).view(orphans::VIEW).resync(RESYNC))
        .permit(permit::<MachineClass>().read().finalize().publish())
        .permit(permit::<Machine>().read().apply().apply_status().patch().delete().finalize().publish())
        .permit(permit::<MachineSet>().list())
        .permit(permit::<MachineDeployment>().list())
        // No names: which Secrets the machines' passes may read is for the operator's grant to say, by names or namespaces.
        .permit(permit::<Secret>().get().finalize().publish())
        // Where user data asks for tokens to join with.
        .permit(permit::<TokenSecret>().get().create().delete().names(&["bootstrap-token-*"]))
        .permit(permit::<Node>().read().apply().apply_status().patch().finalize().delete())
        .permit(permit::<Pod>().list().delete())
        .permit(permit::<PodDisruptionBudget>().list())
        .permit(permit::<VolumeAttachment>().list().delete())
        .build()
}
