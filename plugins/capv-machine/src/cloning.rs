//! A machine that has no VM: what a clone waits for, what it is made of, and that there is never a second one.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_sdk::{Conclusion, Stop, act};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::addresses::has_source;
use crate::api::{CloneMode, Operation, Task, VSphereMachineSpec};
use crate::bootstrap::{self, Bootstrap};
use crate::draft::Draft;
use crate::machine::{Turn, poll};
use crate::names;
use crate::operate::Order;
use crate::reasons;
use crate::seam::{self, PlacementAnswer, Template, VmAnswer};
use crate::timing::{CLONE_MAX, LOST_CLONE, PERSON, SLOW, TASK_FRESH, TASK_POLL_MIN, after, since, time};

/// Fewest processors of a machine: kubeadm takes no fewer for a control plane.
const CPUS_MIN: i32 = 2;
/// Memory of a machine that says nothing of it, in MiB.
const MEMORY_MIB: i64 = 2048;

/// Who has the machine's name.
enum Holder {
    /// A VM of this machine, though it was not found by its UUID yet.
    Ours { watched: bool },
    /// One that cannot be read yet: perhaps a clone of ours.
    Unreadable { watched: bool },
    /// Somebody else's VM.
    Stranger(String),
    /// Nobody.
    Nobody,
}

impl Turn<'_> {
    /// Clones a VM for the machine, once all is there for it.
    pub fn clone_vm(&self, draft: &mut Draft<'_>) -> Result<Conclusion, Stop> {
        if draft.name_taken_now {
            return self.wait_for_name(draft);
        }
        if draft.status.name_taken_since.is_some() {
            let holder = self.holder(draft)?;
            if !matches!(holder, Holder::Nobody) {
                return Ok(self.wait_for_holder(draft, holder));
            }
        }
        let devices = &self.machine.spec.network.devices;
        if let Some(index) = devices.iter().position(|device| !has_source(device)) {
            let message = format!("network.devices[{index}] has neither DHCP nor addresses");
            draft.waits(reasons::WAITING_FOR_STATIC_IP, &message);
            return Ok(draft.end(None));
        }
        let secret = self.machine.spec.bootstrap_ref.as_ref().map(|secret| secret.name.as_str());
        let userdata = match bootstrap::read(self.pass, secret)? {
            Bootstrap::Ready(userdata) => userdata,
            Bootstrap::Waits(message) => {
                draft.waits(reasons::WAITING_FOR_BOOTSTRAP_DATA, &message);
                // The Secret wakes the machine.
                return Ok(draft.end(None));
            }
        };
        match seam::ask(self.pass, "placement", &placement(&self.machine.spec))? {
            PlacementAnswer::Unknown(why) => Err(self.fail(draft, &why)),
            PlacementAnswer::Missing { missing } => Ok(self.lack(draft, &missing)),
            PlacementAnswer::Hit { placement } => self.clone_from(draft, &placement.template, &userdata),
        }
    }

    fn clone_from(
        &self,
        draft: &mut Draft<'_>,
        template: &Template,
        userdata: &BTreeMap<String, String>,
    ) -> Result<Conclusion, Stop> {
        let spec = &self.machine.spec;
        let (wanted, present) = (spec.disk_gib.unwrap_or_default(), template.disk_gib.first().copied());
        if wanted > 0 && present.is_some_and(|present| wanted < present) {
            let present = present.unwrap_or_default();
            let message = format!("diskGiB {wanted} is less than the template's {present}");
            return Ok(self.fail_for_good(draft, &message));
        }
        let mode = effective_mode(spec, template);
        let resizes = wanted > 0 && present.is_some_and(|present| wanted > present);
        let disk = resizes.then_some(wanted).filter(|_| mode == CloneMode::FullClone);
        if resizes && disk.is_none() {
            let message = format!("a linked clone keeps its template's disk: diskGiB {wanted} has no effect");
            draft.warn(reasons::event::DISK_SIZE_IGNORED, &message);
        }
        draft.status.clone_mode = Some(mode);
        draft.status.instance_uuid.get_or_insert_with(|| self.id.uid.clone());
        draft.waits(reasons::WAITING_FOR_CLONE, "");
        let order = Order {
            operation: Operation::Clone,
            arguments: arguments(self, mode, disk, userdata),
            digest: String::new(),
        };
        // What is begun is noted before it is begun. Should the host go down in between, the next pass asks for the
        // same operation again, and the end of the machine waits for what may still come of it.
        if draft.status.task.is_none() {
            let started_at = draft.stamp();
            draft.status.task = Some(Task { operation: Operation::Clone, started_at });
        }
        let mut first = draft.first.clone();
        first.push(draft.write());
        self.order(draft, &order, first)
    }

    /// The VM was ready once and is gone: somebody else decides what becomes of the machine, unless it says so itself.
    pub fn miss(&self, draft: &mut Draft<'_>) -> Result<Conclusion, Stop> {
        draft.status.machine_ref = None;
        draft.status.ready = Some(false);
        let annotations = self.machine.metadata.annotations.as_ref();
        let recreates =
            annotations.and_then(|all| all.get(names::RECREATE)).is_some_and(|value| value == "true");
        if recreates {
            draft.status.bios_uuid = None;
            if self.machine.spec.provider_id.is_some() {
                draft.first.push(act::patch(self.id.reference(), &json!({"spec": {"providerID": null}})));
            }
            return self.clone_vm(draft);
        }
        let bios = self.id.bios_uuid.as_deref().unwrap_or_default();
        let message = format!("no VM has the BIOS UUID {bios} any more");
        draft.is_stuck(reasons::NOT_FOUND_BY_BIOS_UUID, &message);
        Ok(draft.end(Some(PERSON)))
    }

    /// vCenter said just now that the machine's name is taken.
    pub fn wait_for_name(&self, draft: &mut Draft<'_>) -> Result<Conclusion, Stop> {
        let holder = self.holder(draft)?;
        Ok(self.wait_for_holder(draft, holder))
    }

    fn holder(&self, draft: &mut Draft<'_>) -> Result<Holder, Stop> {
        let spec = &self.machine.spec;
        let mut question =
            json!({"server": spec.server, "datacenter": spec.datacenter, "name": self.id.name});
        set(&mut question, "folder", spec.folder.as_deref());
        match seam::ask(self.pass, "vm-by-name", &question)? {
            VmAnswer::Unknown(why) => Err(self.fail(draft, &why)),
            VmAnswer::Absent | VmAnswer::Ambiguous { .. } => Ok(Holder::Nobody),
            VmAnswer::Hit { vm, watched } if self.id.is_ours(&vm) => Ok(Holder::Ours { watched }),
            VmAnswer::Hit { vm, watched } if !vm.accessible && vm.owner.is_none() => {
                Ok(Holder::Unreadable { watched })
            }
            VmAnswer::Hit { vm, .. } => Ok(Holder::Stranger(vm.vm)),
        }
    }

    fn wait_for_holder(&self, draft: &mut Draft<'_>, holder: Holder) -> Conclusion {
        let taken_since = time(draft.status.name_taken_since.as_deref());
        let is_recent = taken_since.is_none_or(|taken| since(taken, self.now) < LOST_CLONE);
        match holder {
            Holder::Ours { watched } | Holder::Unreadable { watched } if is_recent => {
                draft.waits(reasons::WAITING_FOR_CLONE, "a clone that was begun earlier is awaited");
                draft.end(poll(watched, SLOW))
            }
            Holder::Nobody if is_recent => {
                draft.waits(reasons::WAITING_FOR_CLONE, "a clone that was begun earlier is awaited");
                // Nothing to be seen wakes nobody: ask again in a while, not at once.
                draft.status.retry_after = Some(evenkeel_sdk::rfc3339(after(self.now, SLOW)));
                draft.end(Some(SLOW))
            }
            Holder::Stranger(vm) => {
                let message = format!("{vm} has the name {} and is not this machine's", self.id.name);
                draft.is_stuck(reasons::NAME_CONFLICT, &message);
                draft.end(Some(PERSON))
            }
            Holder::Ours { .. } | Holder::Unreadable { .. } | Holder::Nobody => {
                let message = format!("the name {} is taken, and not by a VM of this machine", self.id.name);
                draft.is_stuck(reasons::NAME_CONFLICT, &message);
                draft.status.retry_after = Some(evenkeel_sdk::rfc3339(after(self.now, PERSON)));
                draft.end(Some(PERSON))
            }
        }
    }

    /// How long to wait for a clone that may still come, and of which nothing is to be seen by its UUID: before the
    /// machine's end. None where none will.
    pub fn may_still_come(
        &self,
        draft: &mut Draft<'_>,
        begun: Option<Timestamp>,
    ) -> Result<Option<Duration>, Stop> {
        let age = begun.map(|begun| since(begun, self.now));
        Ok(match self.holder(draft)? {
            Holder::Ours { .. } => Some(SLOW),
            Holder::Unreadable { .. } => age.is_none_or(|age| age < CLONE_MAX).then_some(SLOW),
            Holder::Stranger(_) => None,
            Holder::Nobody => age.is_some_and(|age| age < TASK_FRESH).then_some(TASK_POLL_MIN),
        })
    }
}

/// A linked clone needs a snapshot to hang on.
fn effective_mode(spec: &VSphereMachineSpec, template: &Template) -> CloneMode {
    match spec.clone_mode.unwrap_or(CloneMode::LinkedClone) {
        CloneMode::LinkedClone if template.snapshot.is_some() => CloneMode::LinkedClone,
        CloneMode::LinkedClone | CloneMode::FullClone => CloneMode::FullClone,
    }
}

/// What the question for the placement and the clone have in common.
fn placement(spec: &VSphereMachineSpec) -> Value {
    let networks: Vec<_> = spec.network.devices.iter().map(|device| device.network_name.as_str()).collect();
    let mut question = place(spec);
    question["networks"] = json!(networks);
    set(&mut question, "snapshot", spec.snapshot.as_deref());
    question
}

fn place(spec: &VSphereMachineSpec) -> Value {
    let mut place = json!({"server": spec.server, "datacenter": spec.datacenter, "template": spec.template});
    set(&mut place, "folder", spec.folder.as_deref());
    set(&mut place, "datastore", spec.datastore.as_deref());
    set(&mut place, "resourcePool", spec.resource_pool.as_deref());
    place
}

fn arguments(
    turn: &Turn<'_>,
    mode: CloneMode,
    disk_gib: Option<i64>,
    userdata: &BTreeMap<String, String>,
) -> Value {
    let spec = &turn.machine.spec;
    let nics: Vec<_> = spec
        .network
        .devices
        .iter()
        .map(|device| {
            let mut nic = json!({"network": device.network_name});
            set(&mut nic, "mac", device.mac_addr.as_deref());
            nic
        })
        .collect();
    let mut arguments = place(spec);
    let more = json!({
        "name": turn.id.name,
        "cloneMode": mode,
        "instanceUuid": turn.id.instance(),
        "owner": turn.id.marker(),
        "numCpus": spec.num_cpus.unwrap_or_default().max(CPUS_MIN),
        "memoryMib": spec.memory_mib.filter(|mib| *mib > 0).unwrap_or(MEMORY_MIB),
        "nics": nics,
        "extraConfig": spec.custom_vmx_keys,
        "sensitive": {"extraConfig": userdata},
    });
    if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
        arguments.extend(more);
    }
    if mode == CloneMode::LinkedClone {
        set(&mut arguments, "snapshot", spec.snapshot.as_deref());
    }
    if let Some(cores) = spec.num_cores_per_socket {
        arguments["numCoresPerSocket"] = cores.into();
    }
    if let Some(gib) = disk_gib {
        arguments["diskGib"] = gib.into();
    }
    arguments
}

/// Sets a member, unless there is nothing to say.
fn set(object: &mut Value, member: &str, value: Option<&str>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        object[member] = value.into();
    }
}
