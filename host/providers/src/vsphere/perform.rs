//! Carries operations out: each looks first whether it is done already or under way, and whose the VM is.

use super::clone_spec::{backing, clone_spec, extra_config};
use super::data::{Data, MoRef, Object};
use super::ledger::Entry;
use super::place::Place;
use super::server::Server;
use super::vcenter::{Call, CallError};
use super::view::TASK_PATHS;
use super::words::{
    ActOnVm, AskPlacement, CloneMode, CloneVm, FaultView, Missing, Need, Outcome, Owner, Power, Reconfigure,
    Unknown, VmView, WhyMissing,
};
use crate::provider::Caller;

/// Tasks of a VM that are looked at for one under way; vCenter lists the last ten minutes'.
const RECENT_TASKS_MAX: usize = 32;

/// An operation with its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Clone(Box<CloneVm>),
    Reconfigure(Reconfigure),
    PowerOn(ActOnVm),
    PowerOff(ActOnVm),
    ShutdownGuest(ActOnVm),
    Destroy(ActOnVm),
}

/// What looking and starting came to.
enum Begun {
    Started(MoRef),
    Done(Option<String>),
    Absent,
    Missing(Vec<Missing>),
    NotOurs(String),
}

/// Where it failed.
enum Failed {
    /// Before anything was started.
    Looking(CallError),
    /// In the call that starts it.
    Starting(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self::Looking(error)
    }
}

/// What is known of earlier tries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// There were none.
    Nothing,
    /// The host may have been restarted in the midst of one.
    Restarted,
    /// A call was made that had no answer.
    InDoubt,
}

impl Deed {
    pub(crate) fn server(&self) -> &str {
        match self {
            Self::Clone(clone) => &clone.server,
            Self::Reconfigure(reconfigure) => &reconfigure.server,
            Self::PowerOn(act) | Self::PowerOff(act) | Self::ShutdownGuest(act) | Self::Destroy(act) => {
                &act.server
            }
        }
    }

    /// vCenter's and the simulator's names for tasks of it.
    fn task_words(&self) -> &'static [&'static str] {
        match self {
            Self::Clone(_) => &["VirtualMachine.clone", "VirtualMachine.cloneVm"],
            Self::Reconfigure(_) => &["VirtualMachine.reconfigure", "VirtualMachine.reconfigVm"],
            Self::PowerOn(_) => &["VirtualMachine.powerOn"],
            Self::PowerOff(_) => &["VirtualMachine.powerOff"],
            Self::ShutdownGuest(_) => &[],
            Self::Destroy(_) => &["VirtualMachine.destroy"],
        }
    }
}

impl Server {
    /// Carries an operation out, once under its key.
    pub(crate) async fn perform(&self, caller: &Caller, key: &str, deed: &Deed) -> Outcome {
        let entry = self.ledger.entry(caller, key);
        let mut entry = entry.lock().await;
        let before = match &*entry {
            Entry::Started(task) => return Outcome::Task { task: task.id.clone() },
            Entry::Done(vm) => return Outcome::Done { vm: vm.clone() },
            Entry::Unstarted if self.ledger.knows(caller, key) => Before::Nothing,
            Entry::Unstarted => Before::Restarted,
            Entry::InDoubt => Before::InDoubt,
        };
        // A pass that is given up midway leaves this behind.
        let known = std::mem::replace(&mut *entry, Entry::InDoubt);
        match self.begin(deed, before).await {
            Ok(begun) => self.note(&mut entry, begun),
            Err(Failed::Looking(error)) => {
                *entry = known;
                Outcome::Unknown(Unknown::of(&self.name, &error))
            }
            Err(Failed::Starting(CallError::Fault(fault))) => {
                *entry = Entry::Unstarted;
                Outcome::Fault { fault: FaultView::from(&fault) }
            }
            Err(Failed::Starting(error)) => Outcome::Unknown(Unknown::of(&self.name, &error)),
        }
    }

    fn note(&self, entry: &mut Entry, begun: Begun) -> Outcome {
        let (noted, outcome) = match begun {
            Begun::Started(task) => {
                let id = task.id.clone();
                (Entry::Started(task), Outcome::Task { task: id })
            }
            Begun::Done(vm) => (Entry::Done(vm.clone()), Outcome::Done { vm }),
            Begun::Absent => (Entry::Unstarted, Outcome::Absent),
            Begun::Missing(missing) => (Entry::Unstarted, Outcome::Missing { missing }),
            Begun::NotOurs(message) => (Entry::Unstarted, Outcome::NotOurs { message }),
        };
        *entry = noted;
        outcome
    }

    async fn begin(&self, deed: &Deed, before: Before) -> Result<Begun, Failed> {
        match deed {
            Deed::Clone(clone) => self.clone_vm(deed, clone, before).await,
            Deed::Reconfigure(Reconfigure { vm, owner, .. }) => self.act(deed, vm, owner, before).await,
            Deed::PowerOn(act) | Deed::PowerOff(act) | Deed::ShutdownGuest(act) | Deed::Destroy(act) => {
                self.act(deed, &act.vm, &act.owner, before).await
            }
        }
    }

    // ---- on a VM that is there -----------------------------------------------------------------------------------

    async fn act(&self, deed: &Deed, vm: &str, owner: &Owner, before: Before) -> Result<Begun, Failed> {
        let vm = MoRef::new("VirtualMachine", vm);
        let gone = || if matches!(deed, Deed::Destroy(_)) { Begun::Done(None) } else { Begun::Absent };
        let Some(view) = self.view(&vm).await? else { return Ok(gone()) };
        if !owner.owns(&view) {
            return Ok(Begun::NotOurs(format!(
                "VM {} ({}) belongs to {}",
                view.vm,
                view.name,
                view.owner.as_deref().unwrap_or("somebody else")
            )));
        }
        if is_so(deed, &view) && !self.hides(deed, &vm).await? {
            return Ok(Begun::Done(None));
        }
        if before != Before::Nothing
            && let Some(task) = self.under_way(&vm, deed).await?.pop()
        {
            return Ok(self.started(task));
        }
        match self.session.call(&call_for(deed, &vm)).await {
            Ok(Data::Ref(task)) => Ok(self.started(task)),
            Ok(_) if matches!(deed, Deed::ShutdownGuest(_)) => Ok(Begun::Done(None)),
            Ok(_) => Err(Failed::Starting(CallError::BadAnswer("the call answered no task".to_owned()))),
            Err(error) if error.is_fault("ManagedObjectNotFound") => Ok(gone()),
            Err(error) => Err(Failed::Starting(error)),
        }
    }

    fn started(&self, task: MoRef) -> Begun {
        self.ledger.own(&task);
        Begun::Started(task)
    }

    /// Whether something that answers do not tell would have to be set, too.
    async fn hides(&self, deed: &Deed, vm: &MoRef) -> Result<bool, CallError> {
        let Deed::Reconfigure(reconfigure) = deed else { return Ok(false) };
        let Some(properties) = self.properties(vm, &["config.extraConfig"]).await? else { return Ok(false) };
        let set = properties.get("config.extraConfig").map(Data::items).unwrap_or_default();
        let value = |key: &str| {
            let option = set.iter().find(|option| option.text_of("key") == key);
            option.map(|option| option.text_of("value").into_owned()).unwrap_or_default()
        };
        let mut wanted = reconfigure.extra_config.iter().chain(&reconfigure.sensitive.extra_config);
        Ok(wanted.any(|(key, wanted)| value(key) != *wanted))
    }

    /// Tasks of this operation that an object is in the midst of, and that no key is known for.
    async fn under_way(&self, of: &MoRef, deed: &Deed) -> Result<Vec<MoRef>, CallError> {
        let Some(properties) = self.properties(of, &["recentTask"]).await? else { return Ok(Vec::new()) };
        let recent = properties.get("recentTask").map(Data::items).unwrap_or_default();
        let mut tasks: Vec<MoRef> = recent.iter().filter_map(Data::reference).cloned().collect();
        tasks.sort_by_key(MoRef::number);
        tasks.drain(..tasks.len().saturating_sub(RECENT_TASKS_MAX));
        let reads = self.reader.read_all(&tasks, TASK_PATHS).await?;
        let mut found = Vec::new();
        for (task, read) in tasks.into_iter().zip(reads) {
            let Some(properties) = read.found()? else { continue };
            let text = |path: &str| properties.get(path).and_then(Data::text).unwrap_or_default();
            let runs = matches!(&*text("info.state"), "queued" | "running");
            if runs && deed.task_words().contains(&&*text("info.descriptionId")) && !self.ledger.owns(&task) {
                found.push(task);
            }
        }
        Ok(found)
    }

    // ---- a new VM ------------------------------------------------------------------------------------------------

    async fn clone_vm(&self, deed: &Deed, clone: &CloneVm, before: Before) -> Result<Begun, Failed> {
        let place = match self.place(&placement(clone)).await? {
            Ok(place) => place,
            Err(missing) => return Ok(Begun::Missing(missing)),
        };
        if clone.clone_mode == CloneMode::LinkedClone && place.template.snapshot.is_none() {
            let name = clone.snapshot.clone().unwrap_or_default();
            let missing = Missing { what: Need::Snapshot, name, why: WhyMissing::NotFound };
            return Ok(Begun::Missing(vec![missing]));
        }
        if let Some(vm) = self.made_before(clone).await? {
            return Ok(Begun::Done(Some(vm)));
        }
        if before == Before::InDoubt
            && let Some(task) = self.lost_clone(deed, &place).await?
        {
            return Ok(self.started(task));
        }
        let Some(backings) = self.backings(&place).await? else {
            self.forget_places();
            return Err(CallError::BadAnswer("a network went away".to_owned()).into());
        };
        let call = Call::new(&place.template.reference, "CloneVM_Task")
            .with("folder", &place.folder)
            .with("name", clone.name.as_str())
            .with("spec", clone_spec(clone, &place, &backings));
        let _starting = self.cloning.read().await;
        match self.session.call(&call).await {
            Ok(Data::Ref(task)) => Ok(self.started(task)),
            Ok(_) => Err(Failed::Starting(CallError::BadAnswer("the call answered no task".to_owned()))),
            Err(error) => {
                self.forget_places();
                Err(Failed::Starting(error))
            }
        }
    }

    /// The task of a clone whose call had no answer: the only one of the template that nobody knows of. While this is
    /// looked for no other clone is started, so every one of ours is known.
    ///
    /// If it turns out to be a stranger's, the VM that it makes is not ours, and the next key clones. After a restart
    /// too many would be unknown: then vCenter's own check of the name has to do.
    async fn lost_clone(&self, deed: &Deed, place: &Place) -> Result<Option<MoRef>, CallError> {
        let _alone = self.cloning.write().await;
        let mut unknown = self.under_way(&place.template.reference, deed).await?;
        Ok(unknown.pop().filter(|_| unknown.is_empty()))
    }

    /// The VM that this clone made already.
    async fn made_before(&self, clone: &CloneVm) -> Result<Option<String>, CallError> {
        let Some(datacenter) = self.at(&clone.datacenter).await? else { return Ok(None) };
        for vm in self.find_uuid(&datacenter, &clone.instance_uuid, true).await? {
            if let Some(view) = self.view(&vm).await?
                && !view.template
                && view.owner.as_deref() == Some(&clone.owner)
            {
                return Ok(Some(view.vm));
            }
        }
        Ok(None)
    }

    /// What the cards are plugged into, in the order of the networks; none where one of them went.
    async fn backings(&self, place: &Place) -> Result<Option<Vec<Object>>, CallError> {
        let mut backings = Vec::with_capacity(place.networks.len());
        for network in &place.networks {
            let paths: &'static [&'static str] = match network.kind.as_str() {
                "DistributedVirtualPortgroup" => &["config.key", "config.distributedVirtualSwitch"],
                "OpaqueNetwork" => &["summary.opaqueNetworkId", "summary.opaqueNetworkType"],
                _ => &["name"],
            };
            let Some(properties) = self.properties(network, paths).await? else { return Ok(None) };
            let switch = properties.get("config.distributedVirtualSwitch").and_then(Data::reference);
            let uuid = match switch {
                Some(switch) => {
                    self.properties(switch, &["uuid"]).await?.and_then(|mut found| found.remove("uuid"))
                }
                None => None,
            };
            let uuid = uuid.as_ref().and_then(Data::text);
            let Some(backing) = backing(network, &properties, uuid.as_deref()) else { return Ok(None) };
            backings.push(backing);
        }
        Ok(Some(backings))
    }
}

impl Owner {
    /// Whether a VM is this owner's, by any of the marks that a clone leaves.
    fn owns(&self, view: &VmView) -> bool {
        let is = |uuid: &str, wanted: &str| !wanted.is_empty() && uuid.eq_ignore_ascii_case(wanted);
        let instance = self.instance_uuid.as_deref().unwrap_or_default();
        let bios = self.bios_uuid.as_deref().unwrap_or_default();
        let marker = view.owner.as_deref().and_then(|owner| owner.rsplit('/').next()).unwrap_or_default();
        is(&view.instance_uuid, &self.uid)
            || is(&view.instance_uuid, instance)
            || is(&view.bios_uuid, bios)
            || is(marker, &self.uid)
    }
}

/// Whether a VM shows already what the operation is for.
fn is_so(deed: &Deed, view: &VmView) -> bool {
    match deed {
        Deed::PowerOn(_) => view.power == Power::On,
        Deed::PowerOff(_) => view.power == Power::Off,
        Deed::Reconfigure(_) => true,
        Deed::Clone(_) | Deed::ShutdownGuest(_) | Deed::Destroy(_) => false,
    }
}

fn call_for(deed: &Deed, vm: &MoRef) -> Call {
    match deed {
        // A clone is made from a template, elsewhere.
        Deed::Clone(_) => Call::new(vm, "CloneVM_Task"),
        Deed::Reconfigure(reconfigure) => {
            let pairs = reconfigure.extra_config.iter().chain(&reconfigure.sensitive.extra_config);
            let pairs = pairs.map(|(key, value)| (key.as_str(), value.as_str()));
            let spec = Object::new("VirtualMachineConfigSpec").with("extraConfig", extra_config(pairs));
            Call::new(vm, "ReconfigVM_Task").with("spec", spec)
        }
        Deed::PowerOn(_) => Call::new(vm, "PowerOnVM_Task"),
        Deed::PowerOff(_) => Call::new(vm, "PowerOffVM_Task"),
        Deed::ShutdownGuest(_) => Call::new(vm, "ShutdownGuest"),
        Deed::Destroy(_) => Call::new(vm, "Destroy_Task"),
    }
}

fn placement(clone: &CloneVm) -> AskPlacement {
    AskPlacement {
        server: clone.server.clone(),
        datacenter: clone.datacenter.clone(),
        template: clone.template.clone(),
        folder: clone.folder.clone(),
        datastore: clone.datastore.clone(),
        resource_pool: clone.resource_pool.clone(),
        networks: clone.nics.iter().map(|nic| nic.network.clone()).collect(),
        snapshot: clone.snapshot.clone(),
    }
}
