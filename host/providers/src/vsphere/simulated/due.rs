//! What happens by itself as time goes by: tasks run and end, guests get addresses and shut down.

use std::time::Duration;

use tokio::time::Instant;

use super::config::NicConfig;
use super::methods::{extra_of, invalid_power};
use super::state::{Deed, State, Task, Vm};
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::words::{FaultView, Power};

/// How long a guest takes to shut down.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(5);

const GIB_IN_KIB: i64 = 1024 * 1024;

impl State {
    /// When something happens next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let tasks = self.tasks.values().filter_map(|task| {
            let pending = task.pending.as_ref()?;
            Some(if task.state == "queued" { pending.runs } else { pending.ends })
        });
        let guests = self.vms.values().flat_map(|vm| [vm.ips_at, vm.off_at]).flatten();
        tasks.chain(guests).min()
    }

    /// Has all happen that is due, in the order in which it is; tells whether anything did.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        let before = self.version;
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            self.happen(due);
        }
        self.version != before
    }

    fn happen(&mut self, at: Instant) {
        self.version += 1;
        let due_task = self.tasks.iter().find_map(|(id, task)| {
            let pending = task.pending.as_ref()?;
            let due = if task.state == "queued" { pending.runs } else { pending.ends };
            (due <= at).then(|| id.clone())
        });
        if let Some(id) = due_task {
            match self.tasks.get_mut(&id) {
                Some(task) if task.state == "queued" => task.state = "running".to_owned(),
                Some(_) | None => self.finish(&id),
            }
            return;
        }
        let seed = self.seed;
        for (id, vm) in &mut self.vms {
            if vm.ips_at.is_some_and(|due| due <= at) {
                vm.ips_at = None;
                vm.get_addresses(seed, MoRef::new("VirtualMachine", id).number_or_zero());
            }
            if vm.off_at.is_some_and(|due| due <= at) {
                vm.off_at = None;
                vm.switch_off();
            }
        }
    }

    /// Has a task under way end now.
    pub(crate) fn finish(&mut self, id: &str) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        let Some(pending) = task.pending.take() else { return };
        let entity = task.entity.clone();
        let result = match pending.deed {
            Deed::Clone { name, folder, datastore, config } => {
                self.make_clone(&entity, &name, &folder, &datastore, config).map(Some)
            }
            Deed::Reconfigure { extra } => self.with_vm(&entity, |vm| vm.reconfigure(extra)),
            Deed::Power(power) => {
                let ip_seconds = self.ip_seconds;
                self.with_vm(&entity, |vm| vm.switch(power, ip_seconds))
            }
            Deed::Destroy => self.destroy(&entity),
            Deed::Fail(fault) => Err(fault),
        };
        let Some(task) = self.tasks.get_mut(id) else { return };
        match result {
            Ok(result) => *task = Task { state: "success".to_owned(), result, ..task.clone() },
            Err(fault) => *task = Task { state: "error".to_owned(), fault: Some(fault), ..task.clone() },
        }
        self.version += 1;
    }

    fn with_vm(
        &mut self,
        reference: &MoRef,
        change: impl FnOnce(&mut Vm) -> Result<(), FaultView>,
    ) -> Result<Option<MoRef>, FaultView> {
        let vm = self.vms.get_mut(&reference.id).ok_or_else(gone)?;
        change(vm).map(|()| None)
    }

    fn destroy(&mut self, reference: &MoRef) -> Result<Option<MoRef>, FaultView> {
        let vm = self.vms.get(&reference.id).ok_or_else(gone)?;
        if vm.power == Power::On {
            return Err(invalid_power(Power::Off, vm.power));
        }
        self.vms.remove(&reference.id);
        Ok(None)
    }

    fn make_clone(
        &mut self,
        template: &MoRef,
        name: &str,
        folder: &MoRef,
        datastore: &MoRef,
        config: Object,
    ) -> Result<MoRef, FaultView> {
        let config = Data::Object(config);
        let source = self.vms.get(&template.id).cloned().ok_or_else(gone)?;
        if self.vm_named(folder, name).is_some() {
            return Err(fault("DuplicateName", format!("The name '{name}' already exists.")));
        }
        let disks = disks_of(&source, &config);
        let gib = disks.iter().sum::<i64>() / GIB_IN_KIB;
        if !self.inventory.take_room(datastore, gib) {
            let place = self.inventory.name(datastore).unwrap_or_default();
            return Err(fault("NoDiskSpace", format!("Insufficient disk space on datastore '{place}'.")));
        }
        let (id, number) = self.next_vm();
        let given = config.text_of("instanceUuid").into_owned();
        let vm = Vm {
            name: name.to_owned(),
            folder: folder.clone(),
            instance_uuid: if given.is_empty() { self.uuid(number, 1) } else { given },
            bios_uuid: self.uuid(number, 2),
            template: false,
            power: Power::Off,
            accessible: true,
            disks,
            snapshot: None,
            nics: self.cards_of(&source, &config, number),
            // vCenter merges; the simulator that its library ships replaces. Nothing here rests on either.
            extra: source.extra.into_iter().chain(extra_of(&config)).collect(),
            tools_running: false,
            host: source.host,
            recent: Vec::new(),
            ips_at: None,
            off_at: None,
        };
        self.vms.insert(id.clone(), vm);
        Ok(MoRef::new("VirtualMachine", &id))
    }

    fn cards_of(&self, source: &Vm, config: &Data, number: u64) -> Vec<NicConfig> {
        let changes = config.items_of("deviceChange");
        let removed: Vec<i64> = changes
            .iter()
            .filter(|change| change.text_of("operation") == "remove")
            .filter_map(|change| change.get("device")?.get("key")?.int())
            .collect();
        let kept = source.nics.iter().zip(4000_i64..).filter(|(_, key)| !removed.contains(key));
        let added = changes.iter().filter(|change| change.text_of("operation") == "add");
        let added = added
            .filter_map(|change| change.get("device"))
            .filter(|device| device.get("addressType").is_some());
        let added = added.zip(0_u64..).map(|(device, index)| {
            let own = device.text_of("macAddress");
            let made =
                format!("00:50:56:{:02x}:{:02x}:{:02x}", (number >> 8) & 0x3f, number & 0xff, index & 0xff);
            let backing = device.get("backing");
            let group = backing.and_then(|backing| backing.get("port")?.get("portgroupKey")?.text());
            let group = group.map(|key| MoRef::new("DistributedVirtualPortgroup", &key));
            let network = match group.as_ref().and_then(|group| self.inventory.name(group)) {
                Some(name) => name.to_owned(),
                None => backing.map(|backing| backing.text_of("deviceName").into_owned()).unwrap_or_default(),
            };
            NicConfig { mac: if own.is_empty() { made } else { own.into_owned() }, network, ips: vec![] }
        });
        kept.map(|(nic, _)| NicConfig { ips: vec![], ..nic.clone() }).chain(added).collect()
    }
}

fn disks_of(source: &Vm, config: &Data) -> Vec<i64> {
    let edits = config.items_of("deviceChange").iter().filter(|change| change.text_of("operation") == "edit");
    let sizes: Vec<(i64, i64)> = edits
        .filter_map(|change| change.get("device"))
        .filter_map(|device| Some((device.get("key")?.int()?, device.get("capacityInKB")?.int()?)))
        .collect();
    let size =
        |(size, key): (&i64, i64)| sizes.iter().find(|(of, _)| *of == key).map_or(*size, |(_, new)| *new);
    source.disks.iter().zip(2000_i64..).map(size).collect()
}

impl Vm {
    fn reconfigure(&mut self, extra: Vec<(String, String)>) -> Result<(), FaultView> {
        for (key, value) in extra {
            if value.is_empty() {
                self.extra.remove(&key);
            } else {
                self.extra.insert(key, value);
            }
        }
        Ok(())
    }

    fn switch(&mut self, to: Power, ip_seconds: Option<u64>) -> Result<(), FaultView> {
        if self.power == to {
            return Err(invalid_power(to, self.power));
        }
        if to == Power::On {
            self.power = Power::On;
            self.tools_running = true;
            self.ips_at = ip_seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        } else {
            self.switch_off();
        }
        Ok(())
    }

    /// Off, with all that a guest has only while it runs.
    pub(crate) fn switch_off(&mut self) {
        self.power = Power::Off;
        self.tools_running = false;
        self.ips_at = None;
        self.off_at = None;
        self.nics.iter_mut().for_each(|nic| nic.ips.clear());
    }

    fn get_addresses(&mut self, seed: u64, number: u64) {
        let third = seed % 200;
        for (nic, index) in self.nics.iter_mut().zip(0_u64..) {
            if nic.ips.is_empty() {
                nic.ips = vec![format!("10.{index}.{third}.{}", number % 250 + 2)];
            }
        }
    }
}

fn gone() -> FaultView {
    fault(
        "ManagedObjectNotFound",
        "The object has already been deleted or has not been completely created.".to_owned(),
    )
}

fn fault(kind: &str, message: String) -> FaultView {
    FaultView { kind: kind.to_owned(), message, existing: None, requested: None }
}
