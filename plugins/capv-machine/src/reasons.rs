//! Conditions and their reasons, by upstream's names; those of our own say so.

/// Types of conditions.
pub mod condition {
    /// The summary of the others.
    pub const READY: &str = "Ready";
    /// Whether the VM is there, on, and reachable.
    pub const PROVISIONED: &str = "VirtualMachineProvisioned";
    /// Whether the vCenter answers.
    pub const VCENTER: &str = "VCenterAvailable";
    /// Whether the guest shut down when asked, while the machine is deleted.
    pub const SOFT_POWER_OFF: &str = "GuestSoftPowerOffSucceeded";
    /// Whether the machine is left alone.
    pub const PAUSED: &str = "Paused";
    /// All of them, in the order that a new machine shows them.
    pub const ALL: &[&str] = &[READY, PROVISIONED, VCENTER, SOFT_POWER_OFF, PAUSED];
}

/// `Ready`: it is.
pub const READY: &str = "Ready";
/// `Ready`: it is not.
pub const NOT_READY: &str = "NotReady";
/// `Ready`: nobody can tell.
pub const READY_UNKNOWN: &str = "ReadyUnknown";

/// The VM is there, on, and has its addresses.
pub const PROVISIONED: &str = "Provisioned";
/// The bootstrap Secret or its key is not there yet.
pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
/// A device has neither DHCP nor addresses yet.
pub const WAITING_FOR_STATIC_IP: &str = "WaitingForStaticIPAllocation";
/// The VM is being cloned.
pub const WAITING_FOR_CLONE: &str = "WaitingForClone";
/// Its metadata is being written. Ours: upstream shows what was there before.
pub const RECONFIGURING: &str = "Reconfiguring";
/// It is being switched on.
pub const POWERING_ON: &str = "PoweringOn";
/// It runs, and the guest has not reported all addresses yet.
pub const WAITING_FOR_IP: &str = "WaitingForIPAllocation";
/// A network card has not appeared, or has no MAC address yet.
pub const WAITING_FOR_NETWORK_ADDRESS: &str = "WaitingForNetworkAddress";
/// vCenter has not given it a BIOS UUID yet. Ours.
pub const WAITING_FOR_BIOS_UUID: &str = "WaitingForBIOSUUID";
/// A task failed.
pub const TASK_FAILED: &str = "TaskFailed";
/// A task is in a state that nobody knows. Ours.
pub const TASK_STATE_UNKNOWN: &str = "TaskStateUnknown";
/// A task takes long. Ours.
pub const TASK_TAKES_LONG: &str = "TaskTakesLong";
/// The VM was provisioned and is not there any more.
pub const NOT_FOUND_BY_BIOS_UUID: &str = "NotFoundByBIOSUUID";
/// It cannot be made as the spec says.
pub const NOT_PROVISIONED: &str = "NotProvisioned";
/// The machine is being deleted.
pub const DELETING: &str = "Deleting";
/// Another VM has the machine's name. Ours.
pub const NAME_CONFLICT: &str = "NameConflict";
/// Several VMs have the machine's UUID. Ours.
pub const AMBIGUOUS_VM: &str = "AmbiguousVM";
/// vCenter cannot read the VM's configuration. Ours.
pub const VM_INACCESSIBLE: &str = "VMInaccessible";
/// The VM has another BIOS UUID than the provider id. Ours.
pub const PROVIDER_ID_MISMATCH: &str = "ProviderIDMismatch";
/// The VM turned out to be somebody else's. Ours.
pub const NOT_OURS: &str = "NotOurs";

/// The vCenter answers.
pub const AVAILABLE: &str = "Available";
/// It does not.
pub const VCENTER_UNREACHABLE: &str = "VCenterUnreachable";

/// The guest shut down.
pub const SUCCEEDED: &str = "Succeeded";
/// It is shutting down.
pub const IN_PROGRESS: &str = "InProgress";
/// It does not.
pub const FAILED: &str = "Failed";

/// The machine is left alone.
pub const PAUSED: &str = "Paused";
/// It is not.
pub const NOT_PAUSED: &str = "NotPaused";

/// `failureReason`: the spec asks for what cannot be.
pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";

/// Events that no condition tells.
pub mod event {
    /// A task was started.
    pub const TASK_STARTED: &str = "TaskStarted";
    /// The guest of a `soft` machine cannot be asked to shut down.
    pub const SOFT_POWER_OFF_FAILED: &str = "GuestSoftPowerOffFailed";
    /// A VM of ours was found again.
    pub const VM_FOUND: &str = "VirtualMachineFound";
    /// The VM is gone, before it was ever ready.
    pub const VM_GONE: &str = "VirtualMachineGone";
    /// A linked clone keeps the size of its template.
    pub const DISK_SIZE_IGNORED: &str = "DiskSizeIgnored";
}
