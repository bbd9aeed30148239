//! Names that others read: of the kind, the controller, annotations, conditions and events.

/// The API group of the kind.
pub const GROUP: &str = "flightctl.io";
/// Its version.
pub const VERSION: &str = "v1beta1";
/// The controller.
pub const CONTROLLER: &str = "device";

/// Annotation: the rendered version of a spec, a decimal number.
pub const RENDERED_VERSION: &str = "device-controller/renderedVersion";
/// Annotation: a fingerprint of a spec.
pub const RENDERED_HASH: &str = "device-controller/renderedSpecHash";
/// Annotation of `rollback.json`: the version that is tried.
pub const DESIRED_VERSION: &str = "evenkeel.dev/desired-version";
/// Annotation of `rollback.json`: its fingerprint.
pub const DESIRED_HASH: &str = "evenkeel.dev/desired-spec-hash";
/// Annotation by which an operator has a failed version tried once more.
pub const RETRY_FAILED: &str = "evenkeel.dev/retry-failed";

/// The condition that tells of updates.
pub const UPDATING: &str = "Updating";
/// The condition that tells of the end of a device's life.
pub const DECOMMISSIONING: &str = "DeviceDecommissioning";

/// Reasons of events.
pub mod events {
    /// A version was adopted.
    pub const UPDATE_STARTED: &str = "UpdateStarted";
    /// It is in effect.
    pub const UPDATE_SUCCEEDED: &str = "UpdateSucceeded";
    /// It failed for good.
    pub const UPDATE_FAILED: &str = "UpdateFailed";
    /// The way back began.
    pub const ROLLBACK_STARTED: &str = "RollbackStarted";
    /// A step of the way back failed.
    pub const ROLLBACK_TROUBLE: &str = "RollbackTrouble";
    /// The machine is about to reboot.
    pub const REBOOT_REQUESTED: &str = "RebootRequested";
    /// Spec files were missing or damaged.
    pub const SPEC_FILES_REPAIRED: &str = "SpecFilesRepaired";
    /// Another OS image is booted than the spec names.
    pub const OS_DRIFT: &str = "OSDrift";
    /// A hook failed that stops nothing.
    pub const HOOK_FAILED: &str = "HookFailed";
    /// The service does not know this device any more.
    pub const DEVICE_GONE: &str = "DeviceGone";
}
