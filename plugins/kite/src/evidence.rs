//! What R3, R4 and R6 look at before they sum a machine up: the same questions, so that they come to the same answer.

use evenkeel_sdk::jiff::Timestamp;
use evenkeel_sdk::{Asked, Pass, Served, Stop};

use crate::api::KiteVirtualMachine;
use crate::disk::Disk;
use crate::identity::Identity;
use crate::kinds::{Claim, DataVolume, Namespace, VirtualMachine, VirtualMachineInstance};
use crate::ownership::{Ownership, classify, has_labels};
use crate::spec::Power;
use crate::summary::{Facts, Summary, summarize};
use crate::verdict::Verdict;

/// What R4 and R6 read of a machine: what the summary depends on, R3's verdict among the conditions.
pub const MACHINE_VIEW: &[&str] = &[
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/deletionTimestamp",
    "/spec/powerState",
    "/spec/delete",
    "/status/conditions",
];

/// The questions, put together.
pub struct Questions<'p> {
    namespace: Asked<'p, Option<Namespace>>,
    vm: Asked<'p, Served<Option<VirtualMachine>>>,
    instance: Asked<'p, Served<Option<VirtualMachineInstance>>>,
    volume: Asked<'p, Served<Option<DataVolume>>>,
    claim: Asked<'p, Option<Claim>>,
    clock: Asked<'p, Timestamp>,
}

/// The answers.
pub struct Evidence {
    /// The machine's namespace; none where it is gone.
    pub namespace: Option<Namespace>,
    /// KubeVirt's machine of the name, whosever it is.
    pub vm: Served<Option<VirtualMachine>>,
    /// KubeVirt's instance of the name.
    pub instance: Option<VirtualMachineInstance>,
    /// CDI's disk of the name.
    pub volume: Served<Option<DataVolume>>,
    /// The claim of the disk's name.
    pub claim: Option<Claim>,
    /// The pass's time.
    pub now: Timestamp,
}

/// Puts the questions about the machine at a place.
pub fn ask<'p>(pass: &'p Pass, namespace: &str, name: &str) -> Questions<'p> {
    let disk = Identity { namespace: namespace.into(), name: name.into(), uid: String::new() }.disk();
    Questions {
        namespace: pass.get::<Namespace>(namespace).ask(),
        vm: pass.get::<VirtualMachine>((namespace, name)).ask_if_served(),
        instance: pass.get::<VirtualMachineInstance>((namespace, name)).ask_if_served(),
        volume: pass.get::<DataVolume>((namespace, &disk)).ask_if_served(),
        claim: pass.get::<Claim>((namespace, &disk)).ask(),
        clock: pass.clock(),
    }
}

impl Questions<'_> {
    /// Reads the answers.
    pub fn read(self) -> Result<Evidence, Stop> {
        Ok(Evidence {
            namespace: self.namespace.read()?,
            vm: self.vm.read()?,
            instance: self.instance.read()?.ok().flatten(),
            volume: self.volume.read()?,
            claim: self.claim.read()?,
            now: self.clock.read()?,
        })
    }
}

impl Evidence {
    /// Whether the machine goes. A namespace that is gone takes it along.
    pub fn is_deleting(&self, machine: &KiteVirtualMachine) -> bool {
        machine.metadata.deletion_timestamp.is_some()
            || machine.spec.delete == Some(true)
            || self.namespace.as_ref().is_none_or(Namespace::is_terminating)
    }

    /// Whose KubeVirt's machine is. That KubeVirt is not installed is as if there were none.
    pub fn vm_ownership(&self, id: &Identity) -> Ownership {
        classify(self.vm().map(|vm| &vm.metadata), id)
    }

    /// Whose CDI's disk is.
    pub fn volume_ownership(&self, id: &Identity) -> Ownership {
        classify(self.volume().map(|volume| &volume.metadata), id)
    }

    /// KubeVirt's machine, if it is this one's.
    pub fn own_vm(&self, id: &Identity) -> Option<&VirtualMachine> {
        self.vm().filter(|_| self.vm_ownership(id).is_ours())
    }

    /// The running instance, if it is this machine's: KubeVirt copies the labels of the template.
    pub fn own_instance(&self, id: &Identity) -> Option<&VirtualMachineInstance> {
        self.instance.as_ref().filter(|instance| has_labels(&instance.metadata, id))
    }

    /// CDI's disk, if it is this machine's.
    pub fn own_volume(&self, id: &Identity) -> Option<&DataVolume> {
        self.volume().filter(|_| self.volume_ownership(id).is_ours())
    }

    /// The disk's claim, if it is this machine's: CDI copies the labels of the DataVolume.
    pub fn own_claim(&self, id: &Identity) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| has_labels(&claim.metadata, id))
    }

    /// A claim that outlives its DataVolume, and so is the disk.
    pub fn kept_claim(&self, id: &Identity) -> Option<&Claim> {
        self.own_claim(id).filter(|claim| !claim.is_going())
    }

    /// How far the disk is.
    pub fn disk(&self, id: &Identity) -> Disk {
        Disk::of(self.own_volume(id), self.kept_claim(id).is_some())
    }

    /// Sums the machine up, with R3's verdict.
    pub fn summary(&self, machine: &KiteVirtualMachine, verdict: Option<&Verdict>) -> Summary {
        let id = Identity::of(machine);
        summarize(Facts {
            deleting: self.is_deleting(machine),
            wanted: Power::wanted(&machine.spec).unwrap_or(Power::Off),
            verdict,
            vm: self.own_vm(&id),
            has_instance: self.own_instance(&id).is_some(),
            disk: &self.disk(&id),
            now: self.now,
        })
    }

    /// Sums the machine up, with the verdict that R3 left in the status: for R4 and R6.
    pub fn summary_by_status(&self, machine: &KiteVirtualMachine) -> Summary {
        let conditions =
            machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let verdict = Verdict::of_conditions(conditions, machine.metadata.generation);
        self.summary(machine, verdict.as_ref())
    }

    fn vm(&self) -> Option<&VirtualMachine> {
        match &self.vm {
            Served::Yes(vm) => vm.as_ref(),
            Served::No => None,
        }
    }

    fn volume(&self) -> Option<&DataVolume> {
        match &self.volume {
            Served::Yes(volume) => volume.as_ref(),
            Served::No => None,
        }
    }
}
