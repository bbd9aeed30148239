//! What Kite is and needs. An operator reads the permissions, so each kind stands here once with all that is done to it.

use std::time::Duration;

use evenkeel_sdk::{ControllerBuilder, Kind, Manifest, controller, crd, manifest, permit};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, ResourceQuota, Secret, Service,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};

use crate::api::{KiteUser, KiteVirtualMachine};
use crate::kinds::{DataVolume, VirtualMachine, VirtualMachineInstance, VmService};
use crate::{data_volume, machine, names, namespace, user};

/// A safety net, not the way anything gets done: every change runs its passes at once.
const USER_RESYNC: Duration = Duration::from_secs(180);
/// The same for machines.
const MACHINE_RESYNC: Duration = Duration::from_secs(300);

/// The manifest of the plugin.
pub(crate) fn describe() -> Manifest {
    let kite = manifest(
        "kite",
        env!("CARGO_PKG_VERSION"),
        "Users with isolated namespaces, and virtual machines in them",
    );
    kite.crd(&crd::<KiteUser>())
        .crd(&crd::<KiteVirtualMachine>())
        .controller(controller::<KiteUser>(names::KITE_USER).view(user::VIEW).resync(USER_RESYNC))
        .controller(
            controller::<Namespace>(names::NAMESPACE)
                .labels(names::MANAGED_SELECTOR)
                .view(namespace::VIEW)
                .resync(USER_RESYNC),
        )
        .controller(
            controller::<KiteVirtualMachine>(names::VIRTUAL_MACHINE)
                .view(machine::VIEW)
                .resync(MACHINE_RESYNC),
        )
        .controller(of_machines::<VirtualMachine>(names::VM_STATUS))
        .controller(of_machines::<VmService>(names::VM_SERVICE))
        .controller(of_machines::<DataVolume>(names::DATA_VOLUME).view(data_volume::VIEW))
        .permit(permit::<KiteUser>().read().apply_status().finalize().publish())
        .permit(permit::<KiteVirtualMachine>().read().apply_status().finalize().delete().publish())
        .permit(permit::<Namespace>().read().create().apply().patch().delete().publish())
        .permit(
            permit::<NetworkPolicy>()
                .read()
                .apply()
                .delete()
                .names(&[names::INGRESS_POLICY, names::EGRESS_POLICY]),
        )
        .permit(permit::<ResourceQuota>().read().apply().delete().names(&[names::QUOTA]))
        .permit(permit::<ConfigMap>().get().publish().names(&[names::CONFIG_NAME]))
        .permit(permit::<VirtualMachine>().read().apply().patch().delete())
        .permit(permit::<VirtualMachineInstance>().read())
        .permit(permit::<DataVolume>().read().create().patch().delete())
        .permit(permit::<PersistentVolumeClaim>().read().delete())
        .permit(
            // No list: the host watches these Secrets one by one, never all Secrets of the cluster.
            permit::<Secret>().get().apply().delete().names(&[
                "*-cloud-init-userdata",
                "*-guest-login",
                "*-ssh-key",
            ]),
        )
        .permit(permit::<Service>().read().apply().delete().names(&["vps-access-*", "vps-web-*"]))
        .permit(permit::<Ingress>().read().apply().delete())
        .build()
}

/// A controller of what belongs to machines.
fn of_machines<K: Kind>(name: &str) -> ControllerBuilder {
    controller::<K>(name).labels(names::MANAGED_SELECTOR).resync(MACHINE_RESYNC)
}
