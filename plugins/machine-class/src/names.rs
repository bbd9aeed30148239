//! The names that this family gives and knows: all but the last group are upstream's, so that objects of an upstream
//! machine controller are taken over as they are.

/// API group of the four kinds.
pub const GROUP: &str = "machine.sapcloud.io";
/// API version of the four kinds.
pub const VERSION: &str = "v1alpha1";
/// The kind of class that a machine may name.
pub const CLASS_KIND: &str = "MachineClass";

/// On classes and machines. Upstream's odd name for it is older than the split into two programs.
pub const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
/// On Secrets that a class refers to.
pub const SECRET_FINALIZER: &str = "machine.sapcloud.io/machine-controller";
/// On Nodes of machines.
pub const NODE_FINALIZER: &str = "node.machine.sapcloud.io/machine-controller";

/// On a Machine: the name of its Node. This label is the link, not a field of the status.
pub const NODE_LABEL: &str = "node";
/// On a Machine: the MachineDeployment, of which one machine at a time is replaced.
pub const DEPLOYMENT_LABEL: &str = "name";
/// On a Machine: a value that parses as true ends the patience with Pods.
pub const FORCE_LABEL: &str = "force-deletion";
/// On a Node: the name of its Machine.
pub const MACHINE_NAME_LABEL: &str = "node.gardener.cloud/machine-name";
/// On a Machine: which goes first when a MachineSet shrinks.
pub const PRIORITY: &str = "machinepriority.machine.sapcloud.io";
/// The priority of a new machine; `"1"` goes first.
pub const PRIORITY_DEFAULT: &str = "3";
/// On a Node: nobody here has anything to do with it.
pub const NOT_MANAGED: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
/// On a Node: the annotations, labels and taints that were last taken from the template.
pub const LAST_APPLIED: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
/// A taint that keeps a Pending machine from being Running.
pub const CRITICAL_TAINT: &str = "node.gardener.cloud/critical-components-not-ready";

/// On a Machine or its Node: whether the machine is kept though it failed, and from when on: `now`, `when-failed`,
/// `auto-preserved` or `false`.
pub const PRESERVE: &str = "node.machine.sapcloud.io/preserve";
/// A taint (NoSchedule) on the Node of a failed machine that is kept.
pub const PRESERVED_TAINT: &str = "node.machine.sapcloud.io/preserved";
/// On a Node: the cluster autoscaler does not take it away.
pub const NO_SCALE_DOWN: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// Label on a Node: it is among those that are to be updated in place.
pub const UPDATE_CANDIDATE: &str = "node.machine.sapcloud.io/candidate-for-update";
/// Label on a Node: it is its turn to be updated.
pub const UPDATE_SELECTED: &str = "node.machine.sapcloud.io/selected-for-update";
/// Label on a Node: what came of the update, `successful` or `failed`.
pub const UPDATE_RESULT: &str = "node.machine.sapcloud.io/update-result";
/// Annotation on a Node: why the update failed.
pub const UPDATE_FAILED_REASON: &str = "node.machine.sapcloud.io/update-failed-reason";

/// On a Machine: equal to `spec.providerID` it releases a machine without its class, and leaves the VM to its fate.
pub const ABANDON_VM: &str = "evenkeel.dev/abandon-vm";
/// On a Machine: how often its VM was to be initialised. It keeps two tries apart.
pub const INITIALIZE_ATTEMPT: &str = "evenkeel.dev/initialize-attempt";

/// On a Machine: the id of the bootstrap token that its VM joins with, as long as there is one.
pub const BOOTSTRAP_TOKEN: &str = "evenkeel.dev/bootstrap-token";
/// On the Secret of a bootstrap token: the UID of the machine that it is for.
pub const TOKEN_OF: &str = "evenkeel.dev/machine-uid";

/// The controller of classes.
pub const MACHINE_CLASS: &str = "machine-class";
/// The controller of Secrets.
pub const SECRET: &str = "machine-class-secret";
/// The controller of machines.
pub const MACHINE: &str = "machine";

/// The controller that looks for VMs without machines.
pub const ORPHANS: &str = "machine-orphans";

/// The provider that makes VMs.
pub const PROVIDER: &str = "machine";

/// Event: what is being deleted is still referred to.
pub const STILL_REFERENCED: &str = "StillReferenced";
/// Event: what is being deleted is referred to, and nothing of ours holds it.
pub const DELETED_WHILE_REFERENCED: &str = "DeletedWhileReferenced";
/// Event: a machine waits for a class that is going away.
pub const CLASS_BEING_DELETED: &str = "ClassBeingDeleted";
/// Event: the class of a machine that has a VM, or may have one, is not there.
pub const CLASS_MISSING: &str = "ClassMissing";
/// Event: a Secret that the class refers to is not there.
pub const SECRET_MISSING: &str = "SecretMissing";
/// Event: a machine was released without its VM being deleted.
pub const VM_ABANDONED: &str = "VMAbandoned";
/// Event: what the annotation `preserve` says is none of its values.
pub const PRESERVE_UNKNOWN: &str = "PreserveUnknown";
/// Event: a VM of a class has no machine.
pub const ORPHAN_FOUND: &str = "OrphanFound";
/// Event: it was deleted.
pub const ORPHAN_DELETED: &str = "OrphanDeleted";
/// Event: it could not be deleted.
pub const ORPHAN_KEPT: &str = "OrphanKept";
