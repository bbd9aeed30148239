//! The names that this controller gives and knows: group, finalizer, annotations, keys of a VM's extraConfig.

/// API group of the kind. `#[kube(group = …)]` takes a literal only; a test holds both to this.
pub const GROUP: &str = "infrastructure.reconcilers.dev";
/// The controller.
pub const CONTROLLER: &str = "vspheremachine";
/// Keeps a machine until its VM is gone.
pub const FINALIZER: &str = "vspheremachine.infrastructure.reconcilers.dev";

/// On a machine, with any value: nothing is done about it.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// The same under its older name.
pub const MAINTENANCE: &str = "capv.infrastructure.reconcilers.dev/maintenance";
/// On a machine: `"true"` has a VM that vanished after provisioning cloned anew.
pub const RECREATE: &str = "reconcilers.dev/recreate-missing-vm";

/// The provider asked.
pub const PROVIDER: &str = "vsphere";
/// Scheme of a provider id.
pub const PROVIDER_ID_SCHEME: &str = "vsphere://";

/// Start of the keys that say what a guest is told.
pub const GUESTINFO: &str = "guestinfo.";
/// Start of the keys that this controller keeps to itself, as the marker of a VM's owner.
pub const RECONCILERS: &str = "reconcilers.";
/// cloud-init's metadata.
pub const METADATA: &str = "guestinfo.metadata";
/// How the metadata is encoded.
pub const METADATA_ENCODING: &str = "guestinfo.metadata.encoding";
/// cloud-init's user data.
pub const USERDATA: &str = "guestinfo.userdata";
/// How the user data is encoded.
pub const USERDATA_ENCODING: &str = "guestinfo.userdata.encoding";
/// Ignition's configuration.
pub const IGNITION: &str = "guestinfo.ignition.config.data";
/// How Ignition's configuration is encoded.
pub const IGNITION_ENCODING: &str = "guestinfo.ignition.config.data.encoding";
