//! A driver of a cloud that exists in memory, with faults: the far end of scenarios and demos.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::time::Instant;

use super::call::{Call, Class, ListCall, Sensitive};
use super::code::Code;
use super::driver::{Address, Driver, DriverError, DriverFuture, Progress, UnderWay, Vm};

mod config;
#[cfg(test)]
mod tests;
mod twin;

pub use config::{Config, NodeNames};
pub use twin::MachineTwin;

/// The simulated cloud.
pub struct Cloud(Mutex<State>);

#[derive(Default)]
struct State {
    config: Config,
    vms: Vec<Instance>,
    /// Disks whose VMs are gone, by the machine that they were made for.
    leftovers: BTreeMap<String, Vec<String>>,
    faults: VecDeque<config::Fault>,
    /// VMs made so far.
    made: u32,
    /// Operations that reached the cloud, since somebody looked.
    calls: Vec<String>,
    /// Questions that reached the cloud, since somebody looked.
    asked: Vec<String>,
}

/// A VM of the cloud.
#[derive(Clone)]
struct Instance {
    /// `namespace/name` of its machine.
    machine: String,
    uid: String,
    provider_id: String,
    node_name: String,
    initialized: bool,
    /// What it was told at its first boot; "" for one that was there before, and where that is no text.
    user_data: String,
    /// The mark of the class that it was made of; none for one that was there before.
    class: Option<String>,
    /// What it is in the midst of, and until when.
    busy: Option<(Busy, Instant)>,
}

/// What a VM is in the midst of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    Coming,
    Going,
}

impl Cloud {
    /// As it is configured.
    pub fn new(config: Config) -> Self {
        let mut state = State { config, ..State::default() };
        for vm in state.config.vms.clone() {
            state.add(vm);
        }
        Self(Mutex::new(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a VM is told at its first boot.
fn user_data(call: &Call) -> String {
    let data = call.sensitive.secret_data.get("userData").and_then(|text| STANDARD.decode(text).ok());
    data.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// `namespace/name` of a call's machine.
fn place(call: &Call) -> String {
    format!("{}/{}", call.machine.namespace, call.machine.name)
}

impl State {
    fn add(&mut self, vm: config::GivenVm) {
        let config::GivenVm { machine, uid, provider_id, node_name, class, leftovers } = vm;
        if !leftovers.is_empty() {
            self.leftovers.insert(machine.clone(), leftovers);
        }
        if let Some(provider_id) = provider_id {
            let name = machine.rsplit('/').next().unwrap_or_default().to_owned();
            let node_name = node_name.unwrap_or(name);
            let initialized = true;
            let (user_data, busy) = (String::new(), None);
            self.vms.push(Instance {
                machine,
                uid,
                provider_id,
                node_name,
                initialized,
                user_data,
                class,
                busy,
            });
        }
    }

    /// Whether the credentials are right and nothing is wrong; a fault that takes effect is handed back.
    fn admit(&mut self, name: &str, secrets: &Sensitive) -> Result<Option<DriverError>, DriverError> {
        if let Some(at) = self.faults.iter().position(|fault| fault.is_for(name)) {
            let fault = &mut self.faults[at];
            let error = DriverError::new(fault.code(), fault.message.clone());
            let written = fault.effect == config::Effect::Written;
            fault.times = fault.times.saturating_sub(1);
            if fault.times == 0 {
                self.faults.remove(at);
            }
            return if written { Ok(Some(error)) } else { Err(error) };
        }
        for (key, wanted) in self.config.credentials.iter().flatten() {
            let given = secrets.secret_data.get(key).and_then(|text| STANDARD.decode(text).ok());
            if given.as_deref() != Some(wanted.as_bytes()) {
                return Err(DriverError::new(
                    Code::Unauthenticated,
                    "the cloud does not know these credentials",
                ));
            }
        }
        Ok(None)
    }

    fn find(&self, call: &Call) -> Result<Option<&Instance>, DriverError> {
        let own: Vec<_> = self.vms.iter().filter(|vm| is_of(vm, call)).collect();
        match own[..] {
            [] => Ok(None),
            [vm] => Ok(Some(vm)),
            _ => {
                let ids: Vec<_> = own.iter().map(|vm| vm.provider_id.as_str()).collect();
                Err(DriverError::new(Code::OutOfRange, format!("several VMs: {}", ids.join(", "))))
            }
        }
    }

    fn make(&mut self, call: &Call) -> Instance {
        self.made += 1;
        let id = format!("vm-{}", self.made);
        let node_name = match self.config.node_names {
            NodeNames::Machine => call.machine.name.clone(),
            NodeNames::Generated => id.clone(),
        };
        let vm = Instance {
            machine: place(call),
            uid: call.machine.uid.clone(),
            provider_id: format!("sim:///{id}"),
            node_name,
            initialized: !self.config.initialize.is_needed(),
            user_data: user_data(call),
            class: Some(mark(&call.class).to_owned()),
            busy: self.busy(Busy::Coming),
        };
        self.leftovers.entry(vm.machine.clone()).or_default().push(format!("disk-of-{id}"));
        self.vms.push(vm.clone());
        vm
    }

    /// Something that takes its time, where things do.
    fn busy(&self, what: Busy) -> Option<(Busy, Instant)> {
        let seconds = self.config.task_seconds;
        (seconds > 0).then(|| (what, Instant::now() + std::time::Duration::from_secs(seconds)))
    }

    /// What has come to its end by now.
    fn pass_time(&mut self) {
        let now = Instant::now();
        for at in (0..self.vms.len()).rev() {
            match self.vms[at].busy {
                Some((Busy::Coming, until)) if until <= now => self.vms[at].busy = None,
                Some((Busy::Going, until)) if until <= now => {
                    let gone = self.vms.remove(at);
                    self.clear_after(&gone.machine, &gone.provider_id);
                }
                Some(_) | None => {}
            }
        }
    }

    /// The disks of a VM that was deleted: its own, and where its machine has no other VM all that is left.
    fn clear_after(&mut self, machine: &str, provider_id: &str) {
        let own = format!("disk-of-{}", provider_id.trim_start_matches("sim:///"));
        if !self.vms.iter().any(|vm| vm.machine == machine) {
            self.leftovers.remove(machine);
        } else if let Some(disks) = self.leftovers.get_mut(machine) {
            disks.retain(|disk| *disk != own);
        }
    }

    fn shown(&self, vm: &Instance) -> Progress<Vm> {
        if let Some((busy, _)) = vm.busy {
            let word = if busy == Busy::Coming { "made" } else { "deleted" };
            return under_way(format!("{} is being {word}", vm.provider_id));
        }
        let number = self.vms.iter().position(|other| other.provider_id == vm.provider_id).unwrap_or(0);
        let address = format!("10.0.{}.{}", number / 250, number % 250 + 2);
        Progress::Done(Vm {
            provider_id: vm.provider_id.clone(),
            node_name: vm.node_name.clone(),
            addresses: vec![Address { type_: "InternalIP".to_owned(), address }],
            last_known_state: None,
            uninitialized: !vm.initialized,
        })
    }

    fn status(&mut self, call: &Call) -> Result<Progress<Vm>, DriverError> {
        self.pass_time();
        self.asked.push(format!("status {}", place(call)));
        if let Some(error) = self.admit("status", &call.sensitive)? {
            return Err(error);
        }
        match self.find(call)? {
            Some(vm) => Ok(self.shown(vm)),
            None => Err(DriverError::new(Code::NotFound, "there is no such VM")),
        }
    }

    fn create(&mut self, call: &Call) -> Result<Progress<Vm>, DriverError> {
        self.pass_time();
        self.calls.push(format!("create {}", place(call)));
        let lost = self.admit("create", &call.sensitive)?;
        let there = self.find(call)?.cloned();
        let vm = there.unwrap_or_else(|| self.make(call));
        lost.map_or_else(|| Ok(self.shown(&vm)), Err)
    }

    fn initialize(&mut self, call: &Call) -> Result<Progress<Vm>, DriverError> {
        if !self.config.initialize.is_needed() {
            return Err(DriverError::new(Code::Unimplemented, "nothing to initialise"));
        }
        self.calls.push(format!("initialize {}", place(call)));
        let lost = self.admit("initialize", &call.sensitive)?;
        let Some(vm) = self.vms.iter_mut().find(|vm| is_of(vm, call)) else {
            return Err(DriverError::new(Code::NotFound, "there is no such VM"));
        };
        vm.initialized = true;
        let vm = vm.clone();
        lost.map_or_else(|| Ok(self.shown(&vm)), Err)
    }

    fn delete(&mut self, call: &Call) -> Result<Progress<Option<String>>, DriverError> {
        self.pass_time();
        self.calls.push(format!("delete {}", place(call)));
        let lost = self.admit("delete", &call.sensitive)?;
        let busy = self.busy(Busy::Going);
        self.find(call)?;
        let Some(at) = self.vms.iter().position(|vm| is_of(vm, call)) else {
            self.clear_after(&place(call), call.machine.provider_id.as_deref().unwrap_or_default());
            return lost.map_or(Ok(Progress::Done(None)), Err);
        };
        if busy.is_some() {
            let vm = &mut self.vms[at];
            vm.busy = vm.busy.filter(|(busy, _)| *busy == Busy::Going).or(busy);
            return lost.map_or(Ok(under_way(format!("{} is being deleted", vm.provider_id))), Err);
        }
        let gone = self.vms.remove(at);
        self.clear_after(&gone.machine, &gone.provider_id);
        lost.map_or(Ok(Progress::Done(None)), Err)
    }
}

/// The cloud tells nobody when it is done.
fn under_way<T>(message: String) -> Progress<T> {
    Progress::UnderWay(UnderWay { message, watched: false, last_known_state: None })
}

/// What VMs of a class are marked with: classes of one name are told apart by their UIDs.
fn mark(class: &Class) -> &str {
    if class.uid.is_empty() { &class.name } else { &class.uid }
}

/// What a list shows: a VM that was there before is of no class, unless it was given with one.
fn listed(state: &mut State, call: &ListCall) -> Result<BTreeMap<String, String>, DriverError> {
    state.pass_time();
    state.asked.push(format!("list {}", call.class.name));
    if let Some(error) = state.admit("list", &call.sensitive)? {
        return Err(error);
    }
    let of_class = |vm: &&Instance| vm.class.as_deref() == Some(mark(&call.class));
    let name = |vm: &Instance| vm.machine.rsplit('/').next().unwrap_or_default().to_owned();
    Ok(state.vms.iter().filter(of_class).map(|vm| (vm.provider_id.clone(), name(vm))).collect())
}

/// Whether a VM is the one of a call: by what the machine says, else by who it was made for.
fn is_of(vm: &Instance, call: &Call) -> bool {
    let same_uid = !call.machine.uid.is_empty() && vm.uid == call.machine.uid;
    same_uid || call.machine.provider_id.as_deref() == Some(&*vm.provider_id)
}

impl Driver for Cloud {
    fn create<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.lock().create(call) })
    }

    fn initialize<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.lock().initialize(call) })
    }

    fn status<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.lock().status(call) })
    }

    fn delete<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Option<String>>> {
        Box::pin(async move { self.lock().delete(call) })
    }

    fn list<'a>(&'a self, call: &'a ListCall) -> DriverFuture<'a, BTreeMap<String, String>> {
        Box::pin(async move { listed(&mut self.lock(), call) })
    }
}
